import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import BundleShell

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the running client, the next client, and why the others do not run.",
        discussion: """
            The running client is the one that was launched last. A star marks the next
            one. Without --shell-version, the command uses the version of the shell that
            launched last. If no shell has launched, it accepts every shell range. The
            command also reports a kernel without Landlock, the sandbox that install,
            launch, serve and publish use.

            Examples:
              clientctl status --store /var/lib/clientctl
              clientctl status --store /var/lib/clientctl --json
            """)

    @OptionGroup var place: StoreOptions

    @Option(help: ArgumentHelp("Version of the shell (default: the shell that launched last).", valueName: "version"))
    var shellVersion: String?

    @OptionGroup var common: CommonOptions

    func run() throws {
        let store = try place.required()
        let named = try FlagValue.version(shellVersion, of: "shell-version")
        let inventory = try Wiring.inventory(store)
        let ledger = inventory.ledger
        let rows = StatusRule.rows(inventory, shell: named ?? ledger.shell, hasSeed: ledger.mayHaveSeed)
        let stale = StatusRule.staleness(of: ledger.feed, at: .now)
        let complaints = ComplaintFile(store: store).read()
        let session = session(of: store)
        let screen = ScreenFile(store: store).read()?.complaint(at: .now)
        let check = CheckFile(store: store).read()
        let next = rows.first { $0.isNext }?.name
        let isNamed = ledger.seed != nil
        let running = running(ledger, for: session.status)
        let missing = (named ?? ledger.shell).flatMap { SelectionRule.missingShell(inventory, shell: $0) }
        var lines = ["\(running.line); next: \(Self.words(next, hasNamedSeed: isNamed))"]
        for row in rows where isNamed || row.name != .embedded {
            lines.append(line(row))
            lines += (complaints[row.name.description] ?? []).map { "    page error: \($0)" }
        }
        lines += blocked(ledger, rows: rows) + session.lines
        lines += try identity(ledger)
        lines += notes(ledger)
        if let check {
            lines.append("! checks fail since \(check.since) (\(check.since.ago(at: .now))): \(check.reason)")
        }
        if let missing { lines.append("! a newer client needs shell \(missing): update the shell") }
        lines += [stale, screen, ledger.newerNote].compactMap(\.self).map { "! \($0)" }
        lines += landlock.lines
        Output.give(
            json: common.json,
            [
                "running": .string(orNull: running.name?.description), "next": .string(orNull: next?.description),
                "current": .string(ledger.current.description),
                "pending": .string(orNull: ledger.pending?.description),
                "previous": .string(orNull: ledger.known(ledger.previous)?.description),
                "lastKnownGood": .string(orNull: ledger.known(ledger.lastKnownGood)?.description),
                "appId": .string(orNull: ledger.appId),
                "sources": .array(ledger.sources.names.map { .string($0.rawValue) }),
                "offered": .string(orNull: ledger.offered?.description),
                "meteor": ledger.meteorFacts.map(describe) ?? .null,
                "launch": ledger.launch.map(describe) ?? .null,
                "clients": .array(
                    rows.map { describe($0, ledger: ledger, complaints: complaints[$0.name.description] ?? []) }),
                "blocked": .array(ledger.blocks.map(describe)),
                "wanted": .array(ledger.wanted.map(describe)),
                "waiting": ledger.waiting?.json ?? .null,
                "metered": ledger.metered?.json ?? .null,
                "failedCheck": check.map(describe) ?? .null,
                "feed": try describe(ledger.feed, stale: stale),
                "updateRequired": .string(orNull: missing?.description), "session": session.value,
                "screen": .string(orNull: screen),
                "landlock": landlock.value,
            ],
            lines: lines)
    }

    /// Returns the lines about what the device waits for, and its downloads on metered networks.
    private func notes(_ ledger: Ledger) -> [String] {
        var lines = ledger.wanted.map { "! \($0)" }
        if let waiting = ledger.waiting { lines.append("! \(waiting)") }
        if let metered = ledger.metered {
            lines.append("  metered networks: \(ByteCount(bytes: metered.bytes)) in \(metered.month)")
        }
        return lines
    }

    private static func words(_ next: ClientName?, hasNamedSeed: Bool) -> String {
        next == .embedded && !hasNamedSeed ? "the seed, if the shell has one" : next?.description ?? "nothing"
    }

    /// Returns the session of the store. A session that cannot be read becomes a line, so that the rest of the status is still shown.
    private func session(of store: String) -> (status: SessionStatus, value: JSONValue, lines: [String]) {
        do {
            let answer = SessionOutput(try Wiring.sessions(store).record(), at: .now)
            return (answer.status, answer.value, answer.lines)
        } catch {
            let failure = UpdateFailure(error)
            return (
                .unauthenticated(.unreadable),
                .object([
                    "state": .string("unreadable"), "required": .bool(true), "reason": .string(failure.message),
                ]), ["! session: \(failure.message)"]
            )
        }
    }

    /// Whether the kernel of this machine has Landlock.
    private var landlock: (value: JSONValue, lines: [String]) {
        switch Confinement.support {
        case .offered(let version): (.object(["version": .integer(version), "reason": .null]), [])
        case .missing(let reason):
            (.object(["version": .null, "reason": .string(reason)]), ["! no sandbox: \(reason)"])
        }
    }

    /// Returns the client that the device shows to its current user.
    private func running(_ ledger: Ledger, for session: SessionStatus) -> (name: ClientName?, line: String) {
        switch session {
        case .locked: (nil, "running: nothing (the device is locked)")
        case .unauthenticated where ledger.seed == nil && ledger.shell != nil:
            (nil, "running: nothing (no seed for guests)")
        case .unauthenticated: (.embedded, "running: the seed (for guests)")
        case .notRequired, .authenticated:
            lastLaunch(ledger)
        }
    }

    private func lastLaunch(_ ledger: Ledger) -> (name: ClientName?, line: String) {
        guard let launch = ledger.launch else { return (nil, "running: nothing yet") }
        let time = "\(launch.at) (\(launch.at.ago(at: .now)))"
        if launch.verdict == .faulty {
            return (nil, "running: nothing (\(launch.name), launched at \(time), was rolled back)")
        }
        return (launch.name, "running: \(launch.name), launched at \(time)")
    }

    /// Returns lines for blocked versions that are no longer installed.
    private func blocked(_ ledger: Ledger, rows: [StatusRule.Row]) -> [String] {
        ledger.blocks.filter { block in !rows.contains { $0.name.version == block.version } }.map {
            "  \(ClientName.installed($0.version))  not installed; blocked since \($0.since): \($0.reason)"
        }
    }

    /// Returns the line of a client. The reason of a blocked or failed client already contains its state.
    private func line(_ row: StatusRule.Row) -> String {
        let state = ["seed", "blocked", "failed"].contains(row.state) ? "" : "\(row.state): "
        return "\(row.isNext ? "*" : " ") \(row.name)  \(state)\(row.reason)"
    }

    private func describe(_ row: StatusRule.Row, ledger: Ledger, complaints: [String]) -> JSONValue {
        let route = row.name.version.flatMap(ledger.entry)?.route
        return .object([
            "name": .string(row.name.description), "next": .bool(row.isNext), "state": .string(row.state),
            "reason": .string(row.reason), "route": .string(orNull: route?.word),
            "routeReason": .string(orNull: route?.reason.rawValue), "routeDetail": .string(orNull: route?.detail),
            "complaints": .array(complaints.map(JSONValue.string)),
            "failures": .array(
                row.failures.map {
                    .object([
                        "cause": .string($0.cause.rawValue), "detail": .string($0.detail),
                        "at": .string($0.at.description), "retryAt": .string(orNull: $0.retryAt?.description),
                    ])
                }),
        ])
    }

    private func identity(_ ledger: Ledger) throws -> [String] {
        try device(ledger.feed) + (ledger.appId.map { ["application \($0)"] } ?? [])
    }

    /// Returns the line with the group that targets only this device, if the device follows a channel.
    private func device(_ feed: FeedMemory) throws -> [String] {
        guard let single = try feed.deviceId.map(DeviceGroup.single) else { return [] }
        return [
            "  this device is \(single)" + (feed.groups.isEmpty ? "" : ", in \(feed.groups.joined(separator: ", "))")
        ]
    }

    private func describe(_ feed: FeedMemory, stale: String?) throws -> JSONValue {
        .object([
            "trustRoot": feed.trust.map { .integer($0.version) } ?? .null,
            "deviceId": .string(orNull: feed.deviceId),
            "deviceGroup": .string(orNull: try feed.deviceId.map(DeviceGroup.single)),
            "groups": .array(feed.groups.map(JSONValue.string)), "clock": .string(orNull: feed.clock?.description),
            "channel": feed.followed.map(describe) ?? .null, "stale": .string(orNull: stale),
        ])
    }

    private func describe(_ channel: FeedMemory.ChannelMemory) -> JSONValue {
        .object([
            "name": .string(channel.name), "sequence": .integer(channel.sequence),
            "issuedAt": .string(channel.issuedAt.description), "expires": .string(channel.expires.description),
            "minimumVersion": .string(orNull: channel.minimumVersion?.description),
            "recalled": .array(
                channel.recalled.map {
                    .object(["version": .string($0.version.description), "reason": .string($0.reason)])
                }),
            "leftOut": .array(channel.leftOut.map { .string($0.description) }),
            "urgent": .array(channel.urgent.map { .string($0.description) }),
        ])
    }

    private func describe(_ facts: MeteorFacts) -> JSONValue {
        .object([
            "version": .string(facts.version.description), "appId": .string(orNull: facts.appId),
            "rootURL": .string(orNull: facts.rootURL), "compatibility": .string(orNull: facts.compatibility),
        ])
    }

    private func describe(_ launch: Launch) -> JSONValue {
        .object([
            "name": .string(launch.name.description), "at": .string(launch.at.description),
            "trial": .bool(launch.isTrial), "verdict": .string(orNull: launch.verdict?.rawValue),
        ])
    }

    private func describe(_ check: CheckFile.FailedCheck) -> JSONValue {
        .object([
            "since": .string(check.since.description), "code": .string(check.code.rawValue),
            "reason": .string(check.reason),
        ])
    }

    private func describe(_ wanted: Wanted) -> JSONValue {
        .object([
            "name": .string("\(ClientName.installed(wanted.version))"),
            "version": .string(wanted.version.description), "source": .string(wanted.version.source.rawValue),
            "since": .string(wanted.since.description), "attempts": .integer(wanted.attempts),
            "code": .string(wanted.code.rawValue), "reason": .string(wanted.reason),
        ])
    }

    private func describe(_ block: Ledger.Block) -> JSONValue {
        .object([
            "name": .string("\(ClientName.installed(block.version))"),
            "version": .string(block.version.description), "cause": .string(block.cause.rawValue),
            "reason": .string(block.reason), "count": .integer(block.count), "since": .string(block.since.description),
        ])
    }
}
