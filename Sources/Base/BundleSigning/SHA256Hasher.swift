import COpenSSL

/// An incremental SHA-256.
///
/// A hasher must not be used on two threads at once. Updates of 16 KiB or more reach the full speed of the processor's
/// SHA instructions.
package struct SHA256Hasher: ~Copyable {
    private let context: DigestContext
    private let library: LibraryContext

    /// Throws only if OpenSSL fails.
    package init() throws(OpenSSLFailure) {
        let library = try LibraryContext.current()
        let context = try DigestContext()
        try Self.restart(context, with: library)
        self.context = context
        self.library = library
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) { try context.update(bytes) }

    package mutating func update(_ bytes: [UInt8]) throws(OpenSSLFailure) { try context.update(bytes) }

    /// Returns the digest of all bytes since the start or the last call, and resets the hasher.
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

/// The owner of an `EVP_MD_CTX`.
struct DigestContext: ~Copyable {
    let pointer: OpaquePointer

    init() throws(OpenSSLFailure) {
        guard let pointer = EVP_MD_CTX_new() else {
            throw OpenSSLFailure(draining: "making a digest context")
        }
        self.pointer = pointer
    }

    func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) {
        try require(EVP_DigestUpdate(pointer, bytes.baseAddress, bytes.count), bytes.count)
    }

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

package enum DigestError: Error, Hashable, CustomStringConvertible {
    case wrongLength(found: Int)
    /// A byte is not `0`-`9` or `a`-`f`. Upper case is not accepted, so that a digest has one spelling.
    case notLowerCaseHex(offset: Int)

    package var description: String {
        switch self {
        case .wrongLength(let found):
            "a SHA-256 digest is 64 lower-case hex digits, but this text has \(found) bytes"
        case .notLowerCaseHex(let offset):
            "a SHA-256 digest is 64 lower-case hex digits, but the byte at offset \(offset) is not one"
        }
    }
}
