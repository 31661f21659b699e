public import ArchiveChannel
import BundleCore

/// What was packed, and what became of the feed.
public struct ReleaseReport: Sendable {
    /// What happened to the feed.
    public enum Outcome: String, Sendable {
        /// The release is new in the feed.
        case published
        /// The feed had this very release before; nothing was written.
        case unchanged
        /// The feed had this very release before; what leads to it was missing or behind, and was written.
        case completed
        /// Everything was done but writing.
        case dryRun
    }

    /// What happened.
    public let outcome: Outcome
    /// The manifest, as it stands in the release's folder.
    public let manifest: Manifest
    /// Whether the feed's `manifest.json` now names this version.
    public let isNewest: Bool
    /// The largest files, largest first.
    public let largest: [CanonicalTree.Entry]
    /// Flags that raise a device's limits as far as this release needs it.
    public let raisedLimits: [String]
    /// What became of the channel's document; nil where no channel was named.
    public let channel: ChannelReport?
}
