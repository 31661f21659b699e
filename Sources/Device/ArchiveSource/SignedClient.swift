package import BundleCore
import BundleSigning
import BundleValues

/// Compares an installed client with the manifest in its receipt.
package enum SignedClient {
    /// Returns the manifest of `bundle` in the store at `path` if `trusted` keys signed it and the installed files have
    /// its content.
    ///
    /// Throws `keyUnknown` or `signatureInvalid` for other keys, `digestMismatch` for other files, and `storeDamaged`
    /// if the receipt does not have a manifest.
    package static func verify(
        _ bundle: InstalledBundle, inStoreAt path: String, trusted: TrustedKeys
    ) throws -> VerifiedManifest {
        guard let document = try InstalledTree.manifest(of: bundle, inStoreAt: path) else {
            throw UpdateFailure(
                .storeDamaged, subject: "\(bundle.name)",
                "The receipt of \(bundle.name) has no manifest. Run `clientctl repair --store \(path)`.")
        }
        let verified = try ManifestVerifier.verify(
            try ManifestFormat.parse(JSONWriter.bytes(of: document)), trusted: trusted)
        guard let signed = verified.manifest.contentSha256 else {
            throw UpdateFailure(
                .manifestMalformed, subject: "\(bundle.name)",
                "The manifest of \(bundle.name) has no contentSha256, so its files cannot be compared with the release. Publish it "
                    + "with `clientctl publish`.")
        }
        let found = try content(of: bundle, inStoreAt: path)
        guard verified.clientVersion == bundle.version, found == signed else {
            throw UpdateFailure(
                .digestMismatch, subject: "\(bundle.name)",
                "The files of \(bundle.name) differ from those signed as \(verified.version), so the store was changed. "
                    + "Install the client again, into a new store.")
        }
        return verified
    }

    /// Returns the content digest of the installed files; nil if a file has a type or a name that a client cannot have.
    private static func content(of bundle: InstalledBundle, inStoreAt path: String) throws -> SHA256Digest? {
        do {
            return try CanonicalTree(try InstalledTree.folder(of: bundle, inStoreAt: path)).digest()
        } catch is ArchiveRejection {
            return nil
        }
    }
}
