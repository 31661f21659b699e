package import BundleValues

/// The reports of a channel's devices. A device reports each fact about a release once, so a sum is a number of
/// devices.
package struct ChannelReports: Sendable, Equatable {
    /// The reports about one release.
    package struct ReleaseCounts: Sendable, Equatable {
        /// The version label of the engine, unverified.
        package let version: String
        /// The number of devices by fact: `installed`, `started`, `confirmed`, `failed`, `rolledBack`,
        /// `blocked`, `waiting`.
        package internal(set) var facts: [String: Int] = [:]
        /// The number of failed devices by failure code.
        package internal(set) var failures: [String: Int] = [:]
        /// The number of devices that installed the release, by route: `delta` or `archive`.
        package internal(set) var routes: [String: Int] = [:]

        init(version: String) { self.version = version }

        /// Returns the number of devices that reported `fact`.
        package func count(_ fact: String) -> Int { facts[fact] ?? 0 }
    }

    /// The number of devices with a confirmed start of one release, over time.
    struct Course: Sendable, Equatable {
        struct Point: Sendable, Equatable {
            /// Seconds since 1970.
            let time: Int
            let count: Int
        }

        let version: String
        let points: [Point]
    }

    /// The releases, highest version first; other labels come last.
    package let releases: [ReleaseCounts]
    /// The courses in the order of `releases`; empty if they were not requested.
    let courses: [Course]

    init(releases: [ReleaseCounts], courses: [Course] = []) {
        self.releases = releases
        self.courses = courses
    }

    /// The highest number of devices of a release, 0 without one: a lower bound for the size of the fleet.
    package var mostDevices: Int { releases.map { max($0.count("installed"), $0.count("confirmed")) }.max() ?? 0 }

    package func release(_ version: SemanticVersion) -> ReleaseCounts? { releases.first { $0.version == "\(version)" } }
}

extension ChannelReports {
    /// The days that a course covers.
    private static let days = 14
    private static let step = 6 * 3600

    /// Queries `engine` for `channel` at `now`, with the courses if `withCourses` is set. A channel name cannot
    /// contain a quote.
    package static func ask(
        _ engine: MetricsEngine, channel: String, at now: Timestamp, withCourses: Bool, by fetcher: some Fetcher
    ) async throws -> ChannelReports {
        let counts = try await engine.counts(
            "sum by (version,fact,code,route) (\(VerdictQuery.reports(#"{channel="\#(channel)"}"#)))", at: now,
            by: fetcher)
        if !withCourses || counts.isEmpty { return ChannelReports(counts: counts, courses: []) }
        let from = Timestamp(clamping: now.secondsSinceEpoch - days * 86_400)
        let courses = try await engine.counts(
            "sum by (version) (\(VerdictQuery.reports(#"{channel="\#(channel)",fact="confirmed"}"#)))",
            over: MetricsEngine.Span(from: from, until: now, step: step), by: fetcher)
        return ChannelReports(counts: counts, courses: courses)
    }

    /// Adds up the series of an engine. A series without a version or a fact is ignored.
    init(counts: [MetricsEngine.Series], courses: [MetricsEngine.Series]) {
        var releases: [String: ReleaseCounts] = [:]
        for series in counts {
            guard let version = series.labels["version"], let fact = series.labels["fact"],
                let count = series.samples.last?.count
            else { continue }
            var release = releases[version] ?? ReleaseCounts(version: version)
            Self.add(count, to: fact, in: &release.facts)
            if fact == "failed" { Self.add(count, to: series.labels["code"] ?? "", in: &release.failures) }
            if fact == "installed" { Self.add(count, to: series.labels["route"] ?? "", in: &release.routes) }
            releases[version] = release
        }
        self.init(
            releases: releases.values.sorted { Self.isBefore($0.version, $1.version) },
            courses: courses.compactMap { series in
                series.labels["version"].map { version in
                    Course(version: version, points: series.samples.map { .init(time: $0.time, count: $0.count) })
                }
            }.sorted { Self.isBefore($0.version, $1.version) })
    }

    /// Adds without overflow, because an engine may return any number.
    private static func add(_ count: Int, to word: String, in counts: inout [String: Int]) {
        counts[word] = (counts[word] ?? 0).adding(count: count)
    }

    private static func isBefore(_ left: String, _ right: String) -> Bool {
        switch (try? SemanticVersion(parsing: left), try? SemanticVersion(parsing: right)) {
        case (let left?, let right?): left > right
        case (_?, nil): true
        case (nil, _?): false
        case (nil, nil): left < right
        }
    }
}
