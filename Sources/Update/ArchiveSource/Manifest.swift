package import BundleCore
package import BundleSigning
package import BundleValues

/// The values of a manifest (CONTRACT section 1), whoever vouches for them.
package struct Manifest: Sendable, Equatable {
    /// The application; nil where the manifest names none.
    package var appId: String?
    /// The client's version.
    package var version: SemanticVersion
    /// Where the archive is: absolute, or relative to the manifest. A hint.
    package var url: String
    /// SHA-256 of the archive as served.
    package var sha256: SHA256Digest
    /// The archive's bytes.
    package var size: Int?
    /// SHA-256 of the canonical tar of the tree.
    package var contentSha256: SHA256Digest?
    /// Sum of the files' sizes in bytes.
    package var installedSize: Int?
    /// Number of files.
    package var fileCount: Int?
    /// The shells that the client is for, both ends included.
    package var shells: ShellRange
    /// When it was made.
    package var createdAt: Timestamp?
    /// The key to try first. A hint.
    package var keyId: String?
    /// SHA-256 of the release notes, which lie beside the release as `notes.txt`; nil if there are none.
    package var notesSha256: SHA256Digest?

    /// States the values of a manifest; those that a manifest may leave out are nil until set.
    package init(version: SemanticVersion, url: String, sha256: SHA256Digest, shells: ShellRange) {
        self.version = version
        self.url = url
        self.sha256 = sha256
        self.shells = shells
    }

    /// The exact bytes that are signed: one line a field, in fixed order, an absent field empty.
    ///
    /// Throws where a value holds a control character, which could imitate another line.
    package func statement() throws(ManifestRefusal) -> [UInt8] {
        let lines: [(name: String, value: String?)] = [
            ("appId", appId),
            ("version", version.description),
            ("sha256", sha256.hex),
            ("size", size.map(String.init)),
            ("contentSha256", contentSha256?.hex),
            ("installedSize", installedSize.map(String.init)),
            ("fileCount", fileCount.map(String.init)),
            ("minShellVersion", shells.minimum.description),
            ("maxShellVersion", shells.maximum?.description),
            ("createdAt", createdAt?.description),
        ]
        var bytes = Array("swap-clients-manifest-v1\n".utf8)
        for (name, value) in lines {
            let text = value ?? ""
            if text.unicodeScalars.contains(where: Self.isControl) {
                throw ManifestRefusal(member: name, problem: "holds a control character")
            }
            bytes += "\(name)=\(text)\n".utf8
        }
        return bytes
    }

    /// Unicode's general category Cc; its own table is slow, and a channel document has many manifests.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
    }
}

/// Why bytes are not a manifest.
package struct ManifestRefusal: Error, Equatable, Sendable, CustomStringConvertible {
    /// The member refused, or "manifest".
    package let member: String
    /// What is wrong with it.
    package let problem: String

    /// `member problem`.
    package var description: String { "\(member) \(problem)" }
}

extension ManifestRefusal: ClassifiedFailure {
    /// Always `manifestMalformed`.
    package var failure: UpdateFailure {
        UpdateFailure(
            .manifestMalformed, subject: member,
            "This is not a manifest: \(description). Check the address; if it is right, publish the release again.")
    }
}

/// A manifest that nobody has vouched for: its values can be shown, but no step of the line takes them.
package struct UnverifiedManifest: Sendable {
    /// What it claims.
    package let claims: Manifest
    /// The signatures over the statement: first the one that every manifest has, which may be anybody's.
    let signatures: [SignedEnvelope.Signature]
    /// The whole document as received, unknown members included.
    package let document: JSONValue
}

/// The manifest on the wire: one flat JSON object of at most 64 KiB.
package enum ManifestFormat {
    /// The longest manifest, in bytes.
    package static let maximumBytes = 64 * 1024

    /// What is known; anything else is ignored, whatever its value.
    private static let members = [
        "schema", "appId", "version", "url", "sha256", "size", "contentSha256", "installedSize", "fileCount",
        "minShellVersion", "maxShellVersion", "createdAt", "keyId", "notesSha256", "signature", "signatures",
    ]

    /// Reads a manifest strictly: duplicate keys, wrong types and missing fields are refused, unknown fields ignored.
    package static func parse(_ bytes: [UInt8]) throws(ManifestRefusal) -> UnverifiedManifest {
        let document: JSONValue
        do {
            document = try JSONScanner.parse(bytes, maximumBytes: maximumBytes)
        } catch {
            throw ManifestRefusal(member: "manifest", problem: "is not strict JSON: \(error)")
        }
        return try parse(document, of: "manifest")
    }

    /// Reads a manifest that stands in another document, under `name`.
    static func parse(_ document: JSONValue, of name: String) throws(ManifestRefusal) -> UnverifiedManifest {
        do {
            return try read(document, of: name)
        } catch let refusal as ManifestRefusal {
            throw refusal
        } catch let refusal as MemberReader.Refusal {
            throw ManifestRefusal(member: refusal.member, problem: refusal.problem)
        } catch {
            throw ManifestRefusal(member: name, problem: "is refused: \(error)")
        }
    }

    private static func read(_ document: JSONValue, of name: String) throws -> UnverifiedManifest {
        let reader = try MemberReader(document, of: name)
        for name in members where reader.object[name] == .null {
            throw reader.refusal(name, "is null; leave it out instead")
        }
        if let schema = reader.optional("schema"), schema != .integer(1) {
            throw reader.refusal("schema", "is not 1: this clientctl is too old for it")
        }
        var manifest = Manifest(
            version: try reader.version("version"), url: try url(reader), sha256: try reader.digest("sha256"),
            shells: try shells(reader))
        manifest.appId = try reader.optionalString("appId")
        manifest.size = try reader.optionalInteger("size")
        manifest.contentSha256 = reader.optional("contentSha256") == nil ? nil : try reader.digest("contentSha256")
        manifest.installedSize = try reader.optionalInteger("installedSize")
        manifest.fileCount = try reader.optionalInteger("fileCount")
        manifest.createdAt = reader.optional("createdAt") == nil ? nil : try reader.timestamp("createdAt")
        manifest.keyId = try reader.optionalString("keyId")
        manifest.notesSha256 = try reader.optionalDigest("notesSha256")
        if let appId = manifest.appId, appId.isEmpty { throw reader.refusal("appId", "is empty; leave it out instead") }
        _ = try manifest.statement()
        let text = try reader.string("signature")
        guard let signature = try? Base64.decode(text), !signature.isEmpty else {
            throw reader.refusal("signature", "is not standard base64")
        }
        return UnverifiedManifest(
            claims: manifest,
            signatures: [SignedEnvelope.Signature(keyId: nil, bytes: signature)] + (try otherSignatures(reader)),
            document: document)
    }

    /// Where more than one key must sign, what the others have signed.
    private static func otherSignatures(_ reader: MemberReader) throws -> [SignedEnvelope.Signature] {
        guard reader.optional("signatures") != nil else { return [] }
        let entries = try reader.objects("signatures")
        if entries.count >= SignedEnvelope.maximumSignatures {
            throw reader.refusal("signatures", "has \(SignedEnvelope.maximumSignatures) entries or more")
        }
        return try entries.map {
            SignedEnvelope.Signature(keyId: try $0.string("keyid"), bytes: try $0.base64("sig"))
        }
    }

    private static func url(_ reader: MemberReader) throws -> String {
        let url = try reader.string("url")
        if url.isEmpty || url.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }) {
            throw reader.refusal("url", "is empty or holds a space or control character")
        }
        return url
    }

    private static func shells(_ reader: MemberReader) throws -> ShellRange {
        do {
            return try ShellRange(
                minimum: try reader.version("minShellVersion"), maximum: try reader.optionalVersion("maxShellVersion"))
        } catch let error as ShellRangeError {
            throw reader.refusal("maxShellVersion", "is refused: \(error)")
        }
    }

    /// The document for `manifest` with `signature`, every known field in the order of the contract; `others` are the
    /// signatures of further keys, where more than one must sign.
    package static func document(
        _ manifest: Manifest, signature: [UInt8], others: [SignedEnvelope.Signature] = []
    ) -> JSONValue {
        var object: JSONObject = ["schema": .integer(1)]
        object["appId"] = manifest.appId.map(JSONValue.string)
        object["version"] = .string(manifest.version.description)
        object["url"] = .string(manifest.url)
        object["sha256"] = .string(manifest.sha256.hex)
        object["size"] = manifest.size.map(JSONValue.integer)
        object["contentSha256"] = manifest.contentSha256.map { .string($0.hex) }
        object["installedSize"] = manifest.installedSize.map(JSONValue.integer)
        object["fileCount"] = manifest.fileCount.map(JSONValue.integer)
        object["minShellVersion"] = .string(manifest.shells.minimum.description)
        object["maxShellVersion"] = (manifest.shells.maximum?.description).map(JSONValue.string)
        object["createdAt"] = (manifest.createdAt?.description).map(JSONValue.string)
        object["keyId"] = manifest.keyId.map(JSONValue.string)
        object["notesSha256"] = manifest.notesSha256.map { .string($0.hex) }
        object["signature"] = .string(Base64.encode(signature))
        if !others.isEmpty { object["signatures"] = SignedEnvelope.list(others) }
        return .object(object)
    }
}

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
            let why =
                trusted.revocation(of: [keyId]) ?? "which is not trusted here: check --trust, and the feed's address."
            throw UpdateFailure(
                .keyUnknown, subject: UntrustedName.display(keyId),
                "Version \(claims.version) is signed by key \(UntrustedName.display(keyId)), \(why)")
        }
    }
}
