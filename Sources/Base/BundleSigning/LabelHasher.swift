import COpenSSL

/// Digests that name content in formats of other projects. No signature of this product depends on them.
package enum LabelAlgorithm: Sendable, CaseIterable {
    /// SHA-1, 20 bytes (FIPS 180-4). Attackers can create collisions.
    case sha1
    /// SHA-512, 64 bytes (FIPS 180-4), as in subresource integrity.
    case sha512

    package var byteCount: Int { self == .sha1 ? 20 : 64 }
}

/// An incremental digest for labels.
///
/// A hasher must not be used on two threads at once.
package struct LabelHasher: ~Copyable {
    private let algorithm: LabelAlgorithm
    private let context: DigestContext

    /// Throws only if OpenSSL fails.
    package init(_ algorithm: LabelAlgorithm) throws(OpenSSLFailure) {
        let library = try LibraryContext.current()
        context = try .starting(algorithm == .sha1 ? library.sha1 : library.sha512)
        self.algorithm = algorithm
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) { try context.update(bytes) }

    package mutating func update(_ bytes: [UInt8]) throws(OpenSSLFailure) { try context.update(bytes) }

    /// Returns the digest of all bytes since the start or the last call, and resets the hasher.
    package mutating func finish() throws(OpenSSLFailure) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: algorithm.byteCount)
        try context.restart(after: EVP_DigestFinal_ex(context.pointer, &digest, nil))
        return digest
    }

    package static func digest(of bytes: [UInt8], by algorithm: LabelAlgorithm) throws(OpenSSLFailure) -> [UInt8] {
        var hasher = try LabelHasher(algorithm)
        try hasher.update(bytes)
        return try hasher.finish()
    }

    /// Returns the digest in lower-case hexadecimal.
    package static func hex(_ digest: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
