import COpenSSL

/// A running SHA-256 over bytes that come in pieces.
///
/// One hasher belongs to one thread at a time; many threads may each have their own. Pieces of 16 KiB and more run at
/// the full speed of the processor's SHA instructions.
package struct SHA256Hasher: ~Copyable {
    private let context: DigestContext
    private let library: LibraryContext

    /// Starts a digest of nothing; throws only if OpenSSL itself cannot work.
    package init() throws(OpenSSLFailure) {
        let library = try LibraryContext.current()
        let context = try DigestContext()
        try Self.restart(context, with: library)
        self.context = context
        self.library = library
    }

    /// Adds `bytes` to the digest.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) { try context.update(bytes) }

    /// Adds `bytes` to the digest.
    package mutating func update(_ bytes: [UInt8]) throws(OpenSSLFailure) { try context.update(bytes) }

    /// The digest of everything added since the start or the last `finish()`; the hasher then starts anew.
    package mutating func finish() throws(OpenSSLFailure) -> SHA256Digest {
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        let result = withUnsafeMutableBytes(of: &words) { digest in
            EVP_DigestFinal_ex(context.pointer, digest.bindMemory(to: UInt8.self).baseAddress, nil)
        }
        guard result == 1 else { throw OpenSSLFailure(draining: "finishing a SHA-256 digest") }
        try Self.restart(context, with: library)
        return SHA256Digest(words: words)
    }

    private static func restart(
        _ context: borrowing DigestContext, with library: LibraryContext
    ) throws(OpenSSLFailure) {
        guard EVP_DigestInit_ex(context.pointer, library.sha256, nil) == 1 else {
            throw OpenSSLFailure(draining: "starting a SHA-256 digest")
        }
    }
}
