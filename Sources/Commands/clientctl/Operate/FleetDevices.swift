import ArgumentParser
import BundleCore
import BundleFleet
import BundleValues

/// `clientctl fleet list`.
struct FleetList: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = [RequiredFlags.Need("roster <url|file>")]
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the devices of a roster: which version each runs, since when, and why not the newest.",
        discussion: """
            `feed serve --roster` keeps the roster, and `serve --roster` of each device
            fills it. A device is silent if it sent nothing for two of its intervals. With
            --silent, only devices that sent nothing for that time are listed, and the
            exit status is 63 if there are any.

            Examples:
              clientctl fleet list --roster https://updates.example.com/roster \\
                --roster-token-file operator.token
              clientctl fleet list --roster /var/lib/clientctl/roster.db --silent 24h
              clientctl fleet list --roster /var/lib/clientctl/roster.db --version 1.5.0
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
        filter.name = name
        if let name = filter.name, !RosterPost.isShort(name) {
            throw ValidationError("--name takes at most \(RosterPost.longestName) characters.")
        }
        let now = Timestamp.now
        let rows = try await source.access(way).rows(filter, at: now)
        Output.give(
            json: common.json,
            ["devices": .array(rows.map { .object($0.json(at: now)) })], lines: FleetText.lines(rows, at: now))
        if filter.silent != nil && !rows.isEmpty { throw ExitCode(ExitTable.silent) }
    }
}

/// `clientctl fleet show`.
struct FleetShow: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = [RequiredFlags.Need("roster <url|file>")]
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show one device of a roster, and how to aim a release at it.",
        discussion: """
            It also shows the codes of what `doctor` found on the device.

            Example:
              clientctl fleet show "Lobby 3" --roster /var/lib/clientctl/roster.db
            """)

    @Argument(help: "The name of the device, or its ID, such as device:1f0a2b3c4d5e6f70.")
    var device: String

    @OptionGroup var source: RosterPlaceOptions
    @OptionGroup(title: "Network") var way: WayOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let now = Timestamp.now
        let row = try await source.access(way).device(device, at: now)
        Output.give(json: common.json, row.json(at: now), lines: FleetText.details(row, at: now))
    }
}

/// `clientctl fleet forget`.
struct FleetForget: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = [RequiredFlags.Need("roster <url|file>")]
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Remove one device from a roster, with the key that is pinned for it.",
        discussion: """
            The next message of the device adds it again, with the key that signs it. Do
            this when a device is gone. After the store of a device was replaced, give
            --pin-key: the device stays in the roster, and only this key signs for it.
            `clientctl keys show STORE/roster.key.pem` prints it on the device, and `fleet
            show` prints the keys that the host pinned and refused.

            Examples:
              clientctl fleet forget "Lobby 3" --roster /var/lib/clientctl/roster.db
              clientctl fleet forget "Lobby 3" --pin-key KEY-ID \\
                --roster /var/lib/clientctl/roster.db
            """)

    @Argument(help: "The name of the device, or its ID, such as device:1f0a2b3c4d5e6f70.")
    var device: String

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
        let access = try source.access(way)
        let row = try await access.device(device, at: .now)
        try await access.forget(row, pinning: key)
        let name = "\(row.target) \(UntrustedName.display(row.post.name))"
        Output.give(
            json: common.json, afterChange: true,
            [
                "outcome": .string(key == nil ? "forgotten" : "pinned"), "device": .string(row.post.device),
                "name": .string(row.post.name), "key": .string(orNull: key),
            ],
            lines: [key.map { "only the key \($0) signs for \(name) now" } ?? "forgot \(name)"])
    }
}

/// The rows of a roster for people.
enum FleetText {
    private static let nameWidth = 24

    static func lines(_ rows: [RosterRow], at now: Timestamp) -> [String] {
        var table: [[String]] = [["NAME", "RUNS", "STATE", "SEEN", "NEEDS ATTENTION", "WAITS FOR"]]
        for row in rows {
            table.append([
                name(row), row.post.runs ?? "-", row.post.state.rawValue, ago(row.seen, now: now),
                RosterRule.reason(row, at: now) ?? "-", RosterRule.waits(row) ?? "-",
            ])
        }
        let widths = (0..<5).map { column in table.map { $0[column].count }.max() ?? 0 }
        let lines = table.map { cells in
            let padded = zip(cells, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            return (padded + cells.suffix(1)).joined(separator: "  ")
        }
        return lines + [counted(rows.count, "device")]
    }

    private static func name(_ row: RosterRow) -> String {
        row.post.name.isEmpty ? row.target : UntrustedName.display(row.post.name, limit: nameWidth)
    }

    static func details(_ row: RosterRow, at now: Timestamp) -> [String] {
        let post = row.post
        func line(_ label: String, value: String?) -> [String] { value.map { ["  \(label): \($0)"] } ?? [] }
        let channel = post.channel.map { $0 + (post.sequence.map { ", sequence \($0)" } ?? "") }
        var lines = ["\(name(row)) (\(row.target))"]
        lines += line("runs", value: "\(post.runs ?? "nothing") (\(post.state.rawValue)) since \(row.since)")
        lines += line("next", value: post.next)
        let reasons = RosterRule.reasons(row, at: now)
        lines += line("needs attention", value: reasons.isEmpty ? nil : reasons.joined(separator: ", "))
        lines += line("waits for", value: RosterRule.waits(row))
        lines += line("screen", value: post.screen?.rawValue)
        lines += line("channel", value: channel)
        lines += line("last check", value: post.checked.map { "\($0)\(post.code.map { ", failed with \($0)" } ?? "")" })
        lines += line("blocked", value: post.blocked.isEmpty ? nil : post.blocked.joined(separator: ", "))
        let interval = DurationText(.seconds(post.interval))
        lines += line("last message", value: "\(row.seen), \(ago(row.seen, now: now)) ago; one every \(interval)")
        lines += line(
            "another key signed",
            value: row.conflict.map {
                "\(counted(row.conflicts, "message")), the last at \($0)"
                    + (row.refusedKey.map { ", key \(UntrustedName.display($0))" } ?? "")
            })
        lines += line("pinned key", value: row.key.map { UntrustedName.display($0) })
        lines += line("refused an old message", value: row.older.map { "at \($0)" })
        lines += line("application", value: post.appId)
        lines += line("programs", value: "clientctl \(post.program)" + (post.shell.map { ", shell \($0)" } ?? ""))
        lines += post.findings.map { "  doctor: \($0), see the guide's page on doctor" }
        let target = "clientctl release target \(row.target) --only --version VERSION --feed FEED"
        lines += line(
            "aim a release at it", value: "\(target) --channel \(post.channel ?? "CHANNEL") --channel-key KEY")
        return lines
    }

    private static func ago(_ moment: Timestamp, now: Timestamp) -> String {
        let seconds = max(0, now.secondsSinceEpoch - moment.secondsSinceEpoch)
        for (unit, length) in [("d", 86_400), ("h", 3600), ("m", 60)] where seconds >= length {
            return "\(seconds / length)\(unit)"
        }
        return "\(seconds)s"
    }
}
