public import BundleCore
public import BundleSigning

/// A manifest that a trusted key has signed; only `ManifestVerifier` makes one.
public struct VerifiedManifest: ReleaseOffer {
    /// Its values.
    public let manifest: Manifest
    /// The key that signed it.
    public let key: PublicKey
    /// The document as received.
    public let document: JSONValue

    fileprivate init(manifest: Manifest, key: PublicKey, document: JSONValue) {
        self.manifest = manifest
        self.key = key
        self.document = document
    }

    /// The version offered.
    public var version: SemanticVersion { manifest.version }
    /// The shells it is for.
    public var shells: ShellRange { manifest.shells }
    /// The application it names.
    public var appId: String? { manifest.appId }
    /// That its signature is good.
    public var evidence: [Decision.Outcome] {
        [Decision.Outcome(rule: "signature", passed: true, detail: "\(key.algorithm.rawValue) key \(key.id)")]
    }
    /// The room it states.
    public var footprint: Footprint {
        Footprint(
            downloadBytes: manifest.size, installedBytes: manifest.installedSize, fileCount: manifest.fileCount)
    }
}

/// Signature before use: the one door from a claimed manifest to a verified one.
public enum ManifestVerifier {
    /// The manifest, if one of `trusted` signed its statement; `signatureInvalid` or `keyUnknown` if none did.
    public static func verify(
        _ unverified: UnverifiedManifest, trusted: TrustedKeys
    ) throws -> VerifiedManifest {
        let claims = unverified.claims
        let statement = try claims.statement()
        let hinted = trusted.keys.filter { $0.id == claims.keyId }
        for key in hinted + trusted.keys.filter({ $0.id != claims.keyId })
        where try key.verifies(signature: unverified.signature, over: statement) {
            return VerifiedManifest(manifest: claims, key: key, document: unverified.document)
        }
        let version = claims.version.description
        if let keyId = claims.keyId, hinted.isEmpty {
            throw UpdateFailure(
                .keyUnknown, subject: UntrustedName.display(keyId),
                "Version \(version) is signed by key \(UntrustedName.display(keyId)), which is not trusted here: "
                    + "check --trust, and the feed's address.")
        }
        throw UpdateFailure(
            .signatureInvalid, subject: version,
            "The signature of version \(version) does not match any trusted key: "
                + "the manifest was changed, or somebody else signed it.")
    }
}
