import BundlePublish
package import ArchiveSource
import BundleCore
package import BundleValues

/// What is known of one release on devices. A value.
package struct ReleaseInsights: Sendable {
    /// A way that devices got it.
    package struct Route: Sendable, Equatable {
        /// As devices report it: `delta` or `archive`.
        package let name: String
        package let installs: Int
        /// Times the archive's size, or the largest delta's; nil where no size is known. What was downloaded in vain is not in it.
        package let bytes: Int?
    }

    /// A failure code, and the devices with it.
    package struct Failure: Sendable, Equatable {
        package let code: String
        package let devices: Int
    }

    package let version: SemanticVersion
    package let channel: String
    /// When this was known.
    package let clock: Timestamp
    /// What the channel says of it; nil where it does not have it.
    package let release: ChannelDocument.Release?
    /// Whether the channel recalls it.
    package let isRecalled: Bool
    /// What devices reported; nil where none did.
    package let reports: ChannelReports.Release?
    /// The most installs first.
    package let routes: [Route]
    /// The most frequent first.
    package let failures: [Failure]
    /// The fleet has so many devices or more; nil where only this release was reported.
    package let fleet: Int?
    /// What the guard would know; nil where nothing was counted, or a count fell.
    package let verdicts: FirstVerdicts?
    package let rule: GuardRule

    /// Adds up what `document`, `deltas` and `reports` say of `version` at `clock`.
    package init(
        _ version: SemanticVersion, in document: ChannelDocument, at clock: Timestamp, deltas: DeltaList?,
        reports: ChannelReports, verdicts: FirstVerdicts?, rule: GuardRule
    ) {
        (self.version, channel, self.clock, self.rule) = (version, document.channel, clock, rule)
        release = document.releases.first { $0.version == version }
        isRecalled = document.recalls(version)
        let told = reports.release(version)
        self.reports = told
        self.verdicts = verdicts.flatMap { $0.count > 0 ? $0 : nil }
        let sizes = [
            "archive": release?.manifest.claims.size, "delta": deltas?.deltas.map(\.size).max(),
        ]
        routes = (told?.routes ?? [:]).sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { name, installs in
            Route(
                name: name, installs: installs, bytes: sizes[name].flatMap { $0 }.flatMap { Self.product($0, installs) }
            )
        }
        failures = (told?.failures ?? [:]).sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map {
            Failure(code: $0.key, devices: $0.value)
        }
        fleet = told != nil && reports.releases.count > 1 ? reports.mostDevices : nil
    }

    /// The devices with a confirmed start, as a share of the fleet: the upper bound, because the fleet may be larger.
    package var share: RolloutPercentage? { share(of: "confirmed") }

    /// The devices that installed the release, as a share of the fleet: the upper bound.
    package var installedShare: RolloutPercentage? { share(of: "installed") }

    private func share(of fact: String) -> RolloutPercentage? {
        guard let fleet, fleet > 0, let reports else { return nil }
        return RolloutPercentage(permille: Int((1000 * Double(reports.count(fact)) / Double(fleet)).rounded()))
    }

    private static func product(_ size: Int, _ count: Int) -> Int? {
        let (bytes, overflows) = size.multipliedReportingOverflow(by: count)
        return overflows || bytes > JSONValue.maximumInteger ? nil : bytes
    }
}

extension GuardRule.Finding {
    /// The word for programs.
    package var code: String {
        switch self {
        case .tooMany: "tooMany"
        case .proven: "fewEnough"
        case .undecided: "undecided"
        }
    }
}

extension GuardRule {
    /// What the rule finds, for people.
    package func words(_ verdicts: FirstVerdicts) -> String {
        let allowed =
            switch self {
            case .rate(let permille): RolloutPercentage(permille: permille).description
            case .simple(let starts, 0): "\(starts)"
            case .simple(_, let permille): RolloutPercentage(permille: permille).description
            }
        return switch finding(verdicts) {
        case .tooMany: "too many starts fail: more than the \(allowed) that may"
        case .proven: "few enough starts fail, where \(allowed) may"
        case .undecided(let missing):
            "undecided, where \(allowed) may fail: \(missing) more good starts would decide it"
        }
    }

    /// The lowest rate of failures, in thousandths and rounded up, that `verdicts` rule out with 95% confidence; 1000 where they rule
    /// out none.
    package static func bound(_ verdicts: FirstVerdicts) -> Int {
        func isRejected(_ permille: Int) -> Bool {
            tail(atMost: verdicts.failed, of: verdicts.count, rate: Double(permille) / 1000) <= risk
        }
        var (lower, upper) = (0, 1000)
        while upper - lower > 1 {
            let middle = (lower + upper) / 2
            if isRejected(middle) { upper = middle } else { lower = middle }
        }
        return upper
    }
}
