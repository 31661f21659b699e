package import BundleSigning
package import BundleValues

/// The values of a manifest (Guide/reference/wire-formats.md), verified or not.
package struct Manifest: Sendable, Equatable {
    /// The application; nil if the manifest does not name one.
    package var appId: String?
    package var version: SemanticVersion
    /// The URL of the archive, absolute or relative to the manifest. It is not signed.
    package var url: String
    /// The SHA-256 of the archive as the server sends it.
    package var sha256: SHA256Digest
    /// The size of the archive in bytes.
    package var size: Int?
    /// The SHA-256 of the canonical tar of the tree.
    package var contentSha256: SHA256Digest?
    /// The sum of the file sizes in bytes.
    package var installedSize: Int?
    package var fileCount: Int?
    /// The compatible shells, including both ends.
    package var shells: ShellRange
    package var createdAt: Timestamp?
    /// The id of the signing key. It is not signed.
    package var keyId: String?
    /// The SHA-256 of the release notes in `notes.txt` beside the release; nil if there are no notes.
    package var notesSha256: SHA256Digest?
    /// The addresses that the page of the client has to reach before a device confirms its start.
    package var requiredEndpoints: [String] = []
    /// The program that the release contains; nil for a web client.
    package var program: ReleaseProgram?

    /// Creates a manifest without optional values.
    package init(version: SemanticVersion, url: String, sha256: SHA256Digest, shells: ShellRange) {
        self.version = version
        self.url = url
        self.sha256 = sha256
        self.shells = shells
    }

    /// Returns the bytes to sign: one line for each field in a fixed order. The line of an absent field has an empty
    /// value.
    ///
    /// Throws if a value contains a control character, which could imitate another line.
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
        let more =
            requiredEndpoints.map { ("requiredEndpoint", $0) } + (program.map { [("program", $0.path.string)] } ?? [])
            + (program?.others.map { ("programs", $0.string) } ?? [])
        for (name, value) in lines + more {
            let text = value ?? ""
            if text.unicodeScalars.contains(where: Self.isControl) {
                throw ManifestRefusal(member: name, problem: "contains a control character")
            }
            bytes += "\(name)=\(text)\n".utf8
        }
        return bytes
    }

    /// The general category Cc. The table in the standard library is slow, and a channel document has many manifests.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
    }
}

/// The reason why bytes are not a manifest.
package struct ManifestRefusal: Error, Equatable, Sendable, CustomStringConvertible {
    /// The refused member, or "manifest".
    package let member: String
    /// The problem, as the rest of a sentence that begins with the member.
    package let problem: String

    package init(member: String, problem: String) {
        self.member = member
        self.problem = problem
    }

    /// `member problem`.
    package var description: String { "\(member) \(problem)" }
}

extension ManifestRefusal: ClassifiedFailure {
    /// The error `manifestMalformed`.
    package var failure: UpdateFailure {
        UpdateFailure(
            .manifestMalformed, subject: member,
            "This is not a manifest: \(description). Check the address; if it is right, publish the release again.")
    }
}

/// A manifest with unverified signatures. Its values may be shown; an installation does not accept it.
package struct UnverifiedManifest: Sendable {
    package let claims: Manifest
    /// The signatures over the statement. The first one is in every manifest and does not name its key.
    let signatures: [SignedEnvelope.Signature]
    /// The document as received, with unknown members.
    package let document: JSONValue

    /// The keys that it names as those of its signatures.
    package var keyIds: [String] { [claims.keyId].compactMap(\.self) + signatures.compactMap(\.keyId) }
}

/// The file format of a manifest: one flat JSON object of at most 64 KiB.
package enum ManifestFormat {
    /// The largest manifest, in bytes.
    package static let maximumBytes = 64 * 1024

    /// The known members. Other members are ignored, with any value.
    private static let members = [
        "schema", "appId", "version", "url", "sha256", "size", "contentSha256", "installedSize", "fileCount",
        "minShellVersion", "maxShellVersion", "createdAt", "keyId", "notesSha256", "requiredEndpoints", "program",
        "programs", "signature", "signatures",
    ]

    /// Parses a manifest. Throws for duplicate keys, wrong types and missing members; ignores unknown members.
    package static func parse(_ bytes: [UInt8]) throws(ManifestRefusal) -> UnverifiedManifest {
        let document: JSONValue
        do {
            document = try JSONScanner.parse(bytes, maximumBytes: maximumBytes)
        } catch {
            throw ManifestRefusal(member: "manifest", problem: "is not strict JSON: \(error)")
        }
        if let other = kind(of: document) { throw ManifestRefusal(member: "manifest", problem: other) }
        return try parse(document, of: "manifest")
    }

    /// Returns what another document of this product or of Meteor is; nil for any other document.
    private static func kind(of document: JSONValue) -> String? {
        guard let object = document.objectValue, object["url"] == nil else { return nil }
        if object["payload"] != nil, object["signatures"] != nil { return "is a channel file: give it with --channel" }
        if object["manifest"]?.arrayValue != nil {
            return "lists the files of a Meteor app: give the address of the app with --meteor"
        }
        return nil
    }

    /// Parses a manifest within another document. `name` is its path there, for messages.
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
        if reader.optional("requiredEndpoints") != nil {
            manifest.requiredEndpoints = try reader.strings("requiredEndpoints")
            guard RequiredEndpoints.refusal(manifest.requiredEndpoints) == nil else {
                throw reader.refusal("requiredEndpoints", "is not a list of 1 to \(RequiredEndpoints.most) addresses")
            }
        }
        manifest.program = try program(reader)
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

    private static func program(_ reader: MemberReader) throws -> ReleaseProgram? {
        let others = reader.optional("programs") == nil ? [] : try reader.strings("programs")
        guard let path = try reader.optionalString("program") else {
            if others.isEmpty { return nil }
            throw reader.refusal("programs", "is there without program")
        }
        do {
            return try ReleaseProgram([path] + others)
        } catch {
            throw reader.refusal("program", "is refused: \(error)")
        }
    }

    /// Returns the signatures of further keys, for roles with a threshold above 1.
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
            throw reader.refusal("url", "is empty or contains a space or control character")
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

    /// Returns the document of `manifest` with `signature` and the `others` of further keys. Members are in the order
    /// of the contract.
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
        if !manifest.requiredEndpoints.isEmpty {
            object["requiredEndpoints"] = .array(manifest.requiredEndpoints.map(JSONValue.string))
        }
        object["program"] = manifest.program.map { .string($0.path.string) }
        if let more = manifest.program?.others, !more.isEmpty {
            object["programs"] = .array(more.map { .string($0.string) })
        }
        object["signature"] = .string(Base64.encode(signature))
        if !others.isEmpty { object["signatures"] = SignedEnvelope.list(others) }
        return .object(object)
    }
}

/// A manifest with as many valid signatures as its role requires. Only `ManifestVerifier` makes one.
package struct VerifiedManifest: Sendable {
    package let manifest: Manifest
    package let signers: [PublicKey]
    package let document: JSONValue

    fileprivate init(manifest: Manifest, signers: [PublicKey], document: JSONValue) {
        self.manifest = manifest
        self.signers = signers
        self.document = document
    }

    package var version: SemanticVersion { manifest.version }
    package var shells: ShellRange { manifest.shells }
    package var appId: String? { manifest.appId }

    /// Throws `wrongKind` if a store of `kind` does not install the release.
    package func require(_ kind: ReleaseKind) throws(UpdateFailure) {
        if manifest.kind != kind { throw manifest.kind.refusal(of: version) }
    }
}

/// Verifies manifests. This is the only way to a `VerifiedManifest`.
package enum ManifestVerifier {
    /// Returns the manifest if the required number of `trusted` keys signed its statement. Throws `signatureInvalid` or
    /// `keyUnknown` otherwise.
    package static func verify(
        _ unverified: UnverifiedManifest, trusted: TrustedKeys
    ) throws -> VerifiedManifest {
        let claims = unverified.claims
        do {
            let signers = try trusted.signers(
                unverified.signatures, over: try claims.statement(), of: "manifest of \(claims.version)")
            return VerifiedManifest(manifest: claims, signers: signers, document: unverified.document)
        } catch let failure as UpdateFailure {
            // The unsigned key id explains the failure better than the signature.
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
