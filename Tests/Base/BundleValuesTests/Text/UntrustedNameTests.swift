import BundleValues
import Testing

@Suite("UntrustedName") struct UntrustedNameTests {
    @Test(
        arguments: [
            ([], ""), (Array("a/b é😀 \"'~".utf8), "a/b é😀 \"'~"), ([0x0A, 0x1B, 0x00, 0x7F], "\\x0A\\x1B\\x00\\x7F"),
            (Array("a\\x0Ab".utf8), "a\\\\x0Ab"), ([0x61, 0xFF, 0x62], "a\\xFFb"), ([0xC3], "\\xC3"),
            ([0xED, 0xA0, 0x80], "\\xED\\xA0\\x80"), ([0xC0, 0xAF], "\\xC0\\xAF"), (Array("\u{85}".utf8), "\\xC2\\x85"),
            (Array("\u{202E}x".utf8), "\\xE2\\x80\\xAEx"), (Array("\u{200B}".utf8), "\\xE2\\x80\\x8B"),
            (Array("\u{2028}".utf8), "\\xE2\\x80\\xA8"), (Array("\u{E0041}".utf8), "\\xF3\\xA0\\x81\\x81"),
            (Array("\u{E000}".utf8), "\\xEE\\x80\\x80"), (Array("\u{FFFF}".utf8), "\\xEF\\xBF\\xBF"),
            (Array("\u{206A}".utf8), "\\xE2\\x81\\xAA"), (Array("e\u{301}".utf8), "e\u{301}"),
            ([0x0F, 0x10], "\\x0F\\x10"),
        ] as [([UInt8], String)])
    func `escapes each byte of characters that do not print`(bytes: [UInt8], text: String) {
        #expect(Array(UntrustedName.display(bytes).utf8) == Array(text.utf8))
        #expect(Array(UntrustedName.display(bytes[...]).utf8) == Array(text.utf8))
    }

    @Test func `truncates a long name and appends its length`() {
        let a200 = String(repeating: "a", count: 200)
        #expect(UntrustedName.display(a200) == a200)
        #expect(UntrustedName.display(a200 + "b") == a200 + "… (201 bytes)")
        #expect(
            UntrustedName.display(String(repeating: "😀", count: 201)) == String(repeating: "😀", count: 200)
                + "… (804 bytes)")
        #expect(UntrustedName.display([UInt8](repeating: 0, count: 1 << 20)).hasPrefix("\\x00\\x00"))
        #expect(UntrustedName.display([UInt8](repeating: 0, count: 1 << 20)).utf8.count < 230)
        #expect(UntrustedName.display("abc", limit: 2) == "ab… (3 bytes)")
        #expect(UntrustedName.display("abc", limit: 0) == "… (3 bytes)")
        #expect(UntrustedName.display("abc", limit: -1) == "… (3 bytes)")
        #expect(UntrustedName.display("abc", limit: .max) == "abc")
    }

    @Test func `keeps the byte count of a leading combining mark`() {
        #expect(UntrustedName.display("\u{301}x").utf8.count == 3)
    }
}
