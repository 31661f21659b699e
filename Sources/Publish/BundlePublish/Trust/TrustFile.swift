package import ArchiveSource
package import BundleValues
import BundleDisk
import BundleSigning

/// When the next trust root is made.
package struct DraftTime: Sendable {
    private let time: Timestamp
    private let isChecked: Bool

    /// `time` by a clock that somebody has looked at, if `isChecked`.
    package init(_ time: Timestamp, isChecked: Bool = false) {
        self.time = time
        self.isChecked = isChecked
    }

    /// When the root after `before` is issued: never earlier, unless somebody knows that the time before was wrong. Devices turn
    /// their time back then.
    func after(_ before: TrustRoot) throws -> Timestamp {
        if isChecked { return time }
        if before.issued > time.adding(PublisherClock.tolerance) {
            throw UpdateFailure(
                .configInvalid, subject: "trust root \(before.version)",
                "The trust root \(before.version) was issued at \(before.issued), and this machine's clock says \(time). Devices take "
                    + "the later one for the time. Set the clock, or give --clock-checked if it is right: the next root turns the "
                    + "time of devices back.")
        }
        return max(time, before.issued)
    }
}

/// A trust root as a file of its own: a draft until enough root keys have signed it.
package struct TrustFile: Sendable {
    /// One year.
    package static let standardLifetime = Duration.seconds(365 * 86_400)

    /// One signature, and what is known of it from the file alone.
    package struct Signature: Sendable {
        /// The id of the key that it claims.
        package let keyId: String?
        /// Whether that key is a root key of this version. Another one counts if it was one of the version before.
        package let isRootKey: Bool
        /// Whether it is that key's signature; nil where the file does not hold the key.
        package let isGood: Bool?
    }

    /// What it says, and who signed it.
    package private(set) var root: UnverifiedTrustRoot

    /// What it says.
    package var claims: TrustRoot { root.claims }

    /// Whether enough of its own root keys have signed it. For another version than the first, those of the one before must have
    /// too; `publish` sees to that.
    package var isComplete: Bool { (try? TrustChain.start(root)) != nil }

    /// Its signatures.
    package var signatures: [Signature] {
        let rootKeys = claims.trusted(for: .root, at: nil).keys
        return root.envelope.signatures.map { signature in
            let key = claims.keys.first { $0.publicKey.id == signature.keyId }?.publicKey
            return Signature(
                keyId: signature.keyId, isRootKey: rootKeys.contains { $0.id == signature.keyId },
                isGood: key.map { (try? $0.verifies(signature: signature.bytes, over: root.envelope.message)) ?? false }
            )
        }
    }

    /// The root keys of one version that have signed this one.
    package struct Count: Sendable {
        /// The version that names the keys.
        package let version: Int
        /// How many of them have signed.
        package let signed: Int
        /// How many of them must.
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

    /// A draft of `root`; refuses one that could never be used.
    package init(draft root: TrustRoot) throws {
        try root.requireSatisfiable()
        try self.init(TrustRootFormat.envelope(root))
    }

    /// The first version of `root`, from its issue on for `lifetime`.
    package static func first(_ root: TrustRoot, lifetime: Duration) throws -> TrustFile {
        var first = root
        first.expires = root.issued.adding(lifetime)
        return try TrustFile(draft: first)
    }

    /// A root from elsewhere.
    package static func of(_ root: UnverifiedTrustRoot) -> TrustFile { TrustFile(root) }

    /// Reads the file at `path`.
    package static func read(_ path: String) throws -> TrustFile {
        if (try? Directory.open(path)) != nil {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) is a folder: name the file, such as \(path)/trust.json.")
        }
        let bytes = try File.open(reading: path).readAll(maximumBytes: TrustRootFormat.maximumBytes)
        do {
            return TrustFile(try TrustRootFormat.parse(bytes))
        } catch {
            throw UpdateFailure(
                .manifestMalformed, subject: path,
                "\(path) is no trust root: \(error.problem). Name one that `clientctl "
                    + "trust init` made.")
        }
    }

    private init(_ root: UnverifiedTrustRoot) { self.root = root }

    /// The draft that `edit` leads to, with what it changes: of the next version where this one is complete, else of the same. It
    /// has no signatures, and counts for `lifetime` from `issued` on; nil for as long as the draft, or for a year.
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

    /// A draft that is edited again counts as long as it was to count; the next version for a year.
    private var lifetimeOfDraft: Duration {
        isComplete
            ? Self.standardLifetime : .seconds(claims.expires.secondsSinceEpoch - claims.issued.secondsSinceEpoch)
    }

    /// The draft of the next version with nothing changed but its expiry.
    package func renewing(issued: DraftTime, lifetime: Duration?) throws -> TrustFile {
        var next = claims
        if isComplete { next.version += 1 }
        next.issued = try issued.after(claims)
        next.expires = next.issued.adding(lifetime ?? lifetimeOfDraft)
        return try TrustFile(draft: next)
    }

    /// Adds the signature of `signer`; false where it has one that is good.
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

    /// Writes it to `path`, which must not exist unless it is to be replaced.
    package func write(to path: String, replacing: Bool) throws {
        if !replacing, File.exists(path) {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) exists and is not overwritten: choose another --out.")
        }
        let slash = path.lastIndex(of: "/")
        let folder = try Directory.open(slash.map { "\(path[...$0])" } ?? ".")
        try folder.replaceFile(slash.map { "\(path[path.index(after: $0)...])" } ?? path, with: root.document)
    }
}
