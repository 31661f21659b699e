package import BundleFormats
package import BundleValues
import BundleDisk
import BundleSigning

/// The issue time of the next trust root.
package struct DraftTime: Sendable {
    private let time: Timestamp
    private let isChecked: Bool

    /// Uses `time`. `isChecked` states that the operator has checked the clock.
    package init(_ time: Timestamp, isChecked: Bool = false) {
        self.time = time
        self.isChecked = isChecked
    }

    /// Returns the issue time of the root after `before`. It is not earlier, unless the operator checked the clock:
    /// devices then turn their time back.
    func after(_ before: TrustRoot) throws -> Timestamp {
        if isChecked { return time }
        if before.issued > time.adding(PublisherClock.tolerance) {
            throw UpdateFailure(
                .configInvalid, subject: "trust root \(before.version)",
                "The trust root \(before.version) was issued at \(before.issued), and this machine's clock says \(time). Set the "
                    + "clock, or give --accept-clock if it is right: the next root then turns the time of devices back."
            )
        }
        return max(time, before.issued)
    }
}

/// A trust root in its own file. It is a draft until enough root keys have signed it.
package struct TrustFile: Sendable {
    package static let standardLifetime = Duration.seconds(365 * 86_400)

    /// A signature, judged by the file alone.
    package struct RootSignature: Sendable {
        /// The key ID that the signature states.
        package let keyId: String?
        /// Whether the key is a root key of this version. A root key of the previous version is valid as well.
        package let isRootKey: Bool
        /// Whether the signature verifies; nil if the file does not contain the key.
        package let isValid: Bool?
    }

    package private(set) var root: UnverifiedTrustRoot

    /// The content of the trust root.
    package var claims: TrustRoot { root.claims }

    /// Whether enough of its own root keys have signed it. `publish` also requires the root keys of the previous
    /// version.
    package var isComplete: Bool { (try? TrustChain.start(root)) != nil }

    package var signatures: [RootSignature] {
        let rootKeys = claims.trusted(for: .root, at: nil).keys
        return root.envelope.signatures.map { signature in
            let key = claims.keys.first { $0.publicKey.id == signature.keyId }?.publicKey
            let isValid = key.map { key in
                (try? key.verifies(signature: signature.bytes, over: root.envelope.message)) ?? false
            }
            return RootSignature(
                keyId: signature.keyId, isRootKey: rootKeys.contains { $0.id == signature.keyId }, isValid: isValid)
        }
    }

    /// The root keys of one version that have signed this one.
    package struct Count: Sendable {
        /// The version that names the keys.
        package let version: Int
        /// The number of these keys that have signed.
        package let signed: Int
        /// The number of these keys that must sign.
        package let needed: Int
    }

    /// Counts the root keys of `root` that have signed this one.
    package func count(by root: TrustRoot) -> Count {
        let signatures = self.root.envelope.signatures
        let signed = root.trusted(for: .root, at: nil).keys.count { key in
            signatures.contains { signature in
                signature.keyId == key.id
                    && (try? key.verifies(signature: signature.bytes, over: self.root.envelope.message)) == true
            }
        }
        return Count(version: root.version, signed: signed, needed: root.roles[.root]?.threshold ?? 1)
    }

    /// Counts the root keys of the version before, which `previous` is. Throws `configInvalid` if it is another one.
    package func count(byPrevious previous: TrustFile) throws -> Count {
        guard previous.claims.version == claims.version - 1 else {
            throw UpdateFailure(
                .configInvalid, subject: "previous",
                "--previous is trust root \(previous.claims.version), and this is trust root \(claims.version): name the one just before."
            )
        }
        return count(by: previous.claims)
    }

    private init(_ envelope: SignedEnvelope) throws {
        root = try TrustRootFormat.parse(envelope.document)
    }

    /// Creates a draft of `root`. Throws if it could never be used.
    package init(draft root: TrustRoot) throws {
        try root.requireSatisfiable()
        try self.init(TrustRootFormat.envelope(root))
    }

    /// Creates version 1 of `root`, valid for `lifetime` from its issue time.
    package static func first(_ root: TrustRoot, lifetime: Duration) throws -> TrustFile {
        var first = root
        first.expires = root.issued.adding(lifetime)
        return try TrustFile(draft: first)
    }

    package static func of(_ root: UnverifiedTrustRoot) -> TrustFile { TrustFile(root) }

    /// Reads the file at `path`.
    package static func read(_ path: String) throws -> TrustFile {
        if (try? Directory.open(path)) != nil {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) is a folder. Give the file, such as \(path)/trust.json.")
        }
        let bytes = try File.open(reading: path).readAll(maximumBytes: TrustRootFormat.maximumBytes)
        do {
            return TrustFile(try TrustRootFormat.parse(bytes))
        } catch {
            throw UpdateFailure(
                .manifestMalformed, subject: path,
                "\(path) is not a trust root: \(error.problem). Give one that `clientctl "
                    + "trust init` made.")
        }
    }

    private init(_ root: UnverifiedTrustRoot) { self.root = root }

    /// Returns a draft with `edit` applied, and the changes in words. It is the next version if this one is complete,
    /// and has no signatures. A nil `lifetime` keeps the draft's lifetime, or a year for a new version.
    package func editing(
        _ edit: TrustEdit, issued: DraftTime, lifetime: Duration?
    ) throws -> (draft: TrustFile, changes: [String]) {
        var next = claims
        let changes = try edit.apply(to: &next)
        if changes.isEmpty { return (self, []) }
        if isComplete { next.version += 1 }
        next.issued = try issued.after(claims)
        next.expires = next.issued.adding(lifetime ?? lifetimeOfDraft)
        return (try TrustFile(draft: next), changes)
    }

    /// A draft keeps its lifetime when it is edited; a new version is valid for a year.
    private var lifetimeOfDraft: Duration {
        isComplete
            ? Self.standardLifetime : .seconds(claims.expires.secondsSinceEpoch - claims.issued.secondsSinceEpoch)
    }

    /// Returns a draft of the next version in which only the expiry changes.
    package func renewing(issued: DraftTime, lifetime: Duration?) throws -> TrustFile {
        var next = claims
        if isComplete { next.version += 1 }
        next.issued = try issued.after(claims)
        next.expires = next.issued.adding(lifetime ?? lifetimeOfDraft)
        return try TrustFile(draft: next)
    }

    /// Adds the signature of `signer`. Returns false if the file already has a valid one.
    package mutating func sign(_ signer: Signer) throws -> Bool {
        var envelope = root.envelope
        let id = signer.publicKey.id
        if let present = envelope.signatures.first(where: { $0.keyId == id }),
            try signer.publicKey.verifies(signature: present.bytes, over: envelope.message)
        {
            return false
        }
        envelope.signatures.removeAll { $0.keyId == id }
        envelope.signatures.append(try signer.signature(of: envelope))
        self = try TrustFile(envelope)
        return true
    }

    /// Writes the file to `path`, which must not exist unless `replacing` is true.
    package func write(to path: String, replacing: Bool) throws {
        if !replacing, File.exists(path) {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) already exists. Choose another --out.")
        }
        let slash = path.lastIndex(of: "/")
        let folder = try Directory.open(slash.map { "\(path[...$0])" } ?? ".")
        try folder.replaceFile(slash.map { "\(path[path.index(after: $0)...])" } ?? path, with: root.document)
    }
}
