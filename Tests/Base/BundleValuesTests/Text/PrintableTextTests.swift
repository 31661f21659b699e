import Testing

@testable import BundleValues

@Suite("PrintableText") struct PrintableTextTests {
    static let escaped: [(String, String)] = [
        ("\0", "\\x00"), ("\u{07}", "\\x07"), ("\t", "\\x09"), ("\n", "\\x0A"), ("\r\n", "\\x0D\\x0A"),
        ("\u{1B}[2K", "\\x1B[2K"), ("\u{7F}", "\\x7F"), ("\u{85}", "\\xC2\\x85"), ("\u{9B}", "\\xC2\\x9B"),
        ("\u{AD}", "\\xC2\\xAD"), ("\u{61C}", "\\xD8\\x9C"), ("\u{200B}", "\\xE2\\x80\\x8B"),
        ("\u{202E}", "\\xE2\\x80\\xAE"), ("\u{2028}", "\\xE2\\x80\\xA8"), ("\u{2029}", "\\xE2\\x80\\xA9"),
        ("\u{2066}", "\\xE2\\x81\\xA6"), ("\u{3164}", "\\xE3\\x85\\xA4"), ("\u{FE0F}", "\\xEF\\xB8\\x8F"),
        ("\u{FEFF}", "\\xEF\\xBB\\xBF"), ("\u{E000}", "\\xEE\\x80\\x80"), ("\u{E0041}", "\\xF3\\xA0\\x81\\x81"),
        ("\u{10FFFF}", "\\xF4\\x8F\\xBF\\xBF"), ("e\u{301}\u{200D}", "e\u{301}\\xE2\\x80\\x8D"),
    ]

    @Test(arguments: escaped) func `escapes a character that does not print, byte by byte`(text: String, line: String) {
        #expect(PrintableText.line("a\(text)b") == "a\(line)b")
    }

    @Test(arguments: ["", "plain ~", "a\\x0Ab", "é ß 日本語 😀 \u{301}", "→ · …"])
    func `keeps printable and already escaped characters`(text: String) {
        #expect(Array(PrintableText.line(text).utf8) == Array(text.utf8))
        #expect(PrintableText.line(PrintableText.line(text)) == text)
    }

    @Test func `prints no control character, format character or line separator`() {
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value), PrintableText.prints(scalar) else { continue }
            let category = scalar.properties.generalCategory
            let isHidden = [.control, .format, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator].contains(
                category)
            #expect(!isHidden, "U+\(String(value, radix: 16))")
        }
    }
}
