/// Strict standard base64 with padding (RFC 4648, section 4). Each byte string has exactly one encoding.
package enum Base64 {
    package static func encode(_ bytes: [UInt8]) -> String {
        String(decoding: encodedBytes(bytes), as: UTF8.self)
    }

    /// Decodes a text.
    ///
    /// Throws for white space, missing or misplaced padding, the URL alphabet, and a last digit with unused bits set.
    package static func decode(_ text: String) throws(Base64Error) -> [UInt8] {
        try decodedBytes(Array(text.utf8))
    }

    static func encodedBytes(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var index = 0
        while index < bytes.count {
            let present = min(3, bytes.count - index)
            var group: UInt32 = 0
            for offset in 0..<3 {
                group = group << 8 | (offset < present ? UInt32(bytes[index + offset]) : 0)
            }
            for offset in 0..<4 {
                text.append(offset <= present ? digit(of: UInt8(group >> (18 - 6 * offset) & 63)) : padding)
            }
            index += 3
        }
        return text
    }

    static func decodedBytes(_ text: [UInt8]) throws(Base64Error) -> [UInt8] {
        guard text.count % 4 == 0 else { throw .wrongLength(found: text.count) }
        let paddingCount = text.suffix(2).reversed().prefix { $0 == padding }.count
        let digitCount = text.count - paddingCount
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        var group: UInt32 = 0
        for index in 0..<digitCount {
            guard let value = value(ofDigit: text[index]) else { throw .invalidByte(offset: index) }
            group = group << 6 | UInt32(value)
            if index % 4 == 3 {
                bytes.append(UInt8(truncatingIfNeeded: group >> 16))
                bytes.append(UInt8(truncatingIfNeeded: group >> 8))
                bytes.append(UInt8(truncatingIfNeeded: group))
                group = 0
            }
        }
        switch paddingCount {
        case 1:
            guard group & 3 == 0 else { throw .unusedBitsSet }
            bytes += [UInt8(truncatingIfNeeded: group >> 10), UInt8(truncatingIfNeeded: group >> 2)]
        case 2:
            guard group & 15 == 0 else { throw .unusedBitsSet }
            bytes.append(UInt8(truncatingIfNeeded: group >> 4))
        default: break
        }
        return bytes
    }

    private static let padding = UInt8(ascii: "=")

    private static func digit(of value: UInt8) -> UInt8 {
        switch value {
        case 0..<26: UInt8(ascii: "A") &+ value
        case 26..<52: UInt8(ascii: "a") &+ (value &- 26)
        case 52..<62: UInt8(ascii: "0") &+ (value &- 52)
        case 62: UInt8(ascii: "+")
        default: UInt8(ascii: "/")
        }
    }

    private static func value(ofDigit digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit &- UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): digit &- UInt8(ascii: "a") &+ 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit &- UInt8(ascii: "0") &+ 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}

package enum Base64Error: Error, Hashable, CustomStringConvertible {
    /// The length is not a multiple of four.
    case wrongLength(found: Int)
    /// A byte is not in the standard alphabet, or is a `=` before the end.
    case invalidByte(offset: Int)
    /// The last digit has bits that no byte uses. The encoding is not canonical.
    case unusedBitsSet

    package var description: String {
        switch self {
        case .wrongLength(let found):
            "base64 has groups of four characters with `=` as padding, but this text has \(found) bytes"
        case .invalidByte(let offset): "the byte at offset \(offset) is not a digit of standard base64"
        case .unusedBitsSet: "the last base64 digit has unused bits set, so this is not the canonical spelling"
        }
    }
}
