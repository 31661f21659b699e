import BundleValues

/// A message of the DevTools protocol.
///
/// `JSONScanner` accepts only integers and complete surrogate pairs, but every message has fractional times and a page
/// can send any text. Fractional numbers become strings, and half surrogates become U+FFFD.
enum BrowserMessage {
    static func parse(_ bytes: [UInt8]) throws(JSONError) -> JSONObject {
        let value = try JSONScanner.parse(
            readable(bytes), maximumBytes: 256 << 20, maximumDepth: JSONScanner.deepestNesting)
        return value.objectValue ?? [:]
    }

    /// Returns the document with quotes around numbers that are not integers or have at least 16 digits, and without half
    /// surrogates.
    private static func readable(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count + 64)
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            var end = index + 1
            if byte == UInt8(ascii: "\"") {
                while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
                    guard bytes[end] == UInt8(ascii: "\\") else {
                        end += 1
                        continue
                    }
                    let unit = unit(bytes, at: end)
                    if unit & 0xFC00 == 0xD800, self.unit(bytes, at: end + 6) & 0xFC00 == 0xDC00 {
                        end += 12
                    } else if unit & 0xF800 == 0xD800 {
                        result += bytes[index..<end] + Array("\\ufffd".utf8)
                        end += 6
                        index = end
                    } else {
                        end += 2
                    }
                }
                end = min(end + 1, bytes.count)
                result += bytes[min(index, end)..<end]
            } else if isOfNumber(byte), byte != UInt8(ascii: "e"), byte != UInt8(ascii: "E") {
                while end < bytes.count, isOfNumber(bytes[end]) { end += 1 }
                let text = bytes[index..<end]
                let isWhole = text.allSatisfy { $0 == UInt8(ascii: "-") || isDigit($0) } && text.count < 16
                result += isWhole ? Array(text) : [UInt8(ascii: "\"")] + text + [UInt8(ascii: "\"")]
            } else {
                result.append(byte)
            }
            index = end
        }
        return result
    }

    /// Returns the code unit of the escape at `offset`, or 0 for any other escape.
    private static func unit(_ bytes: [UInt8], at offset: Int) -> UInt32 {
        guard offset + 6 <= bytes.count, bytes[offset..<offset + 2].elementsEqual("\\u".utf8) else { return 0 }
        return UInt32(String(decoding: bytes[offset + 2..<offset + 6], as: UTF8.self), radix: 16) ?? 0
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func isOfNumber(_ byte: UInt8) -> Bool { isDigit(byte) || "+-.eE".utf8.contains(byte) }
}

extension JSONObject {
    /// Returns the text of a member, or an empty string.
    func text(_ name: String) -> String { self[name]?.stringValue ?? "" }

    /// Returns the object of a member, or an empty object.
    func object(_ name: String) -> JSONObject { self[name]?.objectValue ?? [:] }
}
