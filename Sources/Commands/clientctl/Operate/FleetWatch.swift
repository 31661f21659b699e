import ArgumentParser
import BundleFleet
import BundleFormats
import BundlePublish
import BundleValues

/// `clientctl fleet watch`.
struct FleetWatch: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = RosterPlaceOptions.required
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Run a command when a device is silent, a release is blocked, or a channel expires.",
        discussion: """
            It reads the roster again and again, and runs the command of --on-alert at each
            change: a device became silent, or is back; devices blocked a release after
            failed starts; another key signs the messages of a device; the channel expires
            soon; the roster or the feed cannot be read. Several changes of one kind are
            one message, and two messages of one kind are at least --alert-pause apart.
            The first messages are about the problems that exist at the start.

            The command runs without a shell, for at most 30s, with ALERT_KIND (silent,
            blocked, conflict, expires, roster or feed), ALERT_STATE (began, ended or
            changed), ALERT_COUNT (the problems of the kind) and ALERT_TEXT (a sentence).
            If it fails, it runs again after --alert-pause. SIGTERM and Ctrl-C end the
            watch.

            Examples:
              clientctl fleet watch --roster /var/lib/clientctl/roster.db \\
                --on-alert /usr/local/bin/notify
              clientctl fleet watch --roster https://updates.example.com/roster \\
                --roster-token-file operator.token --feed s3://bucket/prefix \\
                --channel stable --on-alert /usr/local/bin/notify
            """)

    @Option(help: ArgumentHelp("Command that runs at each alert.", valueName: "command"))
    var onAlert: String?

    @Option(help: ArgumentHelp("Time between two readings. (default: 1m)", valueName: "duration"))
    var checkInterval: String?

    @Option(help: ArgumentHelp("Shortest time between two messages of one kind. (default: 10m)", valueName: "duration"))
    var alertPause: String?

    @Option(help: ArgumentHelp("Feed whose channel is watched, too: \(LocationAddress.forms).", valueName: "place"))
    var feed: String?

    @Option(help: ArgumentHelp("(required with --feed) The channel.", valueName: "name"), completion: .channels)
    var channel: String?

    @Option(help: .checkingTrust, completion: .file()) var trust: String?

    @Option(help: ArgumentHelp("Alert if the channel expires within this time. (default: 3d)", valueName: "duration"))
    var expiresWithin: String?

    @OptionGroup var source: RosterPlaceOptions
    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup(title: "Network") var way: WayOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let watch = FleetWatcher(
            access: try source.access(way), channel: try watchedChannel(),
            hook: try HookCommand(onAlert, of: "on-alert"),
            interval: try PublishTime.duration(checkInterval, of: "check-interval") ?? .seconds(60), isJSON: common.json
        )
        // A host can be away for a time, but a database that is not there is a wrong path.
        if case .file = watch.access { _ = try await watch.access.list(RosterFilter(), at: .now) }
        let alerts = FleetAlerts(pause: try PublishTime.duration(alertPause, of: "alert-pause") ?? .seconds(600))
        let signals = StopSignals()
        await withTaskGroup { group in
            group.addTask { await watch.run(alerts) }
            await signals.wait()
            group.cancelAll()
        }
    }

    private func watchedChannel() throws -> WatchedChannel? {
        guard let feed else {
            // As a setting, the channel is for other commands, too.
            if CommandLineFlags.contain("channel") {
                throw ValidationError(
                    "--channel needs --feed, the place of the channel: give it, or leave --channel out.")
            }
            return nil
        }
        let channel = try FlagValue.required(channel, of: "channel")
        try ChannelView.requireName(channel)
        _ = try Wiring.location(at: feed, reading)
        return WatchedChannel(
            feed: feed, reading: reading, name: channel, trust: try trust.map(TrustAnchor.read),
            limit: try PublishTime.duration(expiresWithin, of: "expires-within") ?? .seconds(3 * 86_400))
    }
}

/// A channel whose expiry is watched.
private struct WatchedChannel: Sendable {
    let feed: String
    let reading: BucketReading
    let name: String
    let trust: TrustAnchor?
    /// The time before its expiry from which the channel is a problem.
    let limit: Duration

    func read(at now: Timestamp) throws -> ChannelDocument {
        try ChannelEditor.read(name, in: Wiring.location(at: feed, reading), trust: trust, clock: now)
    }
}

/// Reads the roster and the channel until its task is cancelled.
private struct FleetWatcher {
    let access: RosterAccess
    let channel: WatchedChannel?
    let hook: HookCommand?
    let interval: Duration
    let isJSON: Bool

    /// A single failed reading, such as during the restart of a host, is no problem.
    private static let failuresOfAlert = 2

    func run(_ alerts: FleetAlerts) async {
        var alerts = alerts
        var failures: [AlertKind: Int] = [:]
        while !Task.isCancelled {
            let now = Timestamp.now
            let problems = await problems(at: now, &failures)
            if Task.isCancelled { return }
            for alert in alerts.alerts(for: problems, at: now) {
                if await !announce(alert) { alerts.retract(alert.kind) }
            }
            try? await Task.sleep(for: interval)
        }
    }

    /// Reads the roster and the channel. `failures` counts the failed readings of each in succession.
    private func problems(at now: Timestamp, _ failures: inout [AlertKind: Int]) async -> FleetProblems {
        var problems = FleetProblems()
        func read(_ kind: AlertKind, _ body: () async throws -> Void) async {
            do {
                try await body()
                failures[kind] = 0
            } catch {
                failures[kind, default: 0] += 1
                if failures[kind, default: 0] >= Self.failuresOfAlert { problems.add(kind, UpdateFailure(error)) }
            }
        }
        await read(.roster) { problems.add(try await access.list(RosterFilter(), at: now).rows, at: now) }
        if let channel {
            await read(.feed) {
                let limit = Timestamp(clamping: now.secondsSinceEpoch + Int(clamping: channel.limit.components.seconds))
                problems.add(try channel.read(at: now), expiringBefore: limit, at: now)
            }
        }
        return problems
    }

    /// Returns whether the command received the alert.
    private func announce(_ alert: FleetAlert) async -> Bool {
        if isJSON {
            _ = Output.giveLine(alert.json)
        } else {
            Output.give(json: false, afterChange: true, [:], lines: ["\(alert.kind.rawValue): \(alert.text)"])
        }
        return await hook?.run(with: alert.facts) ?? true
    }
}
