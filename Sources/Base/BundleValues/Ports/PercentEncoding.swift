/// Percent-encoding by RFC 3986, section 2.1.
package enum PercentEncoding {
    /// Encodes all bytes except unreserved characters and slashes.
    package static func encode(path: [UInt8]) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var encoded: [UInt8] = []
        for byte in path {
            if byte.isUnreserved || byte == UInt8(ascii: "/") {
                encoded.append(byte)
            } else {
                encoded += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    /// Decodes a text. Returns nil if two hexadecimal digits do not follow a '%'.
    package static func decodeStrictly(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        for index in bytes.indices where bytes[index] == UInt8(ascii: "%") {
            guard index + 2 < bytes.endIndex, bytes[index + 1].hexValue != nil, bytes[index + 2].hexValue != nil else {
                return nil
            }
        }
        return decode(Array(bytes))
    }

    /// Decodes a text. A '%' without two hexadecimal digits stays as it is.
    package static func decode(_ bytes: [UInt8]) -> [UInt8] {
        var decoded: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, let high = bytes[index + 1].hexValue,
                let low = bytes[index + 2].hexValue
            {
                decoded.append(high << 4 | low)
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return decoded
    }
}

extension UInt8 {
    var isUnreserved: Bool { isASCIILetter || isASCIIDigit || "-._~".utf8.contains(self) }
    var isURICharacter: Bool { isUnreserved || ":/?#[]@!$&'()*+,;=%".utf8.contains(self) }
}
