import BundleCore

/// One message of the DevTools protocol.
///
/// `JSONScanner` reads whole numbers only, and every message has times with fractions; those come as their text.
enum BrowserMessage {
    static func parse(_ bytes: [UInt8]) throws(JSONError) -> JSONObject {
        let value = try JSONScanner.parse(
            quotingFractions(in: bytes), maximumBytes: 256 << 20, maximumDepth: JSONScanner.deepestNesting)
        return value.objectValue ?? [:]
    }

    /// The document with quotes around every number that is not whole, and around every one beyond 2^53.
    static func quotingFractions(in bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count + 64)
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            var end = index + 1
            if byte == UInt8(ascii: "\"") {
                while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
                    end += bytes[end] == UInt8(ascii: "\\") ? 2 : 1
                }
                end = min(end + 1, bytes.count)
                result += bytes[index..<end]
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

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func isOfNumber(_ byte: UInt8) -> Bool { isDigit(byte) || "+-.eE".utf8.contains(byte) }
}

extension JSONObject {
    /// The text of a member; empty where there is none.
    func text(_ name: String) -> String { self[name]?.stringValue ?? "" }

    /// The object of a member; empty where there is none.
    func object(_ name: String) -> JSONObject { self[name]?.objectValue ?? [:] }
}
