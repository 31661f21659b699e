import ArchiveSource
import BundleValues

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
