/// Makes untrusted bytes safe to print in a message.
package enum UntrustedName {
    /// Returns `bytes` as one printable line.
    ///
    /// Bytes of invalid UTF-8 and of characters that do not print (`PrintableText`) become `\xNN`, and a backslash becomes `\\`. After about
    /// `limit` characters the text is cut and the length in bytes added.
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
            return (PrintableText.escape(bytes[index]), 1)
        }
        if scalar == "\\" { return ("\\\\", 1) }
        if PrintableText.prints(scalar) { return (String(scalar), length) }
        return (bytes[index..<index + length].map(PrintableText.escape).joined(), length)
    }
}
