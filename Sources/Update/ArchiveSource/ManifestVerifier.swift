package import BundleCore
package import BundleValues
package import BundleSigning

/// A manifest that enough trusted keys have signed; only `ManifestVerifier` makes one.
package struct VerifiedManifest: ReleaseOffer {
    /// Its values.
    package let manifest: Manifest
    /// The keys that signed it.
    package let signers: [PublicKey]
    /// The document as received.
    package let document: JSONValue

    fileprivate init(manifest: Manifest, signers: [PublicKey], document: JSONValue) {
        self.manifest = manifest
        self.signers = signers
        self.document = document
    }

    /// The version offered.
    package var version: SemanticVersion { manifest.version }
    /// The shells it is for.
    package var shells: ShellRange { manifest.shells }
    /// The application it names.
    package var appId: String? { manifest.appId }
    /// That its signatures are good.
    package var evidence: [Decision.Outcome] {
        let keys = signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
        return [Decision.Outcome(rule: "signature", passed: true, detail: keys)]
    }
    /// What is known of it once it is installed.
    var identity: BundleIdentity {
        BundleIdentity(version: manifest.version, shells: manifest.shells, signers: signers.map(\.id))
    }
    /// The room it states.
    package var footprint: Footprint {
        Footprint(
            downloadBytes: manifest.size, installedBytes: manifest.installedSize, fileCount: manifest.fileCount)
    }
}

/// Signature before use: the one door from a claimed manifest to a verified one.
package enum ManifestVerifier {
    /// The manifest, if as many of `trusted` as must have signed its statement; `signatureInvalid` or `keyUnknown` if not.
    package static func verify(
        _ unverified: UnverifiedManifest, trusted: TrustedKeys
    ) throws -> VerifiedManifest {
        let claims = unverified.claims
        do {
            let signers = try trusted.signers(
                unverified.signatures, over: try claims.statement(), of: "manifest of \(claims.version)")
            return VerifiedManifest(manifest: claims, signers: signers, document: unverified.document)
        } catch let failure as UpdateFailure {
            // The hint says more about what went wrong than the signature does.
            guard failure.code == .signatureInvalid, unverified.signatures.count == 1, let keyId = claims.keyId,
                !trusted.keys.contains(where: { $0.id == keyId })
            else { throw failure }
            throw UpdateFailure(
                .keyUnknown, subject: UntrustedName.display(keyId),
                "Version \(claims.version) is signed by key \(UntrustedName.display(keyId)), which is not trusted here: "
                    + "check --trust, and the feed's address.")
        }
    }
}
