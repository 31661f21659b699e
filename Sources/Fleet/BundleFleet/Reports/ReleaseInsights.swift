import BundlePublish
package import BundleFormats
import BundleCore
package import BundleValues

/// The reports about one release.
package struct ReleaseInsights: Sendable {
    /// A way in which devices downloaded the release.
    package struct RouteCounts: Sendable, Equatable {
        /// The route: `delta` or `archive`.
        package let name: String
        package let installs: Int
        /// The number of devices times the size of the archive or of the largest delta; nil if no size is known.
        /// Aborted downloads are not included.
        package let bytes: Int?
    }

    /// A failure code, and the number of devices that reported it.
    package struct Failure: Sendable, Equatable {
        package let code: String
        package let devices: Int
    }

    package let version: SemanticVersion
    package let channel: String
    /// The time of the query.
    package let clock: Timestamp
    /// The release in the channel; nil if the channel does not have it.
    package let release: ChannelDocument.Release?
    package let isRecalled: Bool
    /// The reports of devices; nil if there are none.
    package let reports: ChannelReports.ReleaseCounts?
    /// The routes, the most used first.
    package let routes: [RouteCounts]
    /// The failures, the most frequent first.
    package let failures: [Failure]
    /// The lower bound of the fleet's size; nil if only this release was reported.
    package let fleet: Int?
    /// The first verdicts; nil if nothing was counted, or a count decreased.
    package let verdicts: FirstVerdicts?
    package let rule: GuardRule

    /// Combines `document`, `deltas` and `reports` for `version` at `clock`.
    package init(
        _ version: SemanticVersion, in document: ChannelDocument, at clock: Timestamp, deltas: DeltaList?,
        reports: ChannelReports, verdicts: FirstVerdicts?, rule: GuardRule
    ) {
        (self.version, channel, self.clock, self.rule) = (version, document.channel, clock, rule)
        release = document.releases.first { $0.version == version }
        isRecalled = document.recalls(version)
        let reported = reports.release(version)
        self.reports = reported
        self.verdicts = verdicts.flatMap { $0.count > 0 ? $0 : nil }
        let sizes = [
            "archive": release?.manifest.claims.size, "delta": deltas?.deltas.map(\.size).max(),
        ]
        routes = (reported?.routes ?? [:]).sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { name, installs in
            RouteCounts(
                name: name, installs: installs, bytes: sizes[name].flatMap { $0 }.flatMap { Self.product($0, installs) }
            )
        }
        failures = (reported?.failures ?? [:]).sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map {
            Failure(code: $0.key, devices: $0.value)
        }
        fleet = reported != nil && reports.releases.count > 1 ? reports.mostDevices : nil
    }

    /// The percentage of the fleet with a confirmed start: an upper bound, because the fleet may be larger.
    package var confirmedShare: RolloutPercentage? { share(of: "confirmed") }

    /// The percentage of the fleet that installed the release: an upper bound.
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

extension GuardRule.GuardFinding {
    /// The code for programs.
    package var code: String {
        switch self {
        case .tooMany: "tooMany"
        case .proven: "fewEnough"
        case .undecided: "undecided"
        }
    }
}

extension GuardRule {
    /// Returns the finding in words.
    package func words(_ verdicts: FirstVerdicts) -> String {
        let allowed =
            switch self {
            case .rate(let permille): RolloutPercentage(permille: permille).description
            case .simple(let starts, 0): "\(starts)"
            case .simple(_, let permille): RolloutPercentage(permille: permille).description
            }
        return switch finding(verdicts) {
        case .tooMany where exceedsFixedThreshold(verdicts) == false:
            "too many starts fail: clearly more than \(RolloutPercentage(permille: provableRate))"
        case .tooMany: "too many starts fail: more than the allowed \(allowed)"
        case .proven: "few enough starts fail: at most \(allowed) may"
        case .undecided(let missing):
            "undecided, at most \(allowed) may fail: \(missing) more confirmed starts would decide it"
        }
    }

    /// Returns the lowest failure rate, in thousandths and rounded up, that `verdicts` rule out with 95% confidence;
    /// 1000 if they rule out none.
    package static func bound(_ verdicts: FirstVerdicts) -> Int {
        func isRejected(_ permille: Int) -> Bool {
            tail(atMost: verdicts.failed, of: verdicts.count, rate: Double(permille) / 1000) <= risk
        }
        return least(above: 0, upTo: 1000, where: isRejected)
    }
}
