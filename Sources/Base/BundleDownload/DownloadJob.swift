package import BundleValues
package import BundleSigning

/// One file to bring.
package struct DownloadJob: Sendable {
    /// Where it comes from.
    package let url: FetchURL
    /// The most bytes it may have.
    package let maximumBytes: Int
    /// Its bytes, where they are certain: a part of so many is asked for no more.
    package var size: Int?
    /// Whether the response 404 counts as done, with nothing written.
    package var isOptional = false
    /// Whether a response may be labelled as encoded: what is an archive, by servers that know its name only.
    package var mayBeEncoded = false
    /// Makes the judge of one attempt.
    package let makeInspector: @Sendable () throws -> any DownloadInspector

    /// Describes a file to bring.
    package init(
        url: FetchURL, maximumBytes: Int, makeInspector: @escaping @Sendable () throws -> any DownloadInspector
    ) {
        self.url = url
        self.maximumBytes = maximumBytes
        self.makeInspector = makeInspector
    }
}

/// Judges one attempt at one file, which is placed only with its consent. Used by one thread at a time.
///
/// What it throws is final for the file, and so for the run; it names the file. Only of a file that was resumed, where the part that
/// was here before may be what is wrong, one more attempt is made, from the first byte and with another inspector.
package protocol DownloadInspector: AnyObject {
    /// The response's head, before any byte; none for a part that was complete. Of a resumed file it is that of the rest (206).
    func begin(_ head: FetchHead) throws
    /// The next bytes of the file in order, from its first one: also of a resumed file.
    func update(_ bytes: UnsafeRawBufferPointer) throws
    /// All bytes were seen.
    func finish() throws -> DownloadReceipt
}

/// What an inspector found out about a file that it accepts.
package struct DownloadReceipt: Sendable, Equatable {
    /// Bytes in the file.
    package let size: Int
    /// The digest of its bytes.
    package let sha256: SHA256Digest
    /// What speaks for it, in the inspector's words.
    package let evidence: String

    /// States the findings.
    package init(size: Int, sha256: SHA256Digest, evidence: String) {
        self.size = size
        self.sha256 = sha256
        self.evidence = evidence
    }
}
