import BundlePublish
package import BundleValues

/// What devices reported of a channel. A device tells each fact of a release once, so a sum is a count of devices.
package struct ChannelReports: Sendable, Equatable {
    /// What they reported of one release.
    package struct Release: Sendable, Equatable {
        /// As the engine has it: nobody vouches for it.
        package let version: String
        /// Devices by fact: `installed`, `started`, `confirmed`, `failed`, `rolledBack`, `blocked`.
        package internal(set) var facts: [String: Int] = [:]
        /// Failed devices by failure code.
        package internal(set) var failures: [String: Int] = [:]
        /// Devices that installed it, by route: `delta` or `archive`.
        package internal(set) var routes: [String: Int] = [:]

        init(version: String) { self.version = version }

        /// How many told `fact`.
        package func count(_ fact: String) -> Int { facts[fact] ?? 0 }
    }

    /// How the devices with confirmed starts of one release became more.
    struct Course: Sendable, Equatable {
        struct Point: Sendable, Equatable {
            /// Seconds since 1970.
            let time: Int
            let count: Int
        }

        let version: String
        let points: [Point]
    }

    /// The highest version first; what is no version comes last.
    package let releases: [Release]
    /// In the order of `releases`; none where it was not asked for.
    let courses: [Course]

    init(releases: [Release], courses: [Course] = []) {
        self.releases = releases
        self.courses = courses
    }

    /// The most devices that any release has; 0 without one. The fleet has no fewer.
    package var mostDevices: Int { releases.map { max($0.count("installed"), $0.count("confirmed")) }.max() ?? 0 }

    /// What they reported of `version`.
    package func release(_ version: SemanticVersion) -> Release? { releases.first { $0.version == "\(version)" } }
}

extension ChannelReports {
    /// How far back a page looks, and how often.
    private static let days = 14
    private static let step = 6 * 3600

    /// Asks `engine` about `channel` at `now`; about the days before too, where `withCourses`. A channel's name has no quote.
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

    /// Adds up what an engine gave. A series without a version or a fact is nobody's.
    init(counts: [MetricsEngine.Series], courses: [MetricsEngine.Series]) {
        var releases: [String: Release] = [:]
        for series in counts {
            guard let version = series.labels["version"], let fact = series.labels["fact"],
                let count = series.samples.last?.count
            else { continue }
            var release = releases[version] ?? Release(version: version)
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

    /// An engine may have any numbers.
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
