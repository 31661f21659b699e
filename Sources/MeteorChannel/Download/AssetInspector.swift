public import BundleCore
public import BundleSigning

/// Judges one attempt at one file, which is placed only with its consent. Used by one thread at a time.
///
/// What it throws is final for the file, and so for the run; it names the file. Only of a file that was resumed, where the part that
/// was here before may be what is wrong, one more attempt is made, from the first byte and with another inspector.
public protocol AssetInspector: AnyObject {
    /// The answer's head, before any byte. Of a resumed file it is that of the rest (206).
    func begin(_ head: FetchHead) throws
    /// The next bytes of the file in order, from its first one: also of a resumed file.
    func update(_ bytes: UnsafeRawBufferPointer) throws
    /// All bytes were seen.
    func finish() throws -> AssetReceipt
}

/// What an inspector found out about a file that it accepts.
public struct AssetReceipt: Sendable, Equatable {
    /// Bytes in the file.
    public let size: Int
    /// The digest of its bytes.
    public let sha256: SHA256Digest
    /// What speaks for it, in the inspector's words; kept in the journal.
    public let evidence: String

    /// States the findings.
    public init(size: Int, sha256: SHA256Digest, evidence: String) {
        self.size = size
        self.sha256 = sha256
        self.evidence = evidence
    }
}
