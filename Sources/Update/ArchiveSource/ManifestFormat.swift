import BundleCore
package import BundleValues
import BundleSigning

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
        for (name, value) in reader.object.members.map({ ($0.name, $0.value) }) where value == .null {
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
        manifest.notes = try reader.optionalString("notes")
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
        object["notes"] = manifest.notes.map(JSONValue.string)
        object["signature"] = .string(Base64.encode(signature))
        if !others.isEmpty { object["signatures"] = SignedEnvelope.list(others) }
        return .object(object)
    }
}
