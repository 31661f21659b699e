package import BundleValues

/// Whether a device is among those that may have a release. A pure rule.
package enum RolloutRule {
    /// The answer, and why.
    package enum Answer: Sendable, Equatable {
        /// Its number is below the share.
        case drawn
        /// Its number is not below the share by the time, but this very document has let it in before: a clock went back.
        case letInBefore
        /// Its number is not below the share.
        case leftOut

        /// Whether the device may have the release.
        package var isIn: Bool { self != .leftOut }
    }

    /// Judges the device with the number `draw` (0...999) at the trusted `time`. `wasIn` tells whether this very document has let the
    /// device in before.
    package static func judge(
        _ release: ChannelDocument.Release, draw: Int, at time: Timestamp, wasIn: Bool
    ) -> Answer {
        if draw < release.share(at: time) { return .drawn }
        // Without a battery a clock begins anew with each start: nobody loses a client until it is set.
        if wasIn, let ramp = release.ramp, ramp.steps.contains(where: { draw < $0.rollout }) { return .letInBefore }
        return .leftOut
    }
}
