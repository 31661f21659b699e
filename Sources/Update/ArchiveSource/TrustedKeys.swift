package import BundleValues
import BundleDisk
package import BundleSigning

/// The keys whose signatures count for one role, and how many of them must have signed.
package struct TrustedKeys: Sendable, Equatable {
    /// The keys, each once.
    package let keys: [PublicKey]
    /// Distinct keys that must have signed; 1 or more.
    package let threshold: Int
    /// Keys that once counted, and who has revoked them.
    private let revoked: Revoked?

    /// Keys that a trust root has revoked, for a message that says so.
    struct Revoked: Sendable, Equatable {
        let ids: [String]
        let rootVersion: Int
    }

    /// Trusts exactly `keys`, of which `threshold` must sign. The same key twice counts once.
    package init(_ keys: [PublicKey], threshold: Int = 1) {
        self.init(keys, threshold: threshold, revoked: nil)
    }

    init(_ keys: [PublicKey], threshold: Int, revoked: Revoked?) {
        self.revoked = revoked
        var distinct: [PublicKey] = []
        for key in keys where !distinct.contains(key) { distinct.append(key) }
        self.keys = distinct
        self.threshold = max(threshold, 1)
    }

    /// Whoever of the trusted keys signed `message`, at least `threshold` of them.
    ///
    /// Signatures of other keys are ignored; one that claims a trusted key and is not its signature refuses the document
    /// (SECURITY section 5.4). One that claims no key may be anybody's. Throws `keyUnknown` where no trusted key is even
    /// claimed, else `signatureInvalid`; `document` names what was signed.
    func signers(
        _ signatures: [SignedEnvelope.Signature], over message: [UInt8], of document: String,
        by name: String = "trusted keys"
    ) throws -> [PublicKey] {
        var signers: [PublicKey] = []
        var isClaimed = signatures.isEmpty
        for signature in signatures {
            let claimed = signature.keyId.map { id in keys.filter { $0.id == id } } ?? keys
            if !claimed.isEmpty || signature.keyId == nil { isClaimed = true }
            let good = try claimed.first { try $0.verifies(signature: signature.bytes, over: message) }
            if let good {
                if !signers.contains(good) { signers.append(good) }
            } else if let id = signature.keyId, !claimed.isEmpty {
                throw UpdateFailure(
                    .signatureInvalid, subject: document,
                    "The signature of key \(id) does not match the \(document): it was changed, or damaged on the way.")
            }
        }
        if signers.count >= threshold { return signers }
        if !isClaimed { throw unknown(signatures.compactMap(\.keyId), document) }
        if signers.isEmpty {
            throw UpdateFailure(
                .signatureInvalid, subject: document,
                "The \(document) does not match its signature: it was changed, or damaged on the way, or a key signed it that is not "
                    + "trusted here. Fetch it again; if that does not help, check --trust, and the feed's address.")
        }
        throw UpdateFailure(
            .signatureInvalid, subject: document,
            "The \(document) is signed by \(signers.count) of the \(threshold) \(name) that it needs. "
                + (threshold - signers.count == 1 ? "One more" : "\(threshold - signers.count) more") + " must sign it."
        )
    }

    private func unknown(_ claimed: [String], _ document: String) -> UpdateFailure {
        let ids = claimed.map { UntrustedName.display($0) }.joined(separator: ", ")
        let why = revocation(of: claimed) ?? "which is not trusted for it here: check --trust, and the address."
        return UpdateFailure(.keyUnknown, subject: document, "The \(document) is signed by \(ids), \(why)")
    }

    /// That all of `ids` are revoked, by which root, and what helps; nil where nobody has revoked them.
    func revocation(of ids: [String]) -> String? {
        guard let revoked, !ids.isEmpty, ids.allSatisfy(revoked.ids.contains) else { return nil }
        return "which trust root \(revoked.rootVersion) has revoked: publish a new one, signed with a key of that root."
    }
}

/// What a device trusts: plain keys for every role, or a trust root that tells roles apart.
package enum TrustAnchor: Sendable, Equatable {
    private static let maximumKeyBytes = 64 * 1024
    private static let content = "trusted keys"

    /// Every key may sign releases and channel documents; one signature is enough.
    case keys(TrustedKeys)
    /// The start of a chain of trust roots.
    case root(VerifiedTrustRoot)

    /// Reads a PEM public key, every `*.pem` of a folder, or a trust root document. A file that is none of them is refused,
    /// not skipped.
    ///
    /// Throws `permissionDenied` for what other users may write: they could name the keys that are trusted.
    package static func read(at path: String) throws -> TrustAnchor {
        guard let folder = try folder(path) else {
            let file = try File.open(reading: path)
            try OwnFile.require(file, with: content)
            let bytes = try file.readAll(maximumBytes: max(maximumKeyBytes, TrustRootFormat.maximumBytes))
            // PEM begins with dashes or with text, a document with a brace.
            let first = bytes.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
            if first == UInt8(ascii: "{") { return .root(try root(bytes, path)) }
            return .keys(TrustedKeys([try key(bytes, file.path)]))
        }
        try OwnFile.require(folder, with: content)
        var keys: [PublicKey] = []
        for name in try folder.list().sorted() where name.hasSuffix(".pem") {
            // Links are followed: secrets are often mounted as such.
            let file = try File.open(reading: "\(path)/\(name)")
            try OwnFile.require(file, with: content)
            keys.append(try key(try file.readAll(maximumBytes: maximumKeyBytes), file.path))
        }
        if keys.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: path, "The folder \(path) holds no *.pem public key: put one there.")
        }
        return .keys(TrustedKeys(keys))
    }

    /// The keys of `role` at `time`.
    package func keys(for role: TrustRole, at time: Timestamp) -> TrustedKeys {
        switch self {
        case .keys(let keys): keys
        case .root(let root): root.root.trusted(for: role, at: time)
        }
    }

    private static func folder(_ path: String) throws(DiskError) -> Directory? {
        do {
            return try Directory.open(path)
        } catch  where error.kind == .unsuitable {
            // A file.
            return nil
        }
    }

    private static func key(_ bytes: [UInt8], _ path: String) throws -> PublicKey {
        do {
            return try PublicKey(parsingPEM: bytes)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) cannot be trusted: \(error).")
        }
    }

    private static func root(_ bytes: [UInt8], _ path: String) throws -> VerifiedTrustRoot {
        if (try? ManifestFormat.parse(bytes)) != nil {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "\(path) is a manifest, and no key or trust root: name a public key, a folder of *.pem, or a trust root."
            )
        }
        do {
            return try TrustChain.start(try TrustRootFormat.parse(bytes))
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) cannot be trusted: \(UpdateFailure(error).message)")
        }
    }
}
