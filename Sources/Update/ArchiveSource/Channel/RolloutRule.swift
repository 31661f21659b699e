import BundleCore
package import BundleSigning
package import BundleValues

/// Whether a device is among those that may have a release. A pure rule.
package enum RolloutRule {
    /// The answer, and why.
    package enum Answer: Sendable, Equatable {
        /// The release names this group, and the device is in it.
        case named(String)
        /// Its number is below the share.
        case drawn
        /// Its number is not below the share by the time, but this very document has let it in before: a clock went back.
        case letInBefore
        /// The release is for groups alone that the device is not in.
        case notNamed
        /// Its number is not below the share.
        case leftOut

        /// Whether the device may have the release.
        package var isIn: Bool { self != .leftOut && self != .notNamed }
    }

    /// A device, as a rollout sees it.
    package struct Device: Sendable {
        /// What draws it.
        let id: String
        /// The groups that it is in, its own among them.
        let groups: [String]

        /// States a device with `id` in `groups`.
        package init(id: String, groups: [String]) throws(OpenSSLFailure) {
            self.id = id
            self.groups = groups + [try DeviceGroup.single(id)]
        }
    }

    /// Judges `device` at the trusted `time`. `wasIn` tells whether this very document has let the device in before.
    package static func judge(
        _ release: ChannelDocument.Release, _ device: Device, at time: Timestamp, wasIn: Bool
    ) throws(OpenSSLFailure) -> Answer {
        if let group = device.groups.first(where: release.groups.contains) { return .named(group) }
        if release.isOnlyForGroups { return .notNamed }
        let draw = try ChannelRule.draw(salt: release.salt, deviceId: device.id)
        if draw < release.share(at: time) { return .drawn }
        // Without a battery a clock begins anew with each start: nobody loses a client until it is set.
        if wasIn, let ramp = release.ramp, ramp.steps.contains(where: { draw < $0.rollout }) { return .letInBefore }
        return .leftOut
    }
}
