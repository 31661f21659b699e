import COpenSSL

/// A SHA-256 digest (FIPS 180-4).
package struct SHA256Digest: Hashable, Sendable, CustomStringConvertible {
    package static let byteCount = 32
    package static let hexDigitCount = 64

    // The bytes in memory order on any machine.
    private let word0: UInt64
    private let word1: UInt64
    private let word2: UInt64
    private let word3: UInt64

    init(words: (UInt64, UInt64, UInt64, UInt64)) {
        (word0, word1, word2, word3) = words
    }

    /// Returns nil unless there are exactly 32 bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: bytes) }
        self.init(words: words)
    }

    /// Throws unless the text is exactly 64 lower-case hexadecimal digits.
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

    /// Throws only if OpenSSL fails.
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

    /// Throws only if OpenSSL fails.
    package static func of(_ bytes: [UInt8]) throws(OpenSSLFailure) -> SHA256Digest {
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(OpenSSLFailure) in try of(buffer) }
        }.get()
    }

    package func withUnsafeBytes<Value, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try Swift.withUnsafeBytes(of: self, body)
    }

    /// The digest in 64 lower-case hexadecimal digits.
    package var hex: String {
        String(unsafeUninitializedCapacity: Self.hexDigitCount) { digits in
            writeHex(to: digits)
            return Self.hexDigitCount
        }
    }

    /// Appends the 64 lower-case hexadecimal digits without creating a string.
    package func appendHex(to buffer: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Self.hexDigitCount) { digits in
            writeHex(to: digits)
            buffer.append(contentsOf: digits)
        }
    }

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
