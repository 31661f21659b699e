import BundleCore
package import BundleFormats
package import BundleSigning
package import BundleValues

/// Decides whether a device may install a release.
package enum RolloutRule {
    /// The decision and its reason.
    package enum Membership: Sendable, Equatable {
        /// The release names this group of the device.
        case named(String)
        /// The bucket of the device is below the percentage.
        case inBucket
        /// The bucket is not below the percentage, but the same document admitted the device before, so the clock was
        /// set back.
        case admittedBefore
        /// The release is only for groups that do not include the device.
        case notNamed
        /// The bucket is not below the percentage.
        case leftOut

        /// Whether the device may install the release.
        package var isIn: Bool { self != .leftOut && self != .notNamed }
    }

    /// The device's input to the rule.
    package struct RolloutDevice: Sendable {
        /// The id that determines the bucket.
        let id: String
        /// The groups of the device, including the group of this single device.
        let groups: [String]

        package init(id: String, groups: [String]) throws(OpenSSLFailure) {
            self.id = id
            self.groups = groups + [try DeviceGroup.single(id)]
        }
    }

    /// Judges `device` at the trusted `time`. `wasIn` is whether the same document admitted the device before.
    package static func judge(
        _ release: ChannelDocument.Release, on device: RolloutDevice, at time: Timestamp, wasIn: Bool
    ) throws(OpenSSLFailure) -> Membership {
        if let group = device.groups.first(where: release.groups.contains) { return .named(group) }
        if release.isOnlyForGroups { return .notNamed }
        let bucket = try ChannelRule.bucket(salt: release.salt, deviceId: device.id)
        if bucket < release.share(at: time) { return .inBucket }
        // A clock without a battery is behind after each start. The device keeps the release until the clock is set.
        if wasIn, let ramp = release.ramp, ramp.steps.contains(where: { bucket < $0.rollout }) {
            return .admittedBefore
        }
        return .leftOut
    }
}
