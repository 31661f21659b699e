import BundleFormats
import ArgumentParser
import BundleCore
import BundlePublish
import BundleFleet
import BundleValues

struct FleetInsights: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "insights",
        abstract: "Show what devices report about a release, and how the guard judges it.",
        discussion: """
            It reads from Prometheus how many devices installed the release, how many
            starts were confirmed and how many failed, by code. It changes nothing.

            A device reports each event once, so the numbers are devices. The fleet has at
            least as many devices as any release of the channel; its real size is not
            known.

            The exit status is 61 if no device reported the release.

            Example:
              clientctl fleet insights --version 1.5.1 --feed feed --channel stable \\
                --prometheus http://127.0.0.1:9090
            """)

    @OptionGroup var version: VersionOption

    @Option(help: .feed, completion: .directory) var feed: String?

    @Option(help: .channel, completion: .channels) var channel: String?

    @Option(help: .checkingTrust, completion: .file()) var trust: String?

    @OptionGroup var limits: GuardOptions
    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let version = try version.semantic()
        let (server, rule, timeout) = try (limits.server(), limits.rule(), limits.timeout())
        let trust = try trust.map(TrustAnchor.read)
        let feed = try Wiring.location(at: FlagValue.required(feed, of: "feed"), reading)
        let channel = try FlagValue.required(channel, of: "channel")
        try ChannelView.requireName(channel)
        let now = Timestamp.now
        let document = try ChannelEditor.read(channel, in: feed, trust: trust, clock: now)
        let fetcher = try Wiring.fetcher(network, for: server)
        let query = VerdictQuery(
            server: server, query: VerdictQuery.standard(version, channel: channel), channel: channel,
            timeout: timeout)
        var verdicts: FirstVerdicts?
        if case .verdicts(let counted) = try await query.counted(by: fetcher, at: now) { verdicts = counted }
        let insights = ReleaseInsights(
            version, in: document, at: now, deltas: DeltaEditor.list(of: version, in: feed),
            reports: try await ChannelReports.ask(
                MetricsEngine(server), channel: channel, at: now, withCourses: false, by: fetcher),
            verdicts: verdicts, rule: rule)
        Output.give(json: common.json, InsightsOutput.object(insights), lines: InsightsOutput.lines(insights))
        if insights.reports == nil { throw ExitCode(ExitTable.noData) }
    }
}

private enum InsightsOutput {
    private static let facts = ["installed", "started", "confirmed", "failed", "rolledBack", "blocked", "waiting"]

    static func object(_ insights: ReleaseInsights) -> JSONObject {
        var object: JSONObject = [
            "version": .string(insights.version.description), "channel": .string(insights.channel),
            "rollout": .string(
                orNull: insights.release.map { RolloutPercentage(permille: $0.share(at: insights.clock)).description }),
            "groups": .array((insights.release?.groups ?? []).map(JSONValue.string)),
            "only": insights.release.map { .bool($0.isOnlyForGroups) } ?? .null,
            "paused": insights.release.map { .bool($0.isPaused) } ?? .null, "recalled": .bool(insights.isRecalled),
        ]
        for fact in facts { object[fact] = insights.reports.map { .integer($0.count(fact)) } ?? .null }
        object["failures"] = .array(
            insights.failures.map { .object(["code": .string($0.code), "devices": .integer($0.devices)]) })
        object["routes"] = .array(
            insights.routes.map {
                .object([
                    "route": .string($0.name), "installs": .integer($0.installs),
                    "bytes": $0.bytes.map(JSONValue.integer) ?? .null,
                ])
            })
        object["fleet"] = insights.fleet.map(JSONValue.integer) ?? .null
        object["share"] = .string(orNull: insights.confirmedShare?.description)
        object["installedShare"] = .string(orNull: insights.installedShare?.description)
        object["guard"] = insights.verdicts.map { .object(self.object($0, rule: insights.rule)) } ?? .null
        return object
    }

    private static func object(_ verdicts: FirstVerdicts, rule: GuardRule) -> JSONObject {
        let finding = rule.finding(verdicts)
        var missing = JSONValue.null
        if case .undecided(let count) = finding { missing = .integer(count) }
        return [
            "finding": .string(finding.code), "good": .integer(verdicts.confirmed), "failed": .integer(verdicts.failed),
            "missing": missing, "bound": .string(RolloutPercentage(permille: GuardRule.bound(verdicts)).description),
            "reason": .string(rule.words(verdicts)),
        ]
    }

    static func lines(_ insights: ReleaseInsights) -> [String] {
        let head = "\(insights.version) in channel \(insights.channel): \(state(insights))"
        guard let reports = insights.reports else {
            return [head, "no device reported it. Check --prometheus, and that devices send reports"]
        }
        return [
            head, row("installed", count: reports.count("installed"), parts: insights.routes.map(words)),
            row("confirmed", count: reports.count("confirmed")),
            row(
                "failed", count: reports.count("failed"),
                parts: insights.failures.map { "\($0.devices) \($0.code.isEmpty ? "without a code" : shown($0.code))" }),
            row("rolled back", count: reports.count("rolledBack")), row("blocked", count: reports.count("blocked")),
        ]
            + (reports.count("waiting") > 0 ? [row("waited", count: reports.count("waiting"))] : [])
            + share(insights)
            + (insights.verdicts.map { lines($0, rule: insights.rule) }
                ?? [
                    reports.count("confirmed") + reports.count("failed") == 0
                        ? "  no device has reported a start. `serve --report` reports starts, `install --report` does not"
                        : "  the starts are not known, or their counters restarted. Try again later"
                ])
    }

    private static func state(_ insights: ReleaseInsights) -> String {
        if insights.isRecalled { return "recalled" }
        guard let release = insights.release else { return "not in the channel" }
        return "for \(release.audience(at: insights.clock))" + (release.isPaused ? ", paused" : "")
    }

    private static func row(_ name: String, count: Int, parts: [String] = []) -> String {
        let label = name + String(repeating: " ", count: max(0, 12 - name.count))
        return "  \(label)\(count)" + (parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))")
    }

    private static func words(_ route: ReleaseInsights.RouteCounts) -> String {
        let name = route.name.isEmpty ? "without a route" : "by \(shown(route.name))"
        return "\(route.installs) \(name)" + (route.bytes.map { ", about \(ByteCount(bytes: $0))" } ?? "")
    }

    private static func share(_ insights: ReleaseInsights) -> [String] {
        guard let fleet = insights.fleet, let reports = insights.reports, let works = insights.confirmedShare,
            let took = insights.installedShare
        else { return [] }
        return [
            "  fleet       at least \(fleet) devices; confirmed: \(reports.count("confirmed")) of \(fleet) (\(works)); "
                + "installed: \(reports.count("installed")) of \(fleet) (\(took))"
        ]
    }

    private static func lines(_ verdicts: FirstVerdicts, rule: GuardRule) -> [String] {
        let bound = RolloutPercentage(permille: GuardRule.bound(verdicts))
        return [
            "  guard       \(rule.words(verdicts))",
            "              \(verdicts.confirmed) confirmed starts, \(verdicts.failed) failed or without a verdict; fewer than \(bound) "
                + "fail, with 95% confidence",
        ]
    }

    /// Returns a name from the metrics server, which is not signed, in a form that is safe to print.
    private static func shown(_ text: String) -> String { UntrustedName.display(text, limit: 40) }
}
