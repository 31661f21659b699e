package import BundleSigning
package import BundleValues

/// The kinds of documents that a key may sign.
package enum TrustRole: String, Sendable, CaseIterable {
    case root
    case release
    /// Signs channel documents. Release keys have this role if a trust root does not name channel keys.
    case channel
    /// Signs holds of channels. A trust root without guard keys does not allow holds.
    case `guard`
    /// Signs releases with programs. No other role implies it.
    case program
}

/// The values of a trust root (SECURITY section 5.4), verified or not.
package struct TrustRoot: Sendable, Equatable {
    /// A key and the end of its validity.
    package struct Key: Sendable, Equatable {
        package let publicKey: PublicKey
        /// The time from which the key is valid only for the chain of trust roots; nil for no end.
        package var notAfter: Timestamp?
        /// The name of the person or device that has the key, for readers; nil if the root does not state one.
        package var label: String?

        package init(_ publicKey: PublicKey, notAfter: Timestamp? = nil, label: String? = nil) {
            self.publicKey = publicKey
            self.notAfter = notAfter
            self.label = label
        }
    }

    /// The keys of a role and its required number of signatures.
    package struct Role: Sendable, Equatable {
        /// The required number of distinct keys, 1 or more.
        package var threshold: Int
        /// The ids of the keys, without duplicates.
        package var keyIds: [String]

        package init(threshold: Int, keyIds: [String]) {
            self.threshold = threshold
            self.keyIds = keyIds
        }
    }

    /// The version: 1 for the first root, and exactly one more for each next one.
    package var version: Int
    /// The application; nil if the root does not name one.
    package var appId: String?
    package var issued: Timestamp
    /// The time from which devices do not install new releases by this root.
    package var expires: Timestamp
    package var keys: [Key]
    /// The roles. `root` and `release` are always present.
    package var roles: [TrustRole: Role]
    /// The ids of revoked keys.
    package var revoked: [String]

    package init(
        version: Int, appId: String?, issued: Timestamp, expires: Timestamp, keys: [Key], roles: [TrustRole: Role],
        revoked: [String] = []
    ) {
        self.version = version
        self.appId = appId
        self.issued = issued
        self.expires = expires
        self.keys = keys
        self.roles = roles
        self.revoked = revoked
    }

    /// Returns the keys of `role` that are not revoked and, if `time` is given, are valid then.
    package func trusted(for role: TrustRole, at time: Timestamp?) -> TrustedKeys {
        guard let named = roles[role] ?? (role == .channel ? roles[.release] : nil) else { return TrustedKeys([]) }
        let usable = keys.filter { key in
            guard named.keyIds.contains(key.publicKey.id), !revoked.contains(key.publicKey.id) else { return false }
            guard let time, let end = key.notAfter else { return true }
            return time < end
        }
        return TrustedKeys(
            usable.map(\.publicKey), threshold: named.threshold,
            revoked: TrustedKeys.Revoked(ids: revoked, rootVersion: version))
    }

    /// Returns the roles of a key.
    package func roles(of id: String) -> [TrustRole] {
        TrustRole.allCases.filter { roles[$0]?.keyIds.contains(id) == true }
    }
}

/// A trust root that is not verified against its predecessor.
package struct UnverifiedTrustRoot: Sendable {
    package let claims: TrustRoot
    package let envelope: SignedEnvelope
    package let document: [UInt8]
}

/// A trust root that is pinned or that its predecessor authorizes. Only `TrustChain` makes one.
package struct VerifiedTrustRoot: Sendable, Equatable {
    package let root: TrustRoot
    package let document: [UInt8]
    /// The SHA-256 of the signed bytes.
    package let payloadSha256: SHA256Digest

    fileprivate init(_ unverified: UnverifiedTrustRoot) throws(OpenSSLFailure) {
        root = unverified.claims
        document = unverified.document
        payloadSha256 = try SHA256Digest.of(unverified.envelope.payload)
    }
}

/// Verifies one root by the previous one, as in TUF (specification 1.0.34, section 5.3).
package enum TrustChain {
    /// The largest number of roots that a device follows at once.
    package static let mostSteps = 256

    /// Returns the pinned root if its own keys signed it.
    package static func start(_ pinned: UnverifiedTrustRoot) throws -> VerifiedTrustRoot {
        try require(pinned, signedBy: pinned.claims)
        return try VerifiedTrustRoot(pinned)
    }

    /// Returns the root after `known` if the root keys of both signed it, its version is exactly one higher, and it is
    /// for the same application. The signatures are verified before its values are compared.
    package static func step(from known: VerifiedTrustRoot, to next: UnverifiedTrustRoot) throws -> VerifiedTrustRoot {
        try require(next, signedBy: known.root)
        try require(next, signedBy: next.claims)
        let expected = known.root.version + 1
        if next.claims.version != expected {
            throw UpdateFailure(
                next.claims.version < expected ? .rollbackAttempt : .manifestMalformed, subject: "trust root",
                "The trust root has version \(next.claims.version) instead of \(expected): "
                    + "put each version into the feed under its own number.")
        }
        if next.claims.appId.map({ Array($0.utf8) }) != known.root.appId.map({ Array($0.utf8) }) {
            throw UpdateFailure(
                .appMismatch, subject: next.claims.appId ?? "",
                "The trust root \(expected) is for \(next.claims.appId ?? "no named application"), the previous one for "
                    + "\(known.root.appId ?? "no named application"): check the address of the feed.")
        }
        return try VerifiedTrustRoot(next)
    }

    private static func require(_ next: UnverifiedTrustRoot, signedBy root: TrustRoot) throws {
        if next.envelope.signatures.isEmpty {
            let version = next.claims.version
            throw UpdateFailure(
                .signatureInvalid, subject: "trust root \(version)",
                "0 of \(root.roles[.root]?.threshold ?? 1) root keys have signed trust root \(version). Run `clientctl trust sign`."
            )
        }
        _ = try root.trusted(for: .root, at: nil).signers(
            next.envelope.signatures, over: next.envelope.message, of: "trust root \(next.claims.version)",
            by: "root keys of version \(root.version)")
    }
}

/// The file format of a trust root: a DSSE envelope of at most 256 KiB.
package enum TrustRootFormat {
    /// The largest document, in bytes.
    package static let maximumBytes = 256 * 1024
    package static let payloadType = "application/vnd.swap-clients.trust.v1+json"

    private static let name = "trust root"
    private static let maximumKeys = 64

    /// Parses a trust root without a check of its signatures.
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
                if role != .root && role != .release { continue }
                throw roles.refusal(role.rawValue, "is missing")
            }
            root.roles[role] = try self.role(try MemberReader(value, of: "\(name).roles.\(role)"), among: root.keys)
        }
        for role in root.roles.keys
        where root.trusted(for: role, at: nil).keys.count < (root.roles[role]?.threshold ?? 1) {
            throw roles.refusal(role.rawValue, "requires more signatures than it has keys that are not revoked")
        }
        try requireAgreement(entries, with: root)
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
        // No decision depends on a label, so a device that refused one would lose its updates for nothing.
        let label = reader.optional("label")?.stringValue.flatMap { KeyLabel.isValid($0) ? $0 : nil }
        return TrustRoot.Key(
            key, notAfter: reader.optional("notAfter") == nil ? nil : try reader.timestamp("notAfter"), label: label)
    }

    private static func role(_ reader: MemberReader, among keys: [TrustRoot.Key]) throws -> TrustRoot.Role {
        let threshold = try reader.integer("threshold")
        if threshold == 0 { throw reader.refusal("threshold", "is 0: an unsigned document would be accepted") }
        var ids: [String] = []
        for id in try reader.strings("keyids") {
            if !keys.contains(where: { $0.publicKey.id == id }) {
                throw reader.refusal("keyids", "names \(UntrustedName.display(id)), which is not among the keys")
            }
            if !ids.contains(id) { ids.append(id) }
        }
        return TrustRoot.Role(threshold: threshold, keyIds: ids)
    }

    /// Throws if the roles of a key entry differ from the roles that name the key.
    private static func requireAgreement(_ entries: [MemberReader], with root: TrustRoot) throws {
        for (entry, key) in zip(entries, root.keys) where entry.optional("roles") != nil {
            let known = Set(TrustRole.allCases.map(\.rawValue))
            let stated = Set(try entry.strings("roles")).intersection(known)
            if stated != Set(root.roles(of: key.publicKey.id).map(\.rawValue)) {
                throw entry.refusal("roles", "are not those that name the key")
            }
        }
    }

    /// Returns the payload of `root` with the members in a fixed order.
    package static func payload(_ root: TrustRoot) -> [UInt8] {
        let keys = root.keys.map { key in
            var object: JSONObject = [
                "keyid": .string(key.publicKey.id), "algorithm": .string(key.publicKey.algorithm.rawValue),
                "spki": .string(Base64.encode(key.publicKey.spki)),
                "roles": .array(root.roles(of: key.publicKey.id).map { .string($0.rawValue) }),
            ]
            object["notAfter"] = (key.notAfter?.description).map(JSONValue.string)
            object["label"] = key.label.map(JSONValue.string)
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

    /// Returns an unsigned envelope of `root`.
    package static func envelope(_ root: TrustRoot) -> SignedEnvelope {
        SignedEnvelope(payloadType: payloadType, payload: payload(root))
    }
}
