/// JavaScript's `encodeURIComponent` and `decodeURIComponent`.
package enum URIComponent {
    private static let plain = Set(
        Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()".utf8))
    private static let digits = Array("0123456789ABCDEF".utf8)

    /// Encodes every byte except letters, digits and `- _ . ! ~ * ' ( )` as `%XX`.
    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        for byte in bytes {
            if plain.contains(byte) {
                text.append(byte)
            } else {
                text += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns nil for an invalid escape or invalid UTF-8.
    package static func decode(_ text: some StringProtocol) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let escape = String(decoding: rest.prefix(2), as: UTF8.self)
            guard escape.utf8.count == 2, !escape.hasPrefix("+"), let value = UInt8(escape, radix: 16) else {
                return nil
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
