/// Makes untrusted bytes safe to print in a message.
package enum UntrustedName {
    /// Returns `bytes` as one printable line.
    ///
    /// Controls, bidirectional and invisible characters, unassigned code points and invalid UTF-8 become `\xNN` per
    /// byte, a backslash becomes `\\`. After about `limit` characters the text is cut and the length in bytes added.
    package static func display(_ bytes: some Collection<UInt8>, limit: Int = 200) -> String {
        let budget = max(0, min(limit, 1 << 16))
        // A character of the output stands for at most four bytes, so the cut never shows as an invalid character.
        let shown = [UInt8](bytes.prefix(budget * 4 + 4))
        var text = ""
        var written = 0
        var index = 0
        while index < shown.count && written < budget {
            let piece = printable(shown, at: index)
            text += piece.text
            written += piece.text.unicodeScalars.count
            index += piece.length
        }
        return index < bytes.count ? text + "… (\(bytes.count) bytes)" : text
    }

    /// Returns `text` as one printable line, by the same rules as for bytes.
    package static func display(_ text: some StringProtocol, limit: Int = 200) -> String {
        display([UInt8](text.utf8), limit: limit)
    }

    private static func printable(_ bytes: [UInt8], at index: Int) -> (text: String, length: Int) {
        guard let (value, length) = UTF8Decoding.scalar(in: bytes, at: index), let scalar = Unicode.Scalar(value) else {
            return (escape(bytes[index]), 1)
        }
        if scalar == "\\" { return ("\\\\", 1) }
        if isPrintable(scalar) { return (String(scalar), length) }
        return (bytes[index..<index + length].map(escape).joined(), length)
    }

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return scalar.value >= 0x20 && scalar.value != 0x7F }
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: return false
        default: return true
        }
    }

    private static func escape(_ byte: UInt8) -> String {
        let digits = String(byte, radix: 16, uppercase: true)
        return digits.utf8.count == 1 ? "\\x0\(digits)" : "\\x\(digits)"
    }
}
