import BundleFormats
import BundleValues

/// The size limits of a channel file. Every device downloads the whole file after each change, and reads at most
/// `ChannelFormat.maximumBytes`.
enum ChannelSize: Equatable {
    case small
    /// The operator should remove releases.
    case large
    /// No release may be added: the remaining space is for recalls, pauses and rollouts.
    case full
    /// Devices would not read the file.
    case tooLarge

    /// Larger files cause a warning.
    static let warning = ChannelFormat.maximumBytes / 4
    /// Larger files accept no further release.
    static let additions = ChannelFormat.maximumBytes / 4 * 3

    static func judge(_ bytes: Int) -> ChannelSize {
        if bytes > ChannelFormat.maximumBytes { return .tooLarge }
        return bytes > additions ? .full : bytes > warning ? .large : .small
    }

    /// Throws if devices would not read a file of `bytes`, or if it `adds` a release to a full file. Returns a
    /// warning for a large file.
    static func require(_ bytes: Int, of channel: String, adds: Bool) throws -> String? {
        let size = "\(ByteCount(bytes: bytes)), and devices read \(ByteCount(bytes: ChannelFormat.maximumBytes))"
        let advice = "remove unused releases with `clientctl channel prune --keep 5 --channel \(channel)`"
        switch judge(bytes) {
        case .small: return nil
        case .full where adds:
            throw UpdateFailure(
                .configInvalid, subject: "channel \(channel)",
                "Channel \(channel) would have \(size): above \(ByteCount(bytes: additions)) only recalls and changes are accepted. To add "
                    + "a release, \(advice).")
        case .large, .full: return "its file has \(size): \(advice)"
        case .tooLarge:
            throw UpdateFailure(
                .configInvalid, subject: "channel \(channel)",
                "Channel \(channel) would have \(size). First \(advice).")
        }
    }
}

extension ChannelDocument {
    /// The number of releases that stay below the newest one for every device: a device that cannot start a newer release falls
    /// back to them.
    static let keptUnreachable = 20

    /// Returns the releases that no device installs at `time`, highest first: recalled releases, and those below a
    /// release for every device with the same shells. A device installs one of them only if it has blocked every
    /// higher release.
    func unreachable(at time: Timestamp) -> [SemanticVersion] {
        let forAll = releases.filter {
            $0.share(at: time) == Release.allDevices && !$0.isPaused && !recalls($0.version)
        }
        guard let newest = forAll.map(\.version).max() else { return [] }
        return releases.filter { release in
            release.version < newest
                && (recalls(release.version)
                    || forAll.contains { $0.version > release.version && $0.shells.covers(release.shells) })
        }.map(\.version).sorted(by: >)
    }

    /// Removes the releases that no device installs at `time`, except the `keep` highest, and the recalls that the
    /// minimum version makes redundant. Returns the changes in words.
    mutating func prune(keeping keep: Int, at time: Timestamp) -> [String] {
        let gone = unreachable(at: time).dropFirst(keep)
        releases.removeAll { gone.contains($0.version) }
        let recalls = recalled.count
        if let floor = minimumVersion { recalled.removeAll { $0.version < floor } }
        let lost = recalls - recalled.count
        return gone.map { "\($0): no longer in the channel, because no device installs it" }
            + (lost > 0 ? ["\(lost) \(lost == 1 ? "recall" : "recalls") below the minimum version removed"] : [])
    }
}

extension ChannelDocument {
    /// Applies `addition`, then removes releases that no device installs.
    mutating func addPruning(
        at time: Timestamp, _ addition: (inout ChannelDocument) throws -> [String]
    ) rethrows -> [String] {
        let changes = try addition(&self)
        return changes.isEmpty ? [] : changes + prune(keeping: Self.keptUnreachable, at: time)
    }
}

extension ChannelDocument.Release {
    fileprivate var shells: ShellRange { manifest.claims.shells }
}

extension ShellRange {
    /// Returns whether this range includes `other`.
    fileprivate func covers(_ other: ShellRange) -> Bool {
        if other.minimum < minimum { return false }
        guard let maximum else { return true }
        return other.maximum.map { $0 <= maximum } ?? false
    }
}
