import BundleValues
import BundleSigning

/// The trust root on the wire: a DSSE envelope of at most 256 KiB.
package enum TrustRootFormat {
    /// The longest document, in bytes.
    package static let maximumBytes = 256 * 1024
    /// The payload's type.
    package static let payloadType = "application/vnd.swap-clients.trust.v1+json"

    private static let name = "trust root"
    private static let maximumKeys = 64

    /// Reads a trust root strictly; its signatures are not looked at.
    package static func parse(_ document: [UInt8]) throws(DocumentRefusal) -> UnverifiedTrustRoot {
        let envelope = try SignedEnvelope(
            parsing: document, payloadType: payloadType, maximumBytes: maximumBytes, name: name)
        do {
            let value = try JSONScanner.parse(envelope.payload, maximumBytes: maximumBytes)
            let claims = try read(try MemberReader(value, of: name))
            return UnverifiedTrustRoot(claims: claims, envelope: envelope, document: document)
        } catch {
            throw DocumentRefusal(name, error)
        }
    }

    private static func read(_ reader: MemberReader) throws -> TrustRoot {
        if let schema = reader.optional("schema"), schema != .integer(1) {
            throw reader.refusal("schema", "is not 1: this clientctl is too old for it")
        }
        let version = try reader.integer("version")
        if version == 0 { throw reader.refusal("version", "is 0: the first trust root has version 1") }
        let entries = try reader.objects("keys")
        if entries.count > maximumKeys { throw reader.refusal("keys", "has more than \(maximumKeys) entries") }
        let roles = try MemberReader(reader.optional("roles") ?? .null, of: "\(name).roles")
        var root = TrustRoot(
            version: version, appId: try reader.optionalString("appId"), issued: try reader.timestamp("issued"),
            expires: try reader.timestamp("expires"), keys: try entries.map(key), roles: [:],
            revoked: try reader.strings("revoked"))
        if root.appId?.isEmpty == true { throw reader.refusal("appId", "is empty; leave it out instead") }
        if root.expires <= root.issued { throw reader.refusal("expires", "is not later than issued") }
        if Set(root.keys.map(\.publicKey.id)).count != root.keys.count {
            throw reader.refusal("keys", "has a key twice")
        }
        for role in TrustRole.allCases {
            guard let value = roles.optional(role.rawValue) else {
                if role == .channel { continue }
                throw roles.refusal(role.rawValue, "is missing")
            }
            root.roles[role] = try self.role(try MemberReader(value, of: "\(name).roles.\(role)"), root.keys)
        }
        for role in root.roles.keys
        where root.trusted(for: role, at: nil).keys.count < (root.roles[role]?.threshold ?? 1) {
            throw roles.refusal(role.rawValue, "asks for more signatures than it has keys that are not revoked")
        }
        try requireAgreement(entries, root)
        return root
    }

    private static func key(_ reader: MemberReader) throws -> TrustRoot.Key {
        let key: PublicKey
        do { key = try PublicKey(parsingDER: try reader.base64("spki")) } catch let error as KeyError {
            throw reader.refusal("spki", "is refused: \(error)")
        }
        if try reader.string("keyid") != key.id {
            throw reader.refusal("keyid", "is not the SHA-256 of its spki, \(key.id)")
        }
        if try reader.string("algorithm") != key.algorithm.rawValue {
            throw reader.refusal("algorithm", "is not the key's own, \(key.algorithm.rawValue)")
        }
        return TrustRoot.Key(key, notAfter: reader.optional("notAfter") == nil ? nil : try reader.timestamp("notAfter"))
    }

    private static func role(_ reader: MemberReader, _ keys: [TrustRoot.Key]) throws -> TrustRoot.Role {
        let threshold = try reader.integer("threshold")
        if threshold == 0 { throw reader.refusal("threshold", "is 0: anybody could sign") }
        var ids: [String] = []
        for id in try reader.strings("keyids") {
            if !keys.contains(where: { $0.publicKey.id == id }) {
                throw reader.refusal("keyids", "names \(UntrustedName.display(id)), which is not among the keys")
            }
            if !ids.contains(id) { ids.append(id) }
        }
        return TrustRoot.Role(threshold: threshold, keyIds: ids)
    }

    /// Roles are stated twice, with the key and by the role; a document that says two things is refused.
    private static func requireAgreement(_ entries: [MemberReader], _ root: TrustRoot) throws {
        for (entry, key) in zip(entries, root.keys) where entry.optional("roles") != nil {
            let known = Set(TrustRole.allCases.map(\.rawValue))
            let stated = Set(try entry.strings("roles")).intersection(known)
            if stated != Set(root.roles(of: key.publicKey.id).map(\.rawValue)) {
                throw entry.refusal("roles", "are not those that name the key")
            }
        }
    }

    /// The payload for `root`, every member in fixed order.
    package static func payload(_ root: TrustRoot) -> [UInt8] {
        let keys = root.keys.map { key in
            var object: JSONObject = [
                "keyid": .string(key.publicKey.id), "algorithm": .string(key.publicKey.algorithm.rawValue),
                "spki": .string(Base64.encode(key.publicKey.spki)),
                "roles": .array(root.roles(of: key.publicKey.id).map { .string($0.rawValue) }),
            ]
            object["notAfter"] = (key.notAfter?.description).map(JSONValue.string)
            return JSONValue.object(object)
        }
        var roles: JSONObject = [:]
        for role in TrustRole.allCases {
            guard let named = root.roles[role] else { continue }
            roles[role.rawValue] = .object([
                "threshold": .integer(named.threshold), "keyids": .array(named.keyIds.map(JSONValue.string)),
            ])
        }
        var object: JSONObject = ["schema": .integer(1), "version": .integer(root.version)]
        object["appId"] = root.appId.map(JSONValue.string)
        object["issued"] = .string(root.issued.description)
        object["expires"] = .string(root.expires.description)
        object["keys"] = .array(keys)
        object["roles"] = .object(roles)
        object["revoked"] = .array(root.revoked.map(JSONValue.string))
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }

    /// An unsigned envelope around `root`.
    package static func envelope(_ root: TrustRoot) -> SignedEnvelope {
        SignedEnvelope(payloadType: payloadType, payload: payload(root))
    }
}
