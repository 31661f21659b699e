import BundleSigning
import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite struct HTMLOutlineTests {
    @Test(arguments: [
        "<head>|", "<!doctype html><html><head lang='>'>|<title>", "\u{FEFF}<!-- x --> <HEAD>|", "<html><head/>|",
        "<html a>|<title></title><head>", "<html>|text<head>", "<html>|<p></p>", "<!doctype html>|<title></title>",
        "<!-- x --><!doctype html>|\n<p>", "|text<!doctype html>", "\u{FEFF}|<title></title>", "|", "|<p><html>",
        "<html>|<template><head></template>", "|</p><head>", "<html>|<body><html x>",
    ])
    func `finds the start of the head`(marked: String) {
        let before = marked.utf8.prefix { $0 != UInt8(ascii: "|") }
        let page = marked.utf8.filter { $0 != UInt8(ascii: "|") }
        #expect(HTMLOutline(page).headStart == before.count)
    }

    private static func scripts(_ page: String) -> [String] {
        let bytes = Array(page.utf8)
        return HTMLOutline(bytes).scripts.map { String(decoding: bytes[$0.text], as: UTF8.self) }
    }

    @Test(arguments: [
        "", "type", "type=''", "type=text/javascript", "type=\" Text/JavaScript\t\"", "type='module'", "type=MODULE",
        "type=importmap", "type=speculationrules", "type=application/x-ecmascript", "type=text/livescript",
        "language=JavaScript", "language=''", "language='JavaScript1.5'", "type=module language=vbs", "async defer",
        "nomodule", "data-src='x'", "type=module type=text/x",
    ])
    func `reports the scripts that run`(attributes: String) {
        #expect(Self.scripts("<script \(attributes)>run()</script>") == ["run()"])
    }

    @Test(arguments: [
        "type=text/template", "type=application/json", "type=text/x-handlebars", "type=' '", "type=javascript",
        "type='text/javascript; charset=utf-8'", "language=vbs", "language=' '", "src=x", "src", "src='' type=module",
        "type=text/x type=module",
    ])
    func `ignores scripts that do not run or have a source`(attributes: String) {
        #expect(Self.scripts("<script \(attributes)>run()</script>") == [])
    }

    @Test func `reports the exact text of each inline script`() {
        #expect(
            Self.scripts(
                """
                <script>a</script><!--<script>b</script>--><title><script>c</script></title><SCRIPT
                >\r\nd <b> </SCRIPT
                ><script></script><noscript><script>e</script></noscript><svg><script>f</script></svg><script> </script>
                <template><script>g</script></template><script><!-- <script>h</script> --></script><script>i
                """) == ["a", "\r\nd <b> ", " ", "g", "<!-- <script>h</script> -->"])
        let outline = HTMLOutline(Array("<template><script>a</script></template><script>b</script>".utf8))
        #expect(outline.scripts.map(\.isInTemplate) == [true, false])
    }
}

@Suite struct ScriptSourceTests {
    private static func expressions(_ page: String) throws -> [String] {
        try ScriptSource.expressions(for: Array(page.utf8))
    }

    private static func expression(_ parsed: [UInt8]) throws -> String {
        let digest = try SHA256Digest.of(parsed)
        return "'sha256-\(Base64.encode(digest.withUnsafeBytes { Array($0) }))'"
    }

    @Test func `returns the hash of the example in Content Security Policy`() throws {
        // The example of the section "Usage of hashes".
        #expect(
            try Self.expressions("<script>alert('Hello, world.');</script>")
                == ["'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"])
    }

    @Test func `returns the hashes in order and without duplicates`() throws {
        let page = "<script>b</script><script>a</script><script>b</script><template><script>c</script></template>"
        #expect(
            try Self.expressions(page)
                == ["b", "a", "c"].map { try Self.expression(Array($0.utf8)) })
        #expect(try Self.expressions("<p>") == [])
    }

    /// The expected texts were checked with `TextDecoder`.
    @Test(arguments: [
        ("a\r\nb", "a\nb"), ("a\rb", "a\nb"), ("a\r\r\nb\n\r", "a\n\nb\n\n"), ("\n\r\n\n", "\n\n\n"),
        ("a\0b", "a\u{FFFD}b"),
        ("\u{FEFF}a", "\u{FEFF}a"), ("e\u{301}", "e\u{301}"),
    ])
    func `hashes the text of a script as a browser parses it`(text: String, parsed: String) throws {
        #expect(ScriptSource.asParsed(Array(text.utf8)[...]) == Array(parsed.utf8))
        #expect(try Self.expressions("<script>\(text)</script>") == [try Self.expression(Array(parsed.utf8))])
    }

    @Test(
        arguments: [
            ([0x61, 0xFF, 0x62], "a\u{FFFD}b"), ([0xE2, 0x82, 0x41], "\u{FFFD}A"), ([0xE2, 0x82], "\u{FFFD}"),
            ([0xF0, 0x9F, 0x92, 0xE2, 0x82, 0xAC], "\u{FFFD}€"), ([0xC0, 0xAF], "\u{FFFD}\u{FFFD}"),
            ([0xED, 0xA0, 0x80], "\u{FFFD}\u{FFFD}\u{FFFD}"), ([0xF5, 0x80], "\u{FFFD}\u{FFFD}"),
            ([0xF4, 0x90, 0x80, 0x80], "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}"),
            ([0xF0, 0x80, 0x80], "\u{FFFD}\u{FFFD}\u{FFFD}"),
            ([0xE0, 0x9F, 0xBF], "\u{FFFD}\u{FFFD}\u{FFFD}"), ([0xC3, 0x0D, 0x0A], "\u{FFFD}\n"),
        ] as [([UInt8], String)])
    func `replaces invalid UTF-8 before it hashes a script`(bytes: [UInt8], parsed: String) {
        #expect(ScriptSource.asParsed(bytes[...]) == Array(parsed.utf8))
    }
}
