import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import BundleShell

struct Install: AsyncParsableCommand, ConfinedCommand, RequiringCommand {
    static let alsoRequired = UpdateOptions.required
    static let configuration = CommandConfiguration(
        commandName: "install",
        abstract: "Install the newest release that this device can run.",
        discussion: """
            The command downloads the manifest, verifies its signature and decides whether
            to install the release. It then downloads and verifies the archive, and
            unpacks it into STORE/clients/vX.Y.Z. A failure leaves the store as it was.
            Run the command again; no cleanup is necessary.

            Examples:
              clientctl install --trust release.pub.pem \\
                --manifest https://updates.example.com/manifest.json \\
                --store /var/lib/clientctl
              clientctl install --trust /etc/kiosk/keys \\
                --manifest /media/usb/feed/manifest.json \\
                --store /var/lib/clientctl --json
              clientctl install --trust trust.json \\
                --channel https://updates.example.com/channels/stable.json \\
                --store /var/lib/clientctl
              clientctl install --meteor https://app.example.com/ \\
                --store /var/lib/clientctl \\
                --seed /usr/share/kiosk/www

            With --channel, the command follows a channel file. The device then applies
            staged rollouts, recalls and expiry. A trust root can rotate the keys.

            With --meteor, the command installs a hot code push from a Meteor server. It
            downloads only files that neither the seed nor an installed client has.

            If a release is not for this device yet, the outcome is `notInRollout`; if its
            download waits for hours, another network or a delta, it is `waiting`. The
            exit status is then 0, or 3 if the device has no client at all, as after an
            update from an empty channel.
            """)

    @OptionGroup var update: UpdateOptions
    @Flag(help: "Install programs for `clientctl run`, into a store of their own.")
    var program = false

    @Option(
        help: ArgumentHelp(
            "Folder of --starts of `clientctl run`, whose verdicts decide which programs stay installed.",
            valueName: "dir"), completion: .directory)
    var starts: String?

    @OptionGroup(title: "Reports") var reporting: ReportOptions
    @OptionGroup(title: "Reports") var listed: RosterOptions
    @OptionGroup var common: CommonOptions

    func needs() -> (confinement: Confinement, startsPrograms: Bool) {
        (Confinement(made: FlagValue.folders(update.store)), false)
    }

    func run() async throws {
        let progress = Progress()
        try Wiring.requireSeed(update)
        let sources = try Wiring.sources(update, of: program ? .program : .client, report: progress.observer)
        if let starts { try ProgramStarts.adopt(starts, into: FlagValue.required(update.store, of: "store")) }
        let hasSeed = update.seed != nil
        let reporter = try reporting.reporter(update)
        let roster = try listed.sender(update, configuration: try Wiring.configuration(update, verifies: false))
        if reporter != nil { try reporting.turn(on: true, update) }
        var answers: [InstallOutput] = []
        var failure: (any Error)?
        // A failure of one source does not stop the others.
        for source in sources {
            do { answers.append(InstallOutput(outcome: try await source.update(), hasSeed: hasSeed)) } catch {
                failure = failure ?? error
            }
        }
        progress.end()
        if let failure {
            if !common.json { Output.give(json: false, afterChange: true, [:], lines: answers.flatMap(\.lines)) }
            await roster?.sendOnce(after: UpdateFailure(failure))
            throw Self.answered(failure, beside: answers)
        }
        // The first source that changed something gives the outcome of all sources.
        guard let result = answers.first(where: \.hasChanged) ?? answers.first else { return }
        var object = result.object
        object["timings"] = .object(progress.timings)
        if answers.count > 1 { object["sources"] = .array(answers.map { .object($0.object) }) }
        Output.give(json: common.json, afterChange: true, object, lines: answers.flatMap(\.lines))
        await reporter?.sendOnce()
        await roster?.sendOnce()
        if !result.leavesClient { throw ExitCode(ExitTable.nothingToDo) }
    }

    /// Returns `error` with the JSON members of an incompatible shell and of the results of other sources.
    private static func answered(_ error: any Error, beside answers: [InstallOutput]) -> any Error {
        let failure = UpdateFailure(error)
        var members: JSONObject = [:]
        if failure.code == .incompatibleShell {
            members["outcome"] = .string("incompatible")
            members["version"] = .string(failure.subject)
        }
        if !answers.isEmpty { members["sources"] = .array(answers.map { .object($0.object) }) }
        return members.members.isEmpty ? error : FailureWithOutput(failure: failure, members: members)
    }
}

/// The result of `install` for one source.
struct InstallOutput {
    let outcome: UpdateOutcome
    /// Whether the shell contains a seed.
    let hasSeed: Bool

    var hasChanged: Bool {
        switch outcome {
        case .installed, .chosen: true
        case .upToDate, .notInRollout, .waiting: false
        }
    }

    /// Whether the device has a client to show. False if its first release is not for this device yet.
    var leavesClient: Bool {
        let (inventory, newest): (Inventory, ClientName)
        switch outcome {
        case .notInRollout(_, let found, let name, _), .waiting(_, let found, let name, _),
            .upToDate(_, let found, let name):
            (inventory, newest) = (found, name)
        case .installed, .chosen: return true
        }
        return newest != .embedded || hasSeed || inventory.ledger.seed != nil
    }

    var object: JSONObject {
        switch outcome {
        case .installed(let version, let report), .chosen(let version, let report):
            [
                "outcome": .string("installed"),
                "version": .string(version.description),
                "source": .string(version.source.rawValue),
                "path": .string(orNull: report.bundle?.path),
                "previous": .string(orNull: previous(report)?.description),
                "bytesDownloaded": .integer(report.bytesDownloaded),
                "route": .string(orNull: report.route?.word),
                "routeReason": .string(orNull: report.route?.reason.rawValue),
                "routeDetail": .string(orNull: report.route?.detail),
                "retained": .names(report.retention.retained),
                "removed": .names(report.retention.removed),
                "current": .string(report.current.description),
                "pending": .string(orNull: report.pending?.description),
            ]
        case .upToDate(let offered, let inventory, let newest):
            kept("upToDate", version: newest.shortDescription, offered: offered, inventory: inventory, newest: newest)
        case .notInRollout(let offered, let inventory, let newest, _):
            kept("notInRollout", version: offered.description, offered: offered, inventory: inventory, newest: newest)
        case .waiting(let offered, let inventory, let newest, let wait):
            waiting(
                kept("waiting", version: offered.description, offered: offered, inventory: inventory, newest: newest),
                for: wait)
        }
    }

    private func waiting(_ kept: JSONObject, for wait: FetchWait) -> JSONObject {
        var object = kept
        object["waiting"] = .string(wait.reason.rawValue)
        object["waitingDetail"] = .string(wait.description)
        return object
    }

    private func kept(
        _ outcome: String, version: String, offered: ClientVersion, inventory: Inventory, newest: ClientName
    ) -> JSONObject {
        let ledger = inventory.ledger
        return [
            "outcome": .string(outcome),
            "version": .string(version),
            "source": .string(offered.source.rawValue),
            "path": .string(orNull: newest.version.flatMap(inventory.bundle)?.path),
            "previous": .string(orNull: (hasSeed ? ledger.previous : ledger.known(ledger.previous))?.description),
            "bytesDownloaded": .integer(0),
            "route": .null, "routeReason": .null, "routeDetail": .null,
            "retained": .names(inventory.bundles.map(\.name)),
            "removed": .array([]),
            "current": .string(ledger.current.description),
            "pending": .string(orNull: ledger.pending?.description),
        ]
    }

    var lines: [String] {
        switch outcome {
        case .installed(let version, let report):
            [
                "installed \(version) in \(report.bundle?.path ?? "") "
                    + "(\(ByteCount(bytes: report.bytesDownloaded)) downloaded\(way(report)))"
            ] + roles(report) + report.retention.removed.map { "removed \($0)" }
        case .chosen(let version, let report):
            ["\(version) is already installed as \(report.name)"] + roles(report)
                + report.retention.removed.map { "removed \($0)" }
        case .upToDate(let offered, _, .embedded) where offered.source == .archive:
            ["The channel offers no release. \(rest(.embedded))"]
        case .upToDate(let offered, let inventory, let newest):
            [
                (newest.shortDescription == offered.description
                    ? "up to date: \(offered) is installed"
                    : "up to date: \(newest.shortDescription) is installed, the feed offers \(offered)")
                    + (inventory.ledger.failureBeforeRetry(of: newest).map { ". It \($0.sequel)" } ?? "")
            ] + recalls(inventory, above: newest)
        case .notInRollout(let offered, _, let newest, let detail):
            ["\(offered) is not for this device yet: \(detail). \(rest(newest))"]
        case .waiting(let offered, _, let newest, let wait):
            ["\(offered) waits for its download: \(wait). \(rest(newest))"]
        }
    }

    /// Returns a line for each installed release that is higher than the client that runs next, and that the channel recalls.
    private func recalls(_ inventory: Inventory, above newest: ClientName) -> [String] {
        inventory.bundles.reversed().compactMap { bundle in
            guard let version = bundle.version.semantic, newest.version?.semantic.map({ version > $0 }) ?? true,
                let withdrawal = inventory.ledger.feed.withdrawal(of: version), withdrawal != .leftOut
            else { return nil }
            return "\(version) is \(withdrawal). This device goes back to \(newest.shortDescription)"
        }
    }

    private func rest(_ newest: ClientName) -> String {
        if !leavesClient { return "Nothing was installed; this device has no client." }
        let kept = newest == .embedded ? "the seed" : newest.shortDescription
        return "Nothing was installed; this device keeps \(kept)."
    }

    /// Returns the delta that was used, or the reason why an available delta was not used.
    private func way(_ report: InstallReport) -> String {
        guard let route = report.route, let detail = route.detail else { return "" }
        return route.reason == .taken ? " as a delta \(detail)" : "; no delta: \(detail)"
    }

    private func roles(_ report: InstallReport) -> [String] {
        [
            "current \(report.current)" + (report.pending.map { ", next \($0)" } ?? "")
                + (previous(report) == report.current
                    ? "" : ", previous \(previous(report)?.description ?? "none")")
        ]
    }

    /// The previous client. The store records the seed only at the first launch, so this needs `hasSeed`.
    private func previous(_ report: InstallReport) -> ClientName? { report.previous(hasSeed: hasSeed) }
}

extension JSONValue {
    static func names(_ names: [ClientName]) -> JSONValue { .array(names.map { .string($0.description) }) }
}
