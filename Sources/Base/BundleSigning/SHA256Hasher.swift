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

/// Owns one `EVP_MD_CTX`, the state of a running digest or signature.
struct DigestContext: ~Copyable {
    let pointer: OpaquePointer

    init() throws(OpenSSLFailure) {
        guard let pointer = EVP_MD_CTX_new() else {
            throw OpenSSLFailure(draining: "making a digest context")
        }
        self.pointer = pointer
    }

    /// Adds `bytes` to the digest.
    func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) {
        try require(EVP_DigestUpdate(pointer, bytes.baseAddress, bytes.count), bytes.count)
    }

    /// Adds `bytes` to the digest.
    func update(_ bytes: [UInt8]) throws(OpenSSLFailure) {
        let result = bytes.withUnsafeBytes { [pointer] in EVP_DigestUpdate(pointer, $0.baseAddress, $0.count) }
        try require(result, bytes.count)
    }

    private func require(_ result: Int32, _ count: Int) throws(OpenSSLFailure) {
        if result != 1 { throw OpenSSLFailure(draining: "digesting \(count) bytes") }
    }

    deinit {
        EVP_MD_CTX_free(pointer)
    }
}

/// Why a text is not a SHA-256 digest.
package enum DigestError: Error, Hashable, CustomStringConvertible {
    /// The text has another length than 64 bytes.
    case wrongLength(found: Int)
    /// A byte other than `0`-`9` and `a`-`f` stands at this offset; capitals are refused, so that a digest has one spelling.
    case notLowerCaseHex(offset: Int)

    /// What is wrong with the text, and what is wanted.
    package var description: String {
        switch self {
        case .wrongLength(let found):
            "a SHA-256 digest is 64 lower-case hex digits, this text has \(found) bytes"
        case .notLowerCaseHex(let offset):
            "a SHA-256 digest is 64 lower-case hex digits, the byte at offset \(offset) is not one"
        }
    }
}
