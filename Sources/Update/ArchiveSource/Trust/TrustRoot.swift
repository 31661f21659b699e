package import BundleValues
package import BundleSigning

/// Who may sign what.
package enum TrustRole: String, Sendable, CaseIterable {
    /// Signs the next trust root.
    case root
    /// Signs manifests.
    case release
    /// Signs channel documents; the release keys do where a trust root names no channel keys.
    case channel
}

/// The values of a trust root (SECURITY section 5.4), whoever vouches for them.
package struct TrustRoot: Sendable, Equatable {
    /// A key and until when it counts.
    package struct Key: Sendable, Equatable {
        /// The key.
        package let publicKey: PublicKey
        /// From then on it counts for nothing but the chain of trust roots; nil for ever.
        package var notAfter: Timestamp?

        /// States a key.
        package init(_ publicKey: PublicKey, notAfter: Timestamp? = nil) {
            self.publicKey = publicKey
            self.notAfter = notAfter
        }
    }

    /// Whose signatures count for a role, and how many are needed.
    package struct Role: Sendable, Equatable {
        /// Distinct keys that must sign; 1 or more.
        package var threshold: Int
        /// Ids of keys, each once.
        package var keyIds: [String]

        /// States a role.
        package init(threshold: Int, keyIds: [String]) {
            self.threshold = threshold
            self.keyIds = keyIds
        }
    }

    /// 1 for the first; each next one is exactly one higher.
    package var version: Int
    /// The application; nil where the root names none.
    package var appId: String?
    /// When it was made.
    package var issued: Timestamp
    /// From then on nothing new is installed by it.
    package var expires: Timestamp
    /// The keys that roles may name.
    package var keys: [Key]
    /// The roles; `root` and `release` always, `channel` perhaps.
    package var roles: [TrustRole: Role]
    /// Ids of keys that count for nothing any more.
    package var revoked: [String]

    /// States a trust root.
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

    /// The keys of `role` that are not revoked and, where a time is given, may still be used then.
    package func trusted(for role: TrustRole, at time: Timestamp?) -> TrustedKeys {
        guard let named = roles[role] ?? (role == .channel ? roles[.release] : nil) else { return TrustedKeys([]) }
        let usable = keys.filter { key in
            guard named.keyIds.contains(key.publicKey.id), !revoked.contains(key.publicKey.id) else { return false }
            guard let time, let end = key.notAfter else { return true }
            return time < end
        }
        return TrustedKeys(usable.map(\.publicKey), threshold: named.threshold)
    }

    /// The roles that name a key.
    package func roles(of id: String) -> [TrustRole] {
        TrustRole.allCases.filter { roles[$0]?.keyIds.contains(id) == true }
    }
}

/// A trust root that has not been checked against the one before it.
package struct UnverifiedTrustRoot: Sendable {
    /// What it claims.
    package let claims: TrustRoot
    /// Its bytes and signatures.
    package let envelope: SignedEnvelope
    /// The whole document as received.
    package let document: [UInt8]
}

/// A trust root that the one before it, or whoever pinned it, vouches for; only `TrustChain` makes one.
package struct VerifiedTrustRoot: Sendable, Equatable {
    /// Its values.
    package let root: TrustRoot
    /// The whole document.
    package let document: [UInt8]
    /// SHA-256 of the signed bytes.
    package let payloadSha256: SHA256Digest

    fileprivate init(_ unverified: UnverifiedTrustRoot) throws(OpenSSLFailure) {
        root = unverified.claims
        document = unverified.document
        payloadSha256 = try SHA256Digest.of(unverified.envelope.payload)
    }
}

/// How trust passes from one root to the next, as in TUF (specification 1.0.34, section 5.3).
package enum TrustChain {
    /// The pinned root: whoever pins it decides, but its own keys must have signed it.
    package static func start(_ pinned: UnverifiedTrustRoot) throws -> VerifiedTrustRoot {
        try require(pinned, signedBy: pinned.claims)
        return try VerifiedTrustRoot(pinned)
    }

    /// The root after `known`: its version is exactly one higher, it is of the same application, and the root keys of both
    /// have signed it.
    package static func step(from known: VerifiedTrustRoot, to next: UnverifiedTrustRoot) throws -> VerifiedTrustRoot {
        let expected = known.root.version + 1
        if next.claims.version != expected {
            throw UpdateFailure(
                next.claims.version < expected ? .rollbackAttempt : .manifestMalformed, subject: "trust root",
                "The trust root has version \(next.claims.version), \(expected) is the next one: "
                    + "put each version into the feed under its own number.")
        }
        if next.claims.appId.map({ Array($0.utf8) }) != known.root.appId.map({ Array($0.utf8) }) {
            throw UpdateFailure(
                .appMismatch, subject: next.claims.appId ?? "",
                "The trust root \(expected) is for \(next.claims.appId ?? "no named application"), the one before for "
                    + "\(known.root.appId ?? "none"): check the feed's address.")
        }
        try require(next, signedBy: known.root)
        try require(next, signedBy: next.claims)
        return try VerifiedTrustRoot(next)
    }

    private static func require(_ next: UnverifiedTrustRoot, signedBy root: TrustRoot) throws {
        _ = try root.trusted(for: .root, at: nil).signers(
            next.envelope.signatures, over: next.envelope.message, of: "trust root \(next.claims.version)")
    }
}
