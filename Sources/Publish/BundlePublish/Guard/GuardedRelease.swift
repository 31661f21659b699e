package import ArchiveSource
import BundleCore
package import BundleValues

extension GuardDecision.Situation {
    /// What `document` says of `version` at `clock`, beside the verdicts of devices.
    package init(
        _ version: SemanticVersion, in document: ChannelDocument, at clock: Timestamp, verdicts: FirstVerdicts?
    ) throws {
        let release = document.releases[try document.index(of: version)]
        let isRevoked =
            document.revoked.contains { $0.version == version }
            || document.minimumVersion.map { version < $0 } == true
        self.init(
            rollout: release.rollout, isHeld: release.isPaused || isRevoked,
            sinceChange: .seconds(clock.secondsSinceEpoch - document.issuedAt.secondsSinceEpoch), verdicts: verdicts)
    }
}

extension GuardDecision {
    /// The edit that it takes; nil for none. A release that is to be stopped is recalled where the plan `revokes`, else paused.
    package func change(_ version: SemanticVersion, revokes: Bool, _ situation: Situation) -> ChannelChange? {
        switch self {
        case .advance(let step): .rollout(version, step)
        case .stop where revokes:
            .revoke(
                version,
                reason: "too many starts fail: \(situation.verdicts?.failed ?? 0) of \(situation.verdicts?.count ?? 0)")
        case .stop: .pause(version)
        case .stopByHand, .held, .complete, .bake, .missing, .noData: nil
        }
    }
}
