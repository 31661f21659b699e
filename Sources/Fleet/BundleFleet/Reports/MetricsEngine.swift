package import BundleValues

/// Queries counts with the HTTP API of Prometheus (`/api/v1`), which VictoriaMetrics also supports.
package struct MetricsEngine: Sendable {
    /// A series: its labels, and its counts in the order of time.
    struct Series: Equatable {
        struct Sample: Equatable {
            /// Seconds since 1970.
            let time: Int
            let count: Int
        }

        let labels: [String: String]
        let samples: [Sample]
    }

    /// The times of a range query in whole seconds.
    struct Span {
        let from: Timestamp
        let until: Timestamp
        /// The step in seconds.
        let step: Int
    }

    private static let maximumBytes = 8 << 20

    private let address: String

    package init(_ server: FetchURL) {
        let text = server.description
        address = text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    /// Runs an instant query at `time`: one sample for each series.
    func counts(_ query: String, at time: Timestamp, by fetcher: some Fetcher) async throws -> [Series] {
        try Self.series(
            parsing: try await ask("query", query: query, adding: "&time=\(time.secondsSinceEpoch)", with: fetcher),
            of: address)
    }

    /// Runs a range query over `span`.
    func counts(_ query: String, over span: Span, by fetcher: some Fetcher) async throws -> [Series] {
        let times =
            "&start=\(span.from.secondsSinceEpoch)&end=\(span.until.secondsSinceEpoch)&step=\(span.step)"
        return try Self.series(
            parsing: try await ask("query_range", query: query, adding: times, with: fetcher), kind: "matrix",
            member: "values", of: address)
    }

    private func ask(
        _ endpoint: String, query: String, adding more: String, with fetcher: some Fetcher
    ) async throws -> [UInt8] {
        let url = try FetchURL(
            parsing: "\(address)/api/v1/\(endpoint)?query=" + PercentEncoding.encode(path: Array(query.utf8)) + more)
        return try await fetcher.fetchBytes(url, maximumBytes: Self.maximumBytes)
    }

    static func refusal(_ why: String, of server: String, hint: String = "") -> UpdateFailure {
        UpdateFailure(
            .manifestMalformed, subject: server,
            "The response of \(server) cannot be used: \(why). --prometheus must be the address of a Prometheus or VictoriaMetrics server\(hint)."
        )
    }

    static func series(
        parsing response: [UInt8], kind: String = "vector", member: String = "value", of server: String
    ) throws -> [Series] {
        let root: JSONValue
        do {
            root = try JSONScanner.parse(response, maximumBytes: maximumBytes)
        } catch {
            throw refusal("\(error)", of: server)
        }
        guard let object = root.objectValue, object["status"]?.stringValue == "success",
            let data = object["data"]?.objectValue, data["resultType"]?.stringValue == kind,
            let result = data["result"]?.arrayValue
        else { throw refusal("it has no \(kind)", of: server) }
        return try result.map { one in
            guard let labels = labels(one.objectValue?["metric"]), let value = one.objectValue?[member]?.arrayValue,
                let samples = samples(member == "value" ? [.array(value)] : value)
            else { throw refusal("a series has no labels, or no count", of: server) }
            return Series(labels: labels, samples: samples)
        }
    }

    private static func labels(_ metric: JSONValue?) -> [String: String]? {
        var labels: [String: String] = [:]
        guard let members = metric?.objectValue?.members else { return nil }
        for member in members {
            guard let value = member.value.stringValue else { return nil }
            labels[member.name] = value
        }
        return labels
    }

    private static func samples(_ values: [JSONValue]) -> [Series.Sample]? {
        var samples: [Series.Sample] = []
        for value in values {
            guard let pair = value.arrayValue, pair.count == 2, let time = pair[0].integerValue,
                let number = pair[1].stringValue.flatMap(Double.init), (0...1e15).contains(number)
            else { return nil }
            samples.append(Series.Sample(time: time, count: Int(number.rounded())))
        }
        return samples.isEmpty ? nil : samples
    }
}
