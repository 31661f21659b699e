package import ArchiveSource
import BundleCore
package import BundleValues

/// What was packed, and what became of the feed.
package struct ReleaseReport: Sendable {
    /// What happened to the feed.
    package enum Outcome: String, Sendable {
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
    package let outcome: Outcome
    /// The manifest, as it stands in the release's folder.
    package let manifest: Manifest
    /// Whether the feed's `manifest.json` now names this version.
    package let isNewest: Bool
    /// The version that it names; nil where there is none.
    package let offered: SemanticVersion?
    /// The largest files, largest first.
    package let largest: [CanonicalTree.Entry]
    /// Flags that raise a device's limits as far as this release needs it.
    package let raisedLimits: [String]
    /// What became of the channel's document; nil where no channel was named.
    package let channel: ChannelReport?
    /// What a dry run would write, in order; nil otherwise.
    package let writes: [FeedWrite]?
    /// What became of the deltas that lead to it.
    package internal(set) var deltas: [DeltaReport] = []
    /// What keeps devices from the release, or what of the options had no effect, for people.
    package internal(set) var warnings: [String] = []
    /// Another release of the feed with the same content; nil if there is none.
    package internal(set) var sameContent: FolderFinding?
}

/// A release with its signatures, which hold wherever its archive lies.
struct SignedRelease {
    let manifest: Manifest
    /// The foremost signer's.
    let signature: [UInt8]
    let others: [SignedEnvelope.Signature]
    let trusted: TrustedKeys

    /// The manifest for an archive at `url`, read and verified as a device would: the notes are the publisher's own text, the
    /// signatures may come from a command.
    func claims(url: String) throws -> UnverifiedManifest {
        var manifest = manifest
        manifest.url = url
        let bytes = JSONWriter.bytes(
            of: ManifestFormat.document(manifest, signature: signature, others: others), layout: .pretty)
        let claims = try ManifestFormat.parse(bytes)
        _ = try ManifestVerifier.verify(claims, trusted: trusted)
        return claims
    }
}
