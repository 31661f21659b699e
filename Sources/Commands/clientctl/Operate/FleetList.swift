import ArgumentParser
import BundleCore
import BundleFleet
import BundleValues

/// `clientctl fleet list`.
struct FleetList: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = RosterPlaceOptions.required
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the devices of a roster: which version each runs, since when, and why not the newest.",
        discussion: """
            `feed serve --roster` keeps the roster, and `serve --roster` of each device
            fills it. The first line counts the devices that have the newest release of
            their channel. Devices that need attention come first. A device is silent if
            it sent nothing for two of its intervals. With --silent, only devices that sent
            nothing for that time are listed, and the exit status is 63 if there are any.
            With --expect, the names in the file that no device has are rows, too.

            Examples:
              clientctl fleet list --roster https://updates.example.com/roster \\
                --roster-token-file operator.token
              clientctl fleet list --roster /var/lib/clientctl/roster.db --attention
              clientctl fleet list --roster /var/lib/clientctl/roster.db --silent 24h
              clientctl fleet list --roster /var/lib/clientctl/roster.db --version 1.5.0
              clientctl fleet list --roster /var/lib/clientctl/roster.db --behind \\
                --group qa
            """)

    @Option(help: ArgumentHelp("Only devices without a message for this time, such as 24h.", valueName: "duration"))
    var silent: String?

    @Option(help: ArgumentHelp("Only devices that run this version.", valueName: "version"))
    var version: String?

    @Option(
        help: ArgumentHelp(
            "Only devices whose client is in this state: good, trial, failed, blocked, seed or none.",
            valueName: "state"), completion: .list(RosterPost.ClientState.allCases.map(\.rawValue)))
    var state: String?

    @Option(help: ArgumentHelp("Only devices whose name contains this text.", valueName: "text"))
    var name: String?

    @Option(help: ArgumentHelp("Only devices of this group, which --group of the device names.", valueName: "group"))
    var group: String?

    @Flag(help: "Only devices for which a person must do something.")
    var attention = false

    @Flag(help: "Only devices that work as intended and wait for something.")
    var waits = false

    @Flag(help: "Only devices that do not run the newest release of their channel.")
    var behind = false

    @Flag(help: "Only expected devices that were never seen.")
    var neverSeen = false

    @Option(
        help: ArgumentHelp(
            "File with the names of all devices that should be in the roster, one per line (default: that of the host).",
            valueName: "file"), completion: .file())
    var expect: String?

    @OptionGroup var source: RosterPlaceOptions
    @OptionGroup(title: "Network") var way: WayOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        var filter = RosterFilter()
        filter.silent = try FlagValue.duration(silent, of: "silent")
        filter.version = version
        filter.state = state
        if let state = filter.state, RosterPost.ClientState(rawValue: state) == nil {
            let states = RosterPost.ClientState.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("--state takes one of \(states), not \(UntrustedName.display(state)).")
        }
        filter.memberOf = group
        if let group, !DeviceGroup.isNamedByReleases(group) {
            throw ValidationError("--group takes the name of a group, not \(UntrustedName.display(group)).")
        }
        filter.name = name
        if let name = filter.name, !RosterPost.isShort(name) {
            throw ValidationError("--name takes at most \(RosterPost.longestName) characters.")
        }
        let groups: [(RosterGroup, Bool)] = [
            (.attention, attention), (.waits, waits), (.behind, behind), (.never, neverSeen),
        ]
        filter.groups = Set(groups.filter(\.1).map(\.0))
        let expected = try expect.map { try ExpectedDevices(file: $0) }
        let now = Timestamp.now
        let list = try await source.access(way).list(filter, expecting: expected, at: now)
        if neverSeen, let inventory = list.inventory, inventory.neverSeen == nil {
            throw ValidationError("--never-seen needs the names of the devices that should be there: give --expect.")
        }
        let missing = filter.neverSeen(list.inventory?.neverSeen ?? [])
        Output.give(
            json: common.json,
            [
                "devices": .array(list.rows.map { .object($0.json(at: now)) }),
                "neverSeen": .array(missing.map(JSONValue.string)),
                "inventory": list.inventory.map { .object($0.json) } ?? .null,
            ], lines: FleetText.lines(list, missing: missing, at: now))
        if filter.silent != nil && !list.rows.isEmpty { throw ExitCode(ExitTable.silent) }
    }
}

/// `clientctl fleet show`.
struct FleetShow: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = RosterPlaceOptions.required
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show one device of a roster, what to do, and how to aim a release at it.",
        discussion: """
            Shows each reason for which the device needs attention with its code and its
            remedy, and everything that the device sent. The code has a page in the guide.
            --save-picture writes the last picture of its screen, a JPEG or a PNG.

            Examples:
              clientctl fleet show "Lobby 3" --roster /var/lib/clientctl/roster.db
              clientctl fleet show "Lobby 3" --roster /var/lib/clientctl/roster.db \\
                --save-picture lobby.jpg
            """)

    @Argument(help: "The name of the device, or its ID, such as device:1f0a2b3c4d5e6f70.")
    var device: String

    @Option(
        help: ArgumentHelp("Write the last picture of the screen to this file.", valueName: "file"), completion: .file()
    )
    var savePicture: String?

    @Option(
        help: ArgumentHelp("Write the picture of the last failed start to this file.", valueName: "file"),
        completion: .file())
    var saveFailedPicture: String?

    @OptionGroup var source: RosterPlaceOptions
    @OptionGroup(title: "Network") var way: WayOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let now = Timestamp.now
        let access = try source.access(way)
        let row = try await access.device(device, at: now)
        try await write(.last, of: row, from: access, to: savePicture)
        try await write(.failed, of: row, from: access, to: saveFailedPicture)
        Output.give(json: common.json, row.json(at: now), lines: FleetText.details(row, at: now))
    }

    private func write(
        _ kind: PicturePost.Kind, of row: RosterRow, from access: RosterAccess, to path: String?
    ) async throws {
        guard let path else { return }
        guard let picture = try await access.picture(of: row.post.device, kind) else {
            let what =
                kind == .last ? "picture of \(row.displayName)" : "picture of a failed start of \(row.displayName)"
            throw UpdateFailure(
                .usage, subject: row.target,
                "The roster has no \(what). The device needs `serve --picture`, and the host `feed serve --roster-pictures`."
            )
        }
        try PageFile(path, of: kind == .last ? "save-picture" : "save-failed-picture").write(picture.bytes)
    }
}

/// `clientctl fleet forget`.
struct FleetForget: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = RosterPlaceOptions.required
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Remove devices from a roster, with the keys that are pinned for them.",
        discussion: """
            The next message of a device adds it again, with the key that signs it. Do this
            when a device is gone. --silent removes all devices without a message for that
            time, and --dry-run only prints them. After the store of a device was replaced,
            give --pin-key: the device stays in the roster, and only this key signs for it.
            `clientctl keys show STORE/roster.key.pem` prints it on the device, and `fleet
            show` prints the keys that the host pinned and refused.

            Examples:
              clientctl fleet forget "Lobby 3" "Canteen" \\
                --roster /var/lib/clientctl/roster.db
              clientctl fleet forget --silent 30d --roster /var/lib/clientctl/roster.db \\
                --dry-run
              clientctl fleet forget "Lobby 3" --pin-key KEY-ID \\
                --roster /var/lib/clientctl/roster.db
            """)

    @Argument(help: "(required, or --silent) Names of devices, or IDs, such as device:1f0a2b3c4d5e6f70.")
    var devices: [String] = []

    @Option(
        help: ArgumentHelp("The devices without a message for this time, such as 30d.", valueName: "duration"))
    var silent: String?

    @Flag(help: "Print what would be removed, and remove nothing.")
    var dryRun = false

    @Option(
        help: ArgumentHelp(
            "Keep the device, and pin the key with this ID of 64 hex digits instead of the present one.",
            valueName: "id"))
    var pinKey: String?

    @OptionGroup var source: RosterPlaceOptions
    @OptionGroup(title: "Network") var way: WayOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let key = pinKey
        if let key, !RosterFile.isKey(key) {
            throw ValidationError("--pin-key takes the ID of a key, 64 hex digits, not \(UntrustedName.display(key)).")
        }
        let silent = try FlagValue.duration(silent, of: "silent")
        switch (devices.isEmpty, silent) {
        case (true, nil): throw ValidationError("Name a device, or give --silent.")
        case (false, _?): throw ValidationError("Name devices or give --silent, not both.")
        case (false, nil) where devices.contains(""): throw ValidationError("The name of a device is empty.")
        case (true, _?) where key != nil: throw ValidationError("--pin-key needs the name of one device.")
        case (false, nil) where key != nil && devices.count > 1:
            throw ValidationError("--pin-key takes the key of one device: name one.")
        default: break
        }
        let access = try source.access(way)
        // Nothing is removed if a name is wrong.
        let rows = try await selected(by: silent, from: access)
        if !dryRun { for row in rows { try await access.forget(row, pinning: key) } }
        let outcome = dryRun ? "dryRun" : rows.isEmpty ? "unchanged" : key == nil ? "forgotten" : "pinned"
        let devices = rows.map { row in
            JSONValue.object(["device": .string(row.post.device), "name": .string(row.post.name)])
        }
        Output.give(
            json: common.json, afterChange: !dryRun && !rows.isEmpty,
            ["outcome": .string(outcome), "devices": .array(devices), "key": .string(orNull: key)],
            lines: rows.map { line($0, key) } + (rows.isEmpty ? ["no device was silent for that time"] : []))
    }

    private func selected(by silent: Duration?, from access: RosterAccess) async throws -> [RosterRow] {
        let now = Timestamp.now
        if silent != nil {
            var filter = RosterFilter()
            filter.silent = silent
            return try await access.list(filter, at: now).rows
        }
        var rows: [RosterRow] = []
        for name in devices {
            let row = try await access.device(name, at: now)
            if !rows.contains(where: { $0.post.device == row.post.device }) { rows.append(row) }
        }
        return rows
    }

    private func line(_ row: RosterRow, _ key: String?) -> String {
        let name = "\(row.target) \(UntrustedName.display(row.post.name))"
        return switch (key, dryRun) {
        case (let key?, true): "would pin the key \(key) for \(name)"
        case (let key?, false): "only the key \(key) signs for \(name) now"
        case (nil, true): "would forget \(name)"
        case (nil, false): "forgot \(name)"
        }
    }
}

/// The rows of a roster for people.
enum FleetText {
    private static let nameWidth = 24

    static func lines(_ list: RosterAccess.List, missing: [String], at now: Timestamp) -> [String] {
        let header = ["NAME", "RUNS", "STATE", "SEEN", "NEEDS ATTENTION", "WAITS FOR"]
        let urgent = list.rows.prefix { $0.place(at: now).isUrgent }
        let never = missing.map { [UntrustedName.display($0, limit: nameWidth), "-", "-", "never", "never seen", "-"] }
        let table =
            [header] + urgent.map { cells($0, at: now) } + never
            + list.rows.dropFirst(urgent.count).map { cells($0, at: now) }
        let widths = (0..<5).map { column in table.map { $0[column].count }.max() ?? 0 }
        let lines = table.map { cells in
            let padded = zip(cells, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            return (padded + cells.suffix(1)).joined(separator: "  ")
        }
        return [list.inventory?.text].compactMap(\.self) + lines + [counted(table.count - 1, "device")]
    }

    private static func cells(_ row: RosterRow, at now: Timestamp) -> [String] {
        let reason = row.reasons(at: now).first.map { UntrustedName.display($0.text(at: now)) }
        return [
            name(row), UntrustedName.display(row.post.runs ?? "-"), row.post.state.rawValue, ago(row.seen, now: now),
            reason ?? "-", RosterRule.waits(row) ?? "-",
        ]
    }

    private static func name(_ row: RosterRow) -> String {
        row.post.name.isEmpty ? row.target : UntrustedName.display(row.post.name, limit: nameWidth)
    }

    static func details(_ row: RosterRow, at now: Timestamp) -> [String] {
        let reasons = row.reasons(at: now).flatMap { reason in
            let code = reason.code.map { " (\(UntrustedName.display($0)))" } ?? ""
            return [
                "  needs attention: \(UntrustedName.display(reason.text(at: now)))\(code)", "    \(reason.remedy)",
            ]
        }
        return [row.displayName] + reasons
            + row.facts(at: now).map { "  \($0.name): \(UntrustedName.display($0.value, limit: 400))" }
    }

    private static func ago(_ moment: Timestamp, now: Timestamp) -> String {
        let seconds = max(0, now.secondsSinceEpoch - moment.secondsSinceEpoch)
        for (unit, length) in [("d", 86_400), ("h", 3600), ("m", 60)] where seconds >= length {
            return "\(seconds / length)\(unit)"
        }
        return "\(seconds)s"
    }
}
