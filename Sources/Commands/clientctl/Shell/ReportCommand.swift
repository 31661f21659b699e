import ArgumentParser
import BundleCore
import BundleValues
import BundleShell

/// The flags of reports.
struct ReportOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Send the events of each version to this receiver: http://HOST/report of a host, or /api/v1/import/prometheus of VictoriaMetrics.",
            valueName: "url"))
    var report: String?

    @Option(
        help: ArgumentHelp("Maximum random delay of a report (default: 1m).", valueName: "duration"))
    var reportWithin: String?

    /// Returns the sender of reports; nil without `--report`.
    func reporter(_ update: UpdateOptions) throws -> ReportSender? {
        guard let text = report else { return nil }
        let url = try Self.address(text)
        let store = try FlagValue.required(update.store, of: "store")
        let fetcher = try Wiring.fetcher(update.network, reportingOf: try Wiring.places(update), store: store)
        return ReportSender(ReportStore(store: store), to: url, by: fetcher, within: try within())
    }

    private func within() throws -> Duration {
        let text = reportWithin ?? "1m"
        let within = try FlagValue.duration(text, of: "report-within")
        if within < .seconds(1) { throw ValidationError("--report-within takes 1s or more, not \(text).") }
        return within
    }

    static func address(_ text: String) throws -> FetchURL {
        let url = try FlagValue.url(text, of: "report")
        if url.isFile { throw ValidationError("--report takes an http or https address, not a file.") }
        return url
    }

    /// Starts to record events, or stops and deletes pending ones. Only logs a failure, because a device with a read-only disk still shows
    /// its client.
    func turn(on isOn: Bool, _ update: UpdateOptions) throws {
        do {
            try ReportStore(store: try FlagValue.required(update.store, of: "store")).turn(on: isOn)
        } catch {
            ReportCommand.note(error)
        }
    }
}

/// `clientctl report`.
struct ReportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Send the events of each version on this device, for shells that do not run serve.",
        discussion: """
            The first run makes the store record events: installed, started, confirmed,
            failed, rolledBack, blocked and waiting. Each event is sent once, with its
            version and channel, and without data that identifies the device. Events that
            the receiver does not accept wait for the next run. With --off, the store
            stops recording events and deletes pending ones. The token of the feed is sent
            only if the receiver has the origin of the feed: the same scheme, host and
            port.

            Examples:
              clientctl report --store /var/lib/clientctl \\
                --report https://updates.example.com/report
              clientctl report --store /var/lib/clientctl \\
                --report https://updates.example.com/report \\
                --channel https://updates.example.com/channels/stable.json \\
                --token-file /etc/clientctl/token
              clientctl report --store /var/lib/clientctl --off
            """)

    @Option(
        help: ArgumentHelp(
            "(required, or --off) Receiver: http://HOST/report of a host, or /api/v1/import/prometheus of VictoriaMetrics.",
            valueName: "url"))
    var report: String?

    @Option(
        help: ArgumentHelp(
            "Manifest that this device follows. A token is sent only to a receiver with its origin.",
            valueName: "url|file"),
        completion: .file())
    var manifest: String?

    @Option(
        help: ArgumentHelp("Instead of --manifest, the channel file that this device follows.", valueName: "url|file"),
        completion: .file())
    var channel: String?

    @Flag(help: "Stop recording events, and delete pending ones.")
    var off = false

    @OptionGroup var place: StoreOptions
    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let store = try place.required()
        try Wiring.requireStore(store)
        let queue = ReportStore(store: store)
        if off {
            if CommandLineFlags.contain("report") { throw ValidationError("Give --report or --off, not both.") }
            try queue.turn(on: false)
            return Output.give(
                json: common.json, afterChange: true, Self.object("off", count: 0, dropped: 0),
                lines: ["events are no longer recorded"])
        }
        let url = try ReportOptions.address(FlagValue.required(report, of: "report"))
        let fetcher = try Wiring.fetcher(network, reportingOf: try followed(), store: store)
        try queue.turn(on: true)
        let sent = try await ReportSender(queue, to: url, by: fetcher, within: .seconds(1)).send(within: .seconds(30))
        let count = sent?.reports.count ?? 0
        Output.give(
            json: common.json, afterChange: true,
            Self.object(sent == nil ? "nothingToReport" : "reported", count: count, dropped: sent?.dropped ?? 0),
            lines: [sent == nil ? "there is nothing to report" : "reported \(counted(count, "event"))"])
    }

    /// Returns the feed or the Meteor server that the device follows. If a flag names one, the environment and the configuration file are
    /// ignored.
    private func followed() throws -> (feed: FeedAddress?, meteor: String?) {
        let feed = try Wiring.feed(manifest: manifest, channel: channel)
        let isFlagged = CommandLineFlags.containAny(of: "manifest", "channel")
        let meteor = isFlagged ? nil : try Settings.value(of: "meteor")
        if feed == nil, meteor == nil, CommandLineFlags.contain("token-file") {
            throw ValidationError(
                "--token-file has the token of the feed, which is sent to no other server. Name the feed with --channel or --manifest."
            )
        }
        return (feed, meteor)
    }

    private static func object(_ outcome: String, count: Int, dropped: Int) -> JSONObject {
        ["outcome": .string(outcome), "reported": .integer(count), "dropped": .integer(dropped)]
    }

    /// Logs a failure of reports. The caller continues.
    static func note(_ error: any Error) {
        let failure = UpdateFailure(error)
        Output.warn("reporting failed: \(failure.message)")
    }
}

extension ReportSender {
    private static let sendTimeout = Duration.seconds(5)

    /// Makes one attempt of at most 5 s, and logs a failure. Events that the receiver does not accept wait for the next attempt.
    func sendOnce() async {
        do { _ = try await send(within: Self.sendTimeout) } catch { ReportCommand.note(error) }
    }
}
