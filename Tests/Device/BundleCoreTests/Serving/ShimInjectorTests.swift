import BundleSigning
import Testing

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
        "<!DOCTYPE html><html><head><title>t</title>|</head><body></body></html>",
        "<head>|</HEAD ></head>", "<head>|</head\n></head>", "<head>|</head/></head>",
        "<head>|</head x=\"</head>\"></head>",
        "\u{FEFF}<!doctype html>\r\n<html>\r\n<head>\r\n|</head>\r\n<body>\r\n</body>\r\n</html>\r\n",
        "|</head>", "<head></headx>|</head>", "<head></hea>|</head>", "<head></ head>|</head>",
        "<head><!doctype </head>|</head>", "<head><?php </head>|</head>", "<head><! </head>|</head>",
        "<head></>|</head>", "<head><>|</head>", "<head>a < b|</head>", "<head><1>|</head>",
    ])
    func `adds the shim before the end of the head`(marked: String) { Self.expectPlace(marked) }

    @Test(arguments: [
        "<head><!-- </head> -->|</head>", "<head><!-- </head> --!>|</head>", "<head><!-->|</head> -->",
        "<head><!--->|</head> -->", "<head><!----!>|</head> -->",
        "<head><!--!></head>-->|</head>", "<head><!---!></head>-->|</head>", "<head><!-- -- > </head>-->|</head>",
        "<head><!---- </head> ---->|</head>",
    ])
    func `does not add the shim inside a comment`(marked: String) { Self.expectPlace(marked) }

    @Test(
        arguments: [
            "<head><meta content=\"</head>\">|</head>", "<head><meta content='</head>'>|</head>",
            "<head><meta content = '</head>'>|</head>", "<head><meta a=\"x\"b='</head>'>|</head>",
            "<head><meta a=b'>|</head>'>", "<head><meta \">|</head>", "<head><meta a\"='</head>'>|</head>",
            "<head><meta =\">|</head>\">", "<head><meta a='\"' b='</head>'>|</head>",
            "<head><meta/a='</head>'/>|</head>",
            "<head><meta a=>|</head>", "<head><meta a= >|</head>", "<html a='<head></head>'><head>|</head>",
        ])
    func `does not add the shim inside an attribute`(marked: String) { Self.expectPlace(marked) }

    @Test(arguments: [
        "<head><script>\"</head>\"</script>|</head>", "<head><SCRIPT>\"</head>\"</ScRiPt >|</head>",
        "<head><script>'</scripts></head>'</script>|</head>", "<head><script></script x='</head>'>|</head>",
        "<head><script><!-- '</head>' --></script>|</head>", "<head><script><!-- '</head>' </script>|</head>",
        "<head><script><!-- <script> </script> </head> </script>|</head>",
        "<head><script><!-- <script> </script> </head> --></script>|</head>",
        "<head><script><!-- <script> --> </script>|</head>", "<head><script><!--> <script> </script>|</head>",
        "<head><script><!-- <scripts> </script>|</head>", "<head><script><!-- <script/ </script/ </script>|</head>",
        "<head><script><script> </script>|</head>", "<head><script src=\"x\"></head></script>|</head>",
        "<head><title></head></title>|</head>", "<head><style></head></style>|</head>",
        "<head><style><!-- </style>|</head>", "<head><noscript></head></noscript>|</head>",
        "<head><textarea></head></textarea>|</head>", "<head><xmp></head></xmp>|</head>",
        "<head><iframe></head></iframe>|</head>", "<head><noembed></head></noembed>|</head>",
        "<head><noframes></head></noframes>|</head>", "<head><title/></head></title>|</head>",
        "<head><template></head><template></head></template></head></template>|</head>",
    ])
    func `does not add the shim inside text or a template`(marked: String) { Self.expectPlace(marked) }

    @Test(arguments: [
        "<svg><title/></svg>|</head>", "<svg><style/><path/></svg>|</head>", "<svg/><title></head></title>|</head>",
        "<svg></svg><title></head></title>|</head>", "<svg><foreignObject><title></head></title>|</head>",
        "<svg><p><title></head></title>|</head>", "<svg><desc><svg/><style></head></style>|</head>",
        "<svg><![CDATA[</head></svg>]]></svg>|</head>", "<![CDATA[ > ]]>|</head>",
        "<math><style/><mi><style></head></style>|</head>",
        "<template><svg></template><style></head></style>|</head>", "<svg><script/></svg>|</head>",
    ])
    func `adds the shim beside SVG and MathML as browsers parse them`(marked: String) { Self.expectPlace(marked) }

    /// A script inside these elements would not run.
    @Test(arguments: [
        "|<math>", "<p>|<svg><g></head></body>", "<head>|<svg><title/></head>", "|<svg><desc><b></b></desc></body>",
        "<svg></svg>|<math><mi></mi><mrow></body>", "|<svg><![CDATA[ >", "|<svg><desc><svg></body>",
        "|<svg><script/></head>", "<math><mi>|</body>", "<svg><p>|</body>",
    ])
    func `does not add the shim inside an unclosed SVG or MathML element`(marked: String) {
        Self.expectPlace(marked)
        let script = Array("x".utf8)
        let once = ShimInjector.inject(script, into: marked.utf8.filter { $0 != UInt8(ascii: "|") })
        #expect(ShimInjector.inject(script, into: once) == once)
        #expect(HTMLOutline(once).scripts.count == 1)
    }

    @Test(arguments: [
        "<body><p>|</body></html>", "<body><!-- </head></body> -->|</BODY>", "a</p>|</body></body>",
        "<template></body></template>|</body>",
    ])
    func `adds the shim before the end of the body if there is no head`(marked: String) { Self.expectPlace(marked) }

    @Test(arguments: [
        "|", "\u{FEFF}|", "<p>text|", "<html></html>|", "text <|", "text |</",
        "<p>|<!-- never closed </head>", "<p>|<script>never closed </head>", "<p>|<title>never closed",
        "<p>|<a href='never closed </head>", "<p>|<a ", "<p>|<a b", "<p>|<a b=", "<p>|<a b=c", "<p>|<a b='c'",
        "<p>|</head",
        "<p>|<script></script", "<p>|<script></script x='", "<p>|<plaintext></head>",
        "<p>|<template><b><template></template>",
        "<p>|<template><script>", "<p>|<template><plaintext>", "<p>|<!doctype", "<p>|<?x",
    ])
    func `adds the shim at the end, before an unclosed element, if there is no head or body`(marked: String) {
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
            let places = [outline.headStart, outline.headEnd, outline.bodyEnd, outline.end].compactMap(\.self)
            #expect(places.allSatisfy { (0...page.count).contains($0) })
            #expect(outline.scripts.allSatisfy { !$0.text.isEmpty && $0.text.upperBound <= page.count })
            let result = ShimInjector.inject(Array("shim".utf8), into: page)
            let place = outline.headEnd ?? outline.bodyEnd ?? outline.end
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
