package import BundleValues
import BundleDisk
package import BundleSigning

/// The keys that may sign for one role, and the number of signatures that the role requires.
package struct TrustedKeys: Sendable, Equatable {
    /// The keys without duplicates.
    package let keys: [PublicKey]
    /// The required number of distinct keys, at least 1.
    package let threshold: Int
    /// The revoked keys, which messages name.
    private let revoked: Revoked?

    struct Revoked: Sendable, Equatable {
        let ids: [String]
        let rootVersion: Int
    }

    /// Trusts `keys`, of which `threshold` must sign. Duplicates are removed.
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

    /// The same keys, of which `threshold` must sign.
    package func requiring(_ threshold: Int) -> TrustedKeys {
        TrustedKeys(keys, threshold: threshold, revoked: revoked)
    }

    /// Returns the trusted keys that signed `message`, at least `threshold` of them.
    ///
    /// Ignores signatures of other keys. Throws `signatureInvalid` for a signature that names a trusted key and does
    /// not match (SECURITY section 5.4), and if too few keys signed. Throws `keyUnknown` if no signature names a
    /// trusted key. `document` names the signed object in messages.
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
                    "The signature of key \(id) does not match the \(document): it was changed or damaged. Publish it again."
                )
            }
        }
        if signers.count >= threshold { return signers }
        if !isClaimed { throw unknown(signatures.compactMap(\.keyId), of: document) }
        if signers.isEmpty {
            throw UpdateFailure(
                .signatureInvalid, subject: document,
                "The \(document) does not match its signature: it was changed or damaged, or an untrusted key signed it. "
                    + "Download it again; if that does not help, check --trust and the feed's address.")
        }
        throw UpdateFailure(
            .signatureInvalid, subject: document,
            "The \(document) is signed by \(signers.count) of the \(threshold) \(name) that it needs. "
                + (threshold - signers.count == 1 ? "One more" : "\(threshold - signers.count) more") + " must sign it."
        )
    }

    private func unknown(_ claimed: [String], of document: String) -> UpdateFailure {
        let ids = claimed.map { UntrustedName.display($0) }.joined(separator: ", ")
        // A publisher can give a channel a key of its own after devices got that of the releases.
        let keys =
            document.hasPrefix("document of channel ") ? "--trust, which also needs the key of the channel," : "--trust"
        let why =
            revocation(of: claimed)
            ?? "which is not trusted for it here: check \(keys) and the address."
        return UpdateFailure(.keyUnknown, subject: document, "The \(document) is signed by \(ids), \(why)")
    }

    /// Returns a clause with the revoking trust root and the remedy if all of `ids` are revoked; nil otherwise.
    func revocation(of ids: [String]) -> String? {
        guard let revoked, !ids.isEmpty, ids.allSatisfy(revoked.ids.contains) else { return nil }
        return "which trust root \(revoked.rootVersion) has revoked: publish a new one, signed with a key of that root."
    }
}

/// The trust of a device: keys for every role, or a trust root with keys for each role.
package enum TrustAnchor: Sendable, Equatable {
    private static let maximumKeyBytes = 64 * 1024
    private static let content = "trusted keys"

    /// Keys that may each sign releases and channel documents alone.
    case keys(TrustedKeys)
    /// The start of a chain of trust roots.
    case root(VerifiedTrustRoot)

    /// Reads a PEM public key, all `*.pem` of a folder, or a trust root. Throws for any other file.
    ///
    /// Throws `permissionDenied` if another user may write to the file, because that user could replace the trusted
    /// keys.
    package static func read(at path: String) throws -> TrustAnchor {
        guard let folder = try folder(path) else {
            let file = try File.open(reading: path)
            try OwnFile.require(file, with: content)
            let content = try file.readAll(maximumBytes: max(maximumKeyBytes, TrustRootFormat.maximumBytes))
            let bytes = try EditedText.bytes(of: content, in: path)
            // PEM begins with dashes or text, JSON with a brace.
            let first = bytes.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
            if first == UInt8(ascii: "{") { return .root(try root(bytes, at: path)) }
            return .keys(TrustedKeys([try key(bytes, at: file.path)]))
        }
        try OwnFile.require(folder, with: content)
        var keys: [PublicKey] = []
        for name in try folder.list().sorted() where name.hasSuffix(".pem") {
            // Follows links, because secrets are often mounted as links.
            let file = try File.open(reading: "\(path)/\(name)")
            try OwnFile.require(file, with: content)
            let bytes = try EditedText.bytes(of: file.readAll(maximumBytes: maximumKeyBytes), in: file.path)
            keys.append(try key(bytes, at: file.path))
        }
        if keys.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: path, "The folder \(path) does not contain a *.pem public key: put one there.")
        }
        return .keys(TrustedKeys(keys))
    }

    /// Returns the keys of `role` at `time`.
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
            return nil
        }
    }

    private static func key(_ bytes: [UInt8], at path: String) throws -> PublicKey {
        do {
            return try PublicKey(parsingPEM: bytes)
        } catch {
            // `clientctl keys generate` writes both.
            let pair = path.hasSuffix(".key.pem") ? "\(path.dropLast(".key.pem".count)).pub.pem" : ""
            let hint = error == .privateKeyGiven && File.exists(pair) ? " Give \(pair)." : ""
            throw UpdateFailure(.configInvalid, subject: path, "\(path) cannot be trusted: \(error).\(hint)")
        }
    }

    private static func root(_ bytes: [UInt8], at path: String) throws -> VerifiedTrustRoot {
        if (try? ManifestFormat.parse(bytes)) != nil {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "\(path) is a manifest, not a key or trust root: name a public key, a folder of *.pem, or a trust root."
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
