import BundleSigning
import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite struct ShimInjectorTests {
    /// Expects the shim at the position of `|`.
    private static func expectPlace(_ marked: String, _ location: SourceLocation = #_sourceLocation) {
        let page = Array(marked.utf8.filter { $0 != UInt8(ascii: "|") })
        let result = ShimInjector.inject(Array("x".utf8), into: page)
        let wanted = marked.split(separator: "|", omittingEmptySubsequences: false).joined(
            separator: "<script>x</script>")
        #expect(String(decoding: result, as: UTF8.self) == wanted, sourceLocation: location)
    }

    @Test(arguments: [
        "<!DOCTYPE html><html><head>|<title>t</title></head><body></body></html>", "<head>|</head>", "<html><head >|",
        "\u{FEFF}<!doctype html>\r\n<html>\r\n<head>|\r\n</head>\r\n<body>\r\n</body>\r\n</html>\r\n",
        "<html a='<head></head>'><head>|</head>", "<!-- <head> --><head>|<script>a()</script>",
    ])
    func `adds the shim at the start of the head`(marked: String) { Self.expectPlace(marked) }

    @Test(arguments: [
        "<!doctype html>|<title>t</title><script>a()</script>",
        "<!doctype html><html lang=en>|<body><script>a()</script>",
        "|<script>a()</script>", "|<p>text", "|", "\u{FEFF}|", "|<header></header>", "|<p><svg><g></body>",
        "|<p><plaintext>",
        "|<template><b>", "|<script>never closed",
    ])
    func `adds the shim before the scripts of a page without tags of its head`(marked: String) {
        Self.expectPlace(marked)
    }

    @Test(arguments: [
        "<!doctype html><meta charset=utf-8>|<title>t</title>",
        "<head><meta charset='utf-8'>|<script>a()</script></head>",
        "<head><title>t</title><meta http-equiv=content-type content='text/html; charset=utf-8'>|</head>",
        "<head>|<script>a()</script><meta charset=utf-8></head>", "|<template><meta charset=utf-8></template>",
        "|<body><meta charset=utf-8>", "\u{FEFF}|<meta charset=utf-8>", "<head>|<meta name=viewport></head>",
    ])
    func `adds the shim behind a declaration of the encoding that precedes every script`(marked: String) {
        Self.expectPlace(marked)
    }

    @Test func `adds the shim only once`() {
        let page = Array("<head></head><body>".utf8)
        let once = ShimInjector.inject(into: page)
        #expect(once.count == page.count + ShimInjector.shim.count + 17)
        #expect(ShimInjector.inject(into: once) == once)
        for hidden in ["<!--\(Self.shimText)-->", "<template><script>\(Self.shimText)</script></template>"] {
            let page = Array("<head>\(hidden)</head>".utf8)
            #expect(ShimInjector.inject(into: page).count == page.count + ShimInjector.shim.count + 17)
        }
    }

    private static var shimText: String { String(decoding: ShimInjector.shim, as: UTF8.self) }

    @Test func `the shim is its whole file and does not end its script element`() throws {
        #expect(Self.shimText.hasPrefix("(function () {"))
        #expect(Self.shimText.hasSuffix("})();"))
        let wrapped = Array("<script>\(Self.shimText)</script>".utf8)
        #expect(HTMLOutline(wrapped).scripts == [.init(text: 8..<wrapped.count - 9, isInTemplate: false)])
        #expect(!Self.shimText.contains("<!--") && !Self.shimText.contains("<script"))
    }

    @Test(arguments: [
        ("<script nonce=\"aZ09+/-_==\">1</script>", "aZ09+/-_=="), ("<script nonce=abc src='x'></script>", "abc"),
        ("<script>1</script><script NONCE='b'>2</script><script nonce='c'>", "b"),
        ("<script nonce='a' nonce='b'></script>", "a"), ("<script nonce='\"x'></script><script nonce=y></script>", "y"),
        ("<script nonce=''></script><script nonce='z'></script>", "z"), ("<style nonce='a'></style>", nil),
        ("<!-- <script nonce='a'></script> -->", nil), ("<script nonce></script>", nil),
        ("<script nonce='a b'></script>", nil), ("<script nonce='&#97;'></script>", nil),
    ])
    func `copies the nonce of the page's scripts`(head: String, nonce: String?) {
        let result = ShimInjector.inject(Array("shim".utf8), into: Array("\(head)</head>".utf8))
        let opening = nonce.map { "<script nonce=\"\($0)\">" } ?? "<script>"
        // An unclosed script swallows the end of the head.
        #expect(String(decoding: result, as: UTF8.self).contains("\(opening)shim</script>"))
    }

    static let sample = """
        \u{FEFF}<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN" "x">\r\n<!-- c --><html lang='de'>\r<head data-a="1>2">
        <meta charset=utf-8><title>A </head> B</title><style>a:after{content:"</head>"}</style>
        <script type="text/javascript" nonce="abc">var a = "</head>"; <!-- <script> x </script> --></script>
        <script src='x.js'></script><script type=importmap>{}</script><template><p></head></template>
        <svg><title/><desc><b>ü</b></desc><![CDATA[</head>]]></svg></HEAD ><body onload="a('</body>')">
        <textarea></body></textarea><script type=module>\u{1F4BB}</script></body></html>\n
        """

    @Test func `keeps every byte of a cut or invalid page`() {
        let sample = Array(Self.sample.utf8)
        var pages = (0...sample.count).map { Array(sample[..<$0]) }
        for index in sample.indices {
            for byte in [0, 0x3C, 0x3E, 0x22, 0x2D, 0xFF] as [UInt8] {
                var page = sample
                page[index] = byte
                pages.append(page)
            }
        }
        for page in pages {
            let outline = HTMLOutline(page)
            #expect([outline.headStart, outline.scriptStart].allSatisfy { (0...page.count).contains($0) })
            #expect(outline.scripts.allSatisfy { !$0.text.isEmpty && $0.text.upperBound <= page.count })
            let result = ShimInjector.inject(Array("shim".utf8), into: page)
            let place = outline.scriptStart
            let added = result.count - page.count
            #expect(added == 21 + (outline.nonce.map { $0.utf8.count + 9 } ?? 0))
            #expect(Array(result[..<place]) + Array(result[(place + added)...]) == page)
        }
    }

    @Test func `runs in linear time`() {
        for piece in [
            "<", "</", "<!", "<!--", "<a ", "<a b='", "<script>", "<script><!--", "</script", "<svg><desc>",
            "<template>", "-",
        ] {
            let page = Array(String(repeating: piece, count: 300_000).utf8)
            let clock = ContinuousClock()
            let time = clock.measure { #expect(ShimInjector.inject([], into: page).count == page.count + 17) }
            #expect(time < .seconds(60), "\(piece)")
        }
    }
}
