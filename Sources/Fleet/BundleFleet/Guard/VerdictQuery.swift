import BundlePublish
package import BundleValues

/// Counts the first verdicts of devices by the HTTP API of Prometheus (`/api/v1/query`), which VictoriaMetrics has as well.
package struct VerdictQuery: Sendable {
    private let server: FetchURL
    private let query: String
    private let patience: Duration

    /// Asks `server` for `query`: an instant vector with one value for each `fact`, which is `started`, `confirmed` or `failed`.
    /// A start without a verdict after `patience` has failed.
    package init(server: FetchURL, query: String, patience: Duration) {
        self.server = server
        self.query = query
        self.patience = patience
    }

    /// The reports of devices that start `version` of `channel`. Both are fenced by their parsers: neither has a quote.
    package static func standard(_ version: SemanticVersion, channel: String) -> String {
        // Of a device that failed first and was confirmed later, the failure is the first verdict.
        let labels =
            #"{channel="\#(channel)",version="\#(version)",fact=~"started|confirmed|failed",code!="afterFailure"}"#
        return "sum by (fact) (\(reports(labels)))"
    }

    /// The sums that a host keeps, or the reports themselves where devices send them to the engine.
    static func reports(_ labels: String) -> String {
        "clientctl_reports_total\(labels) or count_over_time(clientctl_report\(labels)[180d])"
    }

    /// What is counted at `now`; nil where the server knows no such series, or somebody began to count anew within the patience.
    package func verdicts(by fetcher: some Fetcher, at now: Timestamp) async throws -> FirstVerdicts? {
        guard let present = try await facts(by: fetcher, at: now) else { return nil }
        let before = Timestamp(clamping: now.secondsSinceEpoch - Int(patience.components.seconds))
        return Self.verdicts(present, before: try await facts(by: fetcher, at: before) ?? [:])
    }

    /// The verdicts by the counts of now and of `before`: a start of then without a verdict has failed. Nil where a count has
    /// fallen, since what is missing then was not a failure.
    static func verdicts(_ present: [String: Int], before: [String: Int]) -> FirstVerdicts? {
        if before.contains(where: { present[$0.key, default: 0] < $0.value }) { return nil }
        let confirmed = present["confirmed"] ?? 0
        let failed = present["failed"] ?? 0
        let due = before["started"] ?? 0
        return FirstVerdicts(good: confirmed, failed: failed + max(0, due - confirmed - failed))
    }

    private func facts(by fetcher: some Fetcher, at time: Timestamp) async throws -> [String: Int]? {
        try Self.facts(try await MetricsEngine(server).counts(query, at: time, by: fetcher), of: server.description)
    }

    /// The count of each fact; nil where there is none.
    static func facts(_ series: [MetricsEngine.Series], of server: String) throws -> [String: Int]? {
        func refused(_ why: String) -> UpdateFailure {
            MetricsEngine.refusal(
                why, of: server, hint: ", and --query gives one value for each fact: started, confirmed, failed")
        }
        if series.isEmpty { return nil }
        var facts: [String: Int] = [:]
        for one in series {
            guard let fact = one.labels["fact"], let count = one.samples.last?.count else {
                throw refused("a series has no fact")
            }
            guard facts.updateValue(count, forKey: fact) == nil else {
                throw refused("\(UntrustedName.display(fact)) is there twice")
            }
        }
        return facts
    }
}
