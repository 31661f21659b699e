import COpenSSL

/// An incremental SHA-256.
///
/// A hasher must not be used on two threads at once. Updates of 16 KiB or more reach the full speed of the processor's
/// SHA instructions.
package struct SHA256Hasher: ~Copyable {
    private let context: DigestContext

    /// Throws only if OpenSSL fails.
    package init() throws(OpenSSLFailure) { context = try .starting(try LibraryContext.current().sha256) }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) { try context.update(bytes) }

    package mutating func update(_ bytes: [UInt8]) throws(OpenSSLFailure) { try context.update(bytes) }

    /// Returns the digest of all bytes since the start or the last call, and resets the hasher.
    package mutating func finish() throws(OpenSSLFailure) -> SHA256Digest {
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        let result = withUnsafeMutableBytes(of: &words) { digest in
            EVP_DigestFinal_ex(context.pointer, digest.bindMemory(to: UInt8.self).baseAddress, nil)
        }
        try context.restart(after: result)
        return SHA256Digest(words: words)
    }
}

/// The owner of an `EVP_MD_CTX`.
struct DigestContext: ~Copyable {
    let pointer: OpaquePointer

    init() throws(OpenSSLFailure) {
        guard let pointer = EVP_MD_CTX_new() else { throw OpenSSLFailure(draining: "making a digest context") }
        self.pointer = pointer
    }

    /// Starts a digest by `method`, which is never freed.
    static func starting(_ method: OpaquePointer) throws(OpenSSLFailure) -> DigestContext {
        let context = try DigestContext()
        guard EVP_DigestInit_ex(context.pointer, method, nil) == 1 else {
            throw OpenSSLFailure(draining: "starting a digest")
        }
        return context
    }

    deinit { EVP_MD_CTX_free(pointer) }

    func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) {
        guard EVP_DigestUpdate(pointer, bytes.baseAddress, bytes.count) == 1 else {
            throw OpenSSLFailure(draining: "digesting \(bytes.count) bytes")
        }
    }

    func update(_ bytes: [UInt8]) throws(OpenSSLFailure) {
        try bytes.withUnsafeBufferPointer { [pointer] buffer throws(OpenSSLFailure) in
            guard EVP_DigestUpdate(pointer, buffer.baseAddress, buffer.count) == 1 else {
                throw OpenSSLFailure(draining: "digesting \(buffer.count) bytes")
            }
        }
    }

    /// Starts another digest by the same method. `result` is that of `EVP_DigestFinal_ex`.
    func restart(after result: Int32) throws(OpenSSLFailure) {
        guard result == 1 else { throw OpenSSLFailure(draining: "finishing a digest") }
        guard EVP_DigestInit_ex(pointer, nil, nil) == 1 else { throw OpenSSLFailure(draining: "starting a digest") }
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
