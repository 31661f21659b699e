/// A strict UTF-8 decoder by table 3-7 of the Unicode standard: no overlong forms, surrogates, or values above U+10FFFF.
enum UTF8Decoding {
    /// Decodes the scalar that starts at `index`. Returns nil if the bytes are not well-formed UTF-8.
    static func scalar(in bytes: [UInt8], at index: Int) -> (value: UInt32, length: Int)? {
        let first = bytes[index]
        if first < 0x80 { return (UInt32(first), 1) }
        guard let form = form(ofLeadByte: first), index + form.length <= bytes.count else { return nil }
        guard form.second.contains(bytes[index + 1]) else { return nil }
        var value = UInt32(first & form.payloadMask)
        for offset in 1..<form.length {
            let byte = bytes[index + offset]
            guard byte & 0xC0 == 0x80 else { return nil }
            value = value << 6 | UInt32(byte & 0x3F)
        }
        return (value, form.length)
    }

    private struct ByteForm {
        let length: Int
        let payloadMask: UInt8
        let second: ClosedRange<UInt8>
    }

    /// The range of the second byte excludes overlong forms, surrogates and values above U+10FFFF.
    private static func form(ofLeadByte byte: UInt8) -> ByteForm? {
        switch byte {
        case 0xC2...0xDF: ByteForm(length: 2, payloadMask: 0x1F, second: 0x80...0xBF)
        case 0xE0: ByteForm(length: 3, payloadMask: 0x0F, second: 0xA0...0xBF)
        case 0xED: ByteForm(length: 3, payloadMask: 0x0F, second: 0x80...0x9F)
        case 0xE1...0xEF: ByteForm(length: 3, payloadMask: 0x0F, second: 0x80...0xBF)
        case 0xF0: ByteForm(length: 4, payloadMask: 0x07, second: 0x90...0xBF)
        case 0xF1...0xF3: ByteForm(length: 4, payloadMask: 0x07, second: 0x80...0xBF)
        case 0xF4: ByteForm(length: 4, payloadMask: 0x07, second: 0x80...0x8F)
        default: nil
        }
    }
}
