import ArgumentParser
import BundleCore
import ClientShell
import BundleValues

/// Flags of what tells of a device.
struct ReportOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Report what becomes of each version there: http://HOST/report of a host, or VictoriaMetrics' /api/v1/import/prometheus.",
            valueName: "url"))
    var report: String?

    @Option(
        help: ArgumentHelp("Report a fact within this time, at random; 1m by default.", valueName: "duration"))
    var reportWithin: String?

    /// What tells of the device; nil where nobody is told anything.
    func reporter(_ update: UpdateOptions, _ settings: Settings) throws -> ReportSender? {
        guard let text = try settings.optional("report", report) else { return nil }
        let url = try Self.address(text, settings)
        let store = try settings.required("store", update.store)
        let fetcher = try Wiring.fetcher(
            update.network, reportingOf: try Wiring.places(update, settings), store: store, settings)
        return ReportSender(ReportStore(store: store), to: url, by: fetcher, within: try within(settings))
    }

    private func within(_ settings: Settings) throws -> Duration {
        let text = try settings.optional("report-within", reportWithin) ?? "1m"
        let within = try settings.parsed("report-within", text) { try DurationText(parsing: $0).duration }
        if within < .seconds(1) { throw ValidationError("--report-within takes 1s or more, not \(text).") }
        return within
    }

    static func address(_ text: String, _ settings: Settings) throws -> FetchURL {
        let url = try settings.parsed("report", text) { try FetchURL(parsing: $0) }
        if url.isFile { throw ValidationError("--report takes an http or https address, not a file.") }
        return url
    }

    /// From now on facts are noted; or no more, and what was noted is forgotten. A disk that takes no writes shows its client all the
    /// same.
    func turn(on isOn: Bool, _ update: UpdateOptions, _ settings: Settings) throws {
        do {
            try ReportStore(store: try settings.required("store", update.store)).turn(on: isOn)
        } catch {
            Report.note(error)
        }
    }
}

/// `clientctl report`.
struct Report: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Report what became of each version on this device, for shells that run without serve.",
        discussion: """
            The first run makes the store note facts: installed, started, confirmed,
            failed, rolledBack, blocked. Each is told once, with its version and channel,
            and without a word of who the device is. What nobody took waits for the next
            run. With --off nothing is noted any more, and what waits is forgotten. The
            feed's token goes along if the receiver has the feed's origin: the same
            scheme, host and port.

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
            "Whom to tell: http://HOST/report of a host, or VictoriaMetrics' /api/v1/import/prometheus.",
            valueName: "url"))
    var report: String?

    @Option(
        help: ArgumentHelp(
            "The manifest that this device follows: a token goes to a receiver of its origin only.",
            valueName: "url|file"),
        completion: .file())
    var manifest: String?

    @Option(
        help: ArgumentHelp("Instead of --manifest, the channel document that it follows.", valueName: "url|file"),
        completion: .file())
    var channel: String?

    @Flag(help: "Note nothing any more, and forget what waits.")
    var off = false

    @OptionGroup var place: StoreOptions
    @OptionGroup var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let desk = ReportStore(store: store)
        let json = try settings.isOn("json", common.json)
        if try settings.isOn("off", off) {
            if report != nil { throw ValidationError("Give --report or --off, one of them.") }
            try desk.turn(on: false)
            return Output.give(json: json, afterChange: true, Self.object("off", 0, 0), ["nothing is noted any more"])
        }
        let url = try ReportOptions.address(settings.required("report", report), settings)
        let fetcher = try Wiring.fetcher(network, reportingOf: try followed(settings), store: store, settings)
        try desk.turn(on: true)
        let sent = try await ReportSender(desk, to: url, by: fetcher, within: .seconds(1)).send(within: .seconds(30))
        let count = sent?.reports.count ?? 0
        Output.give(
            json: json, afterChange: true,
            Self.object(sent == nil ? "nothingToReport" : "reported", count, sent?.dropped ?? 0),
            [sent == nil ? "there is nothing to report" : "reported \(count) facts"])
    }

    /// What the device follows. Flags name it; where none does, the environment and the file.
    private func followed(_ settings: Settings) throws -> (feed: FeedAddress?, meteor: String?) {
        let isFlagged = manifest != nil || channel != nil
        let followed = (
            feed: try Wiring.feed(
                manifest: isFlagged ? manifest : try settings.optional("manifest", nil),
                channel: isFlagged ? channel : try settings.optional("channel", nil)),
            meteor: isFlagged ? nil : try settings.optional("meteor", nil)
        )
        if followed.feed == nil && followed.meteor == nil && network.tokenFile != nil {
            throw ValidationError(
                "--token-file has the token of the feed, which goes to no other server: name the feed with --channel or --manifest."
            )
        }
        return followed
    }

    private static func object(_ outcome: String, _ count: Int, _ dropped: Int) -> JSONObject {
        ["outcome": .string(outcome), "reported": .integer(count), "dropped": .integer(dropped)]
    }

    /// What went wrong with reports, which stops nothing.
    static func note(_ error: any Error) {
        let failure = UpdateFailure(error)
        Output.say("clientctl: reports wait: \(failure.message)")
    }
}

extension ReportSender {
    private static let patience = Duration.seconds(5)

    /// One attempt, which nothing waits for longer than 5 s; what nobody took waits for the next.
    func sendOnce() async {
        do { _ = try await send(within: Self.patience) } catch { Report.note(error) }
    }
}
