package import BundlePublish
package import BundleFormats
import BundleCore
package import BundleValues

extension GuardDecision.Situation {
    /// Combines the state of `version` in `document` at `clock` with the counted verdicts of devices.
    package init(
        _ version: SemanticVersion, in document: ChannelDocument, at clock: Timestamp, counted: VerdictQuery.Counted
    ) throws {
        let release = document.releases[try document.index(of: version)]
        let changed = max(document.issuedAt, release.ramp?.step(at: clock)?.at ?? document.issuedAt)
        self.init(
            rollout: release.share(at: clock), isHeld: release.isPaused || document.recalls(version),
            sinceChange: .seconds(clock.secondsSinceEpoch - changed.secondsSinceEpoch), counted: counted)
        isRecalled = document.recalls(version)
        isForNamedAlone = release.isOnlyForGroups
        named = release.groups.filter(DeviceGroup.isSingle).count
        namesGroups = named < release.groups.count
    }

    /// The reason for stopping the release, in words.
    package var reason: String { "too many starts fail: \(verdicts?.failed ?? 0) of \(verdicts?.count ?? 0)" }
}

extension GuardDecision {
    /// Returns the channel change of the decision; nil for none. A release that must stop is recalled if `recalls` is
    /// set, and paused otherwise.
    package func change(_ version: SemanticVersion, recalls: Bool, in situation: Situation) -> ChannelChange? {
        switch self {
        case .advance(let step): .rollout(version, step)
        case .stop where recalls: .recall(version, reason: situation.reason)
        case .stop: .pause(version)
        case .stopByHand, .held, .forGroupsAlone, .complete, .bake, .missing, .tooManyDevices, .notYet, .noData: nil
        }
    }
}
