import BundleFormats
import BundleValues

extension ChannelDocument {
    /// Returns warnings about changed releases that no device will install. Such a file can still be signed.
    func warnings(after before: ChannelDocument?, at time: Timestamp) -> [String] {
        var warnings: [String] = []
        for release in releases {
            let version = release.version
            let old = before?.releases.first { $0.version == version }
            if old.map({ $0.hasSameAudience(as: release) }) == true { continue }
            if recalls(version) {
                warnings.append(
                    "\(version) is recalled: no device takes it. Undo the recall with release recall --undo, or publish a higher version."
                )
            } else if release.isPaused, old?.isPaused == true {
                warnings.append("\(version) is paused: no further device takes it until release resume.")
            } else if let higher = forAllDevices(above: release, at: time) {
                warnings.append(
                    "\(higher) is for every device, so no device takes \(version). Publish a higher version, or recall \(higher)."
                )
            }
        }
        if let before, let last = before.newestForAllDevices(at: time), newestForAllDevices(at: time) == nil,
            !releases.contains(where: { $0.version == last })
        {
            warnings.append(
                "no release is for every device now: devices keep what they have, and new devices get nothing."
                    + (channel == ChannelFileName.standard
                        ? " manifest.json still offers its release, unless that is recalled." : ""))
        }
        return warnings
    }

    private func forAllDevices(at time: Timestamp) -> [Release] {
        releases.filter { $0.share(at: time) == Release.allDevices && !$0.isPaused && !recalls($0.version) }
    }

    private func newestForAllDevices(at time: Timestamp) -> SemanticVersion? {
        forAllDevices(at: time).map(\.version).max()
    }

    /// Returns a higher release that every device may install in every shell that runs `release`.
    private func forAllDevices(above release: Release, at time: Timestamp) -> SemanticVersion? {
        let shells = release.manifest.claims.shells
        return forAllDevices(at: time).filter { other in
            other.version > release.version && other.manifest.claims.shells.covers(shells)
        }.map(\.version).max()
    }
}

extension ChannelDocument.Release {
    fileprivate func hasSameAudience(as other: Self) -> Bool {
        rollout == other.rollout && ramp == other.ramp && groups == other.groups
            && isOnlyForGroups == other.isOnlyForGroups && isPaused == other.isPaused && isUrgent == other.isUrgent
    }
}
