package import BundleValues

/// Counts the first verdicts of devices by the HTTP API of Prometheus (`/api/v1/query`), which VictoriaMetrics has as well.
package struct VerdictQuery: Sendable {
    private static let maximumBytes = 1 << 20

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
        return "sum by (fact) (clientctl_reports_total\(labels) or count_over_time(clientctl_report\(labels)[180d]))"
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

    /// A whole second, so that the response has whole numbers.
    private func facts(by fetcher: some Fetcher, at time: Timestamp) async throws -> [String: Int]? {
        let address = server.description.hasSuffix("/") ? "\(server.description.dropLast())" : server.description
        let url = try FetchURL(
            parsing: address + "/api/v1/query?query=" + PercentEncoding.encode(path: Array(query.utf8))
                + "&time=\(time.secondsSinceEpoch)")
        return try Self.facts(parsing: try await fetcher.fetchBytes(url, maximumBytes: Self.maximumBytes), of: address)
    }

    static func facts(parsing response: [UInt8], of server: String) throws -> [String: Int]? {
        func refused(_ why: String) -> UpdateFailure {
            UpdateFailure(
                .manifestMalformed, subject: server,
                "The response of \(server) is not used: \(why). --prometheus names a Prometheus or VictoriaMetrics, and --query "
                    + "gives one value for each fact: started, confirmed, failed.")
        }
        let root: JSONObject
        do {
            guard case .object(let object) = try JSONScanner.parse(response, maximumBytes: maximumBytes) else {
                throw refused("it is no JSON object")
            }
            root = object
        } catch let error as JSONError {
            throw refused("\(error)")
        }
        guard root["status"]?.stringValue == "success", let data = root["data"]?.objectValue,
            data["resultType"]?.stringValue == "vector", let series = data["result"]?.arrayValue
        else { throw refused("it has no vector") }
        if series.isEmpty { return nil }
        var facts: [String: Int] = [:]
        for one in series {
            guard let fact = one.objectValue?["metric"]?.objectValue?["fact"]?.stringValue,
                let value = one.objectValue?["value"]?.arrayValue, value.count == 2,
                let number = value[1].stringValue.flatMap(Double.init), (0...1e15).contains(number)
            else { throw refused("a series has no fact, or no count") }
            guard facts.updateValue(Int(number.rounded()), forKey: fact) == nil else {
                throw refused("\(UntrustedName.display(fact)) is there twice")
            }
        }
        return facts
    }
}
