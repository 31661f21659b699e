package import BundleFormats
package import BundleValues

/// The result of a publication.
package struct ReleaseReport: Sendable {
    /// The change of the feed.
    package enum Outcome: String, Sendable {
        /// The feed has a new release.
        case published
        /// The feed already had this release; nothing was written.
        case unchanged
        /// The feed already had this release; missing or outdated references to it were written.
        case completed
        /// Nothing was written.
        case dryRun
    }

    package let outcome: Outcome
    /// The manifest in the release's folder.
    package let manifest: Manifest
    /// Whether the feed's `manifest.json` now names this version.
    package let isNewest: Bool
    /// The version that `manifest.json` names; nil if there is none.
    package let offered: SemanticVersion?
    /// The largest files, largest first.
    package let largest: [CanonicalTree.CanonicalFile]
    /// The flags that raise a device's limits as far as this release needs.
    package let raisedLimits: [String]
    /// The channel edit; nil if no channel was given.
    package let channel: ChannelReport?
    /// The writes of a dry run, in order; nil otherwise.
    package let writes: [FeedWrite]?
    /// Whether the feed had no release, channel or trust root before.
    package internal(set) var isFeedNew = false
    /// The deltas to the release.
    package internal(set) var deltas: [DeltaReport] = []
    /// The bundle for phones; nil if none was made.
    package internal(set) var phone: PhoneBundle?
    /// Warnings about options without effect, and about reasons why devices do not install the release.
    package internal(set) var warnings: [String] = []
    /// Another release of the feed with the same content; nil if there is none.
    package internal(set) var sameContent: FolderFinding?
}

/// A release with its signatures, which do not depend on the location of its archive.
struct SignedRelease {
    let manifest: Manifest
    /// The signature of the first signer.
    let signature: [UInt8]
    let others: [SignedEnvelope.Signature]
    let trusted: TrustedKeys

    /// Returns the manifest for an archive at `url`, parsed and verified as a device would, because notes and
    /// signatures come from outside.
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
