import ArchiveSource
import BundleCore
import BundleValues

/// How large a channel document may become: every device downloads all of it after each change, and reads at most
/// `ChannelFormat.maximumBytes`. A pure rule.
enum ChannelSize: Equatable {
    /// There is room for years.
    case small
    /// The operator should remove releases.
    case large
    /// Nothing may be added: the rest is for recalls, pauses and rollouts.
    case full
    /// No device would read it.
    case tooLarge

    /// A document of more bytes is reported.
    static let warning = ChannelFormat.maximumBytes / 4
    /// A document of more bytes takes no further release.
    static let additions = ChannelFormat.maximumBytes / 4 * 3

    /// Judges a document of `bytes`.
    static func judge(_ bytes: Int) -> ChannelSize {
        if bytes > ChannelFormat.maximumBytes { return .tooLarge }
        return bytes > additions ? .full : bytes > warning ? .large : .small
    }

    /// Refuses a document of `bytes` that no device would read, or that `adds` a release where only recalls have room. Returns a warning
    /// for people; nil where there is nothing to say.
    static func require(_ bytes: Int, of channel: String, adds: Bool) throws -> String? {
        let size = "\(ByteCount(bytes: bytes)), and devices read \(ByteCount(bytes: ChannelFormat.maximumBytes))"
        let advice = "remove releases that no device takes with `clientctl channel prune --keep 5 --channel \(channel)`"
        switch judge(bytes) {
        case .small: return nil
        case .full where adds:
            throw UpdateFailure(
                .configInvalid, subject: "channel \(channel)",
                "Channel \(channel) would have \(size): above \(ByteCount(bytes: additions)) there is room for recalls and changes only. To add "
                    + "a release, \(advice).")
        case .large, .full: return "its document has \(size): \(advice)"
        case .tooLarge:
            throw UpdateFailure(
                .configInvalid, subject: "channel \(channel)",
                "Channel \(channel) would have \(size). First \(advice).")
        }
    }
}

extension ChannelDocument {
    /// Releases below the newest one for every device that stay in a channel by themselves: a device that cannot start a newer one goes back
    /// to them.
    static let keptUnreachable = 20

    /// The releases that no device takes at `time` any more, the highest first: recalled, or below a release for every device of the same
    /// shells. A device takes one of them only if it has blocked every release above.
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

    /// Removes the releases that no device takes at `time`, but the `keep` highest of them, and recalls below the floor, which says the same.
    /// Returns what is different, for people.
    mutating func prune(keeping keep: Int, at time: Timestamp) -> [String] {
        let gone = unreachable(at: time).dropFirst(keep)
        releases.removeAll { gone.contains($0.version) }
        let recalls = revoked.count
        if let floor = minimumVersion { revoked.removeAll { $0.version < floor } }
        let lost = recalls - revoked.count
        return gone.map { "\($0): no longer in the channel, no device takes it" }
            + (lost > 0 ? ["\(lost) \(lost == 1 ? "recall" : "recalls") below the floor removed"] : [])
    }
}

extension ChannelDocument {
    /// Makes `addition`, and then removes what no device takes any more, but the highest of it.
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
    /// Whether every shell of `other` is in it.
    fileprivate func covers(_ other: ShellRange) -> Bool {
        if other.minimum < minimum { return false }
        guard let maximum else { return true }
        return other.maximum.map { $0 <= maximum } ?? false
    }
}
