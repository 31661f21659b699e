package import BundleValues

/// Queries the first verdicts of devices with the HTTP API of Prometheus (`/api/v1/query`), which VictoriaMetrics
/// also supports.
package struct VerdictQuery: Sendable {
    private let server: FetchURL
    private let query: String
    private let channel: String
    private let timeout: Duration

    /// The counts of an engine.
    package enum Counted: Sendable, Equatable {
        /// Devices report no release of the channel.
        case nothing
        /// Devices report releases of the channel, and not this one.
        case otherReleases
        /// A counter restarted within the timeout, so the verdicts are not known now.
        case restarted
        case verdicts(FirstVerdicts)
    }

    /// Sends `query` for a release of `channel` to `server`. The response must be an instant vector with one value for
    /// each `fact`: `started`, `confirmed` and `failed`. A start without a verdict after `timeout` has failed.
    package init(server: FetchURL, query: String, channel: String, timeout: Duration) {
        self.server = server
        self.query = query
        self.channel = channel
        self.timeout = timeout
    }

    /// Returns the query for the devices that start `version` of `channel`. Neither can contain a quote.
    package static func standard(_ version: SemanticVersion, channel: String) -> String {
        // If a device failed first and was confirmed later, the failure is its first verdict. A download is not a start.
        let others = ([.afterFailure] + DeviceReport.Code.downloads).map(\.rawValue).joined(separator: "|")
        let labels =
            #"{channel="\#(channel)",version="\#(version)",fact=~"started|confirmed|failed",code!~"\#(others)"}"#
        return "sum by (fact) (\(reports(labels)))"
    }

    /// Returns the sums that a host keeps, or the reports that devices send to the engine.
    static func reports(_ labels: String) -> String {
        "clientctl_reports_total\(labels) or count_over_time(clientctl_report\(labels)[180d])"
    }

    /// Returns the verdicts at `now`, or why there are none.
    package func counted(by fetcher: some Fetcher, at now: Timestamp) async throws -> Counted {
        guard let present = try await facts(of: query, by: fetcher, at: now) else {
            let any = "sum by (fact) (\(Self.reports(#"{channel="\#(channel)"}"#)))"
            return try await facts(of: any, by: fetcher, at: now) == nil ? .nothing : .otherReleases
        }
        let before = Timestamp(clamping: now.secondsSinceEpoch - Int(timeout.components.seconds))
        let earlier = try await facts(of: query, by: fetcher, at: before) ?? [:]
        return Self.verdicts(present, before: earlier).map(Counted.verdicts) ?? .restarted
    }

    /// Returns the verdicts from the counts of now and of `before`. A start of then without a verdict has failed.
    /// Returns nil if a count has decreased.
    static func verdicts(_ present: [String: Int], before: [String: Int]) -> FirstVerdicts? {
        if before.contains(where: { present[$0.key, default: 0] < $0.value }) { return nil }
        let confirmed = present["confirmed"] ?? 0
        let failed = present["failed"] ?? 0
        let due = before["started"] ?? 0
        return FirstVerdicts(confirmed: confirmed, failed: failed + max(0, due - confirmed - failed))
    }

    private func facts(of query: String, by fetcher: some Fetcher, at time: Timestamp) async throws -> [String: Int]? {
        try Self.facts(try await MetricsEngine(server).counts(query, at: time, by: fetcher), of: server.description)
    }

    /// Returns the count of each fact; nil if there is none.
    static func facts(_ series: [MetricsEngine.Series], of server: String) throws -> [String: Int]? {
        func refused(_ why: String) -> UpdateFailure {
            MetricsEngine.refusal(
                why, of: server, hint: ", and --query must return one value for each fact: started, confirmed, failed")
        }
        if series.isEmpty { return nil }
        var facts: [String: Int] = [:]
        for one in series {
            guard let fact = one.labels["fact"], let count = one.samples.last?.count else {
                throw refused("a series has no fact")
            }
            guard facts.updateValue(count, forKey: fact) == nil else {
                throw refused("\(UntrustedName.display(fact)) appears twice")
            }
        }
        return facts
    }
}
