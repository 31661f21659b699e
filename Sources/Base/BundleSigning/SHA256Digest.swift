import COpenSSL

/// A SHA-256 digest (FIPS 180-4): 32 bytes, stored inline.
package struct SHA256Digest: Hashable, Sendable, CustomStringConvertible {
    /// The bytes in a digest.
    package static let byteCount = 32
    /// The digits in a digest's hex form.
    package static let hexDigitCount = 64

    // The digest's bytes in memory order, whatever the machine's byte order.
    private let word0: UInt64
    private let word1: UInt64
    private let word2: UInt64
    private let word3: UInt64

    init(words: (UInt64, UInt64, UInt64, UInt64)) {
        (word0, word1, word2, word3) = words
    }

    /// Takes exactly 32 bytes; nil for any other number.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: bytes) }
        self.init(words: words)
    }

    /// Takes exactly 64 lower-case hex digits; throws `DigestError` for anything else.
    package init(parsingHex text: String) throws(DigestError) {
        var text = text
        guard text.utf8.count == Self.hexDigitCount else { throw .wrongLength(found: text.utf8.count) }
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        let badOffset = text.withUTF8 { digits in
            withUnsafeMutableBytes(of: &words) { bytes -> Int? in
                for offset in digits.indices {
                    guard let value = Self.value(ofHexDigit: digits[offset]) else { return offset }
                    bytes[offset / 2] = bytes[offset / 2] << 4 | value
                }
                return nil
            }
        }
        if let badOffset { throw .notLowerCaseHex(offset: badOffset) }
        self.init(words: words)
    }

    /// The digest of `bytes`; throws only if OpenSSL itself cannot work.
    package static func of(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) -> SHA256Digest {
        let library = try LibraryContext.current()
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        let result = withUnsafeMutableBytes(of: &words) { digest in
            EVP_Digest(
                bytes.baseAddress, bytes.count, digest.bindMemory(to: UInt8.self).baseAddress, nil, library.sha256, nil)
        }
        guard result == 1 else { throw OpenSSLFailure(draining: "digesting \(bytes.count) bytes") }
        return SHA256Digest(words: words)
    }

    /// The digest of `bytes`; throws only if OpenSSL itself cannot work.
    package static func of(_ bytes: [UInt8]) throws(OpenSSLFailure) -> SHA256Digest {
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(OpenSSLFailure) in try of(buffer) }
        }.get()
    }

    /// Lends the 32 bytes for the length of `body`.
    package func withUnsafeBytes<Value, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try Swift.withUnsafeBytes(of: self, body)
    }

    /// The digest as 64 lower-case hex digits.
    package var hex: String {
        String(unsafeUninitializedCapacity: Self.hexDigitCount) { digits in
            writeHex(to: digits)
            return Self.hexDigitCount
        }
    }

    /// Adds the digest's 64 lower-case hex digits to `buffer` without making a string.
    package func appendHex(to buffer: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Self.hexDigitCount) { digits in
            writeHex(to: digits)
            buffer.append(contentsOf: digits)
        }
    }

    /// The same as `hex`.
    package var description: String { hex }

    private func writeHex(to digits: UnsafeMutableBufferPointer<UInt8>) {
        withUnsafeBytes { bytes in
            for (offset, byte) in bytes.enumerated() {
                digits[2 * offset] = Self.hexDigit(of: byte >> 4)
                digits[2 * offset + 1] = Self.hexDigit(of: byte & 15)
            }
        }
    }

    private static func hexDigit(of value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &+ (value &- 10)
    }

    private static func value(ofHexDigit digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit &- UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit &- UInt8(ascii: "a") &+ 10
        default: nil
        }
    }
}
