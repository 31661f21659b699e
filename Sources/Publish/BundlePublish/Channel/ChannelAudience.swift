package import BundleFormats
package import BundleValues

extension ChannelDocument {
    /// Returns the audience of `release` in words: a percentage or a ramp, and its groups.
    static func audience(of release: Release) -> String {
        release.audience(release.ramp.map { "a ramp (\($0))" } ?? audience(release.rollout))
    }

    static func audience(_ permille: Int) -> String {
        permille == Release.allDevices ? "every device" : "\(RolloutPercentage(permille: permille)) of the devices"
    }
}

extension ChannelDocument.Release {
    /// Returns the audience at `time` in words: a percentage of the devices, and its groups.
    package func audience(at time: Timestamp) -> String {
        audience("\(RolloutPercentage(permille: share(at: time))) of the devices")
    }

    fileprivate func audience(_ percentage: String) -> String {
        if groups.isEmpty, !isOnlyForGroups { return percentage }
        let named = "the \(groups.count == 1 ? "group" : "groups") \(groups.joined(separator: ", "))"
        return isOnlyForGroups ? "\(named) alone" : "\(named) first, and \(percentage)"
    }
}
