import BundleCore
import Testing

@testable import BundleServe

@Suite struct RequestPathTests {
    private func decoded(_ target: String) -> String? {
        Array(target.utf8).withUnsafeBytes { RequestPath(decoding: $0) }.map {
            String(decoding: $0.bytes, as: UTF8.self)
        }
    }

    @Test(arguments: [
        ("/", ""), ("/a", "a"), ("/a/", "a/"), ("/a/b.js", "a/b.js"), ("/%61", "a"), ("/%C3%bc", "ü"), ("/...", "..."),
        ("/.a", ".a"), ("/..a/a..", "..a/a.."), ("/%252e%252e%252f", "%2e%2e%2f"), ("/%25", "%"), ("/a%20b", "a b"),
        ("/%3f", "?"),
    ])
    func `decodes a path once`(target: String, path: String) {
        #expect(decoded(target) == path)
    }

    @Test(arguments: [
        "", "a", "*", "/..", "/../a", "/a/../b", "/a/..", "/.", "/./a", "/a/./b", "/a/.", "/%2e%2e/a", "/.%2e/a",
        "/%2E./a", "/%2e",
        "/%2e/a", "/..%2fa", "/a%2fb", "/a%2Fb", "/a%5cb", "/a%5Cb", "/a\\b", "/..\\a", "//", "//etc/passwd", "/a//b",
        "/%", "/%4",
        "/%4g", "/%zz", "/a%00.html", "/%00", "/%0a", "/%1f", "/%7f", "/%c0%ae%c0%ae/", "/%c0%af", "/%ff", "/%ed%a0%80",
        "/%e4",
        "/%f4%90%80%80",
    ])
    func `rejects an ambiguous path`(target: String) {
        #expect(decoded(target) == nil)
    }

    @Test(arguments: [
        ("", true, true, false), ("index.html", true, false, true), ("a/", false, true, false),
        ("a/index.html", false, false, true),
        ("a.b/c", false, false, false), ("a/.b", false, false, true),
    ])
    func `classifies a path by its last component`(path: String, isIndex: Bool, isFolder: Bool, hasExtension: Bool) {
        let path = RequestPath(Array(path.utf8))
        #expect(path.isIndex == isIndex)
        #expect(path.isFolder == isFolder)
        #expect(path.hasExtension == hasExtension)
    }
}

@Suite struct ByteRangeTests {
    @Test(arguments: [
        ("bytes=0-0", 10, ByteRange.part(0..<1)), ("bytes=2-5", 10, .part(2..<6)), ("bytes=2-", 10, .part(2..<10)),
        ("bytes=-3", 10, .part(7..<10)), ("bytes=-10", 10, .part(0..<10)), ("bytes=-11", 10, .part(0..<10)),
        ("bytes=0-99", 10, .part(0..<10)), ("bytes=9-9", 10, .part(9..<10)), ("BYTES=0-0", 10, .part(0..<1)),
        ("bytes=0-99999999999999999999", 10, .part(0..<10)), ("bytes=0-9223372036854775807", 10, .part(0..<10)),
        ("bytes=-99999999999999999999", 10, .part(0..<10)),
        ("bytes=10-", 10, .unsatisfiable), ("bytes=10-11", 10, .unsatisfiable), ("bytes=-0", 10, .unsatisfiable),
        ("bytes=99999999999999999999-", 10, .unsatisfiable), ("bytes=0-", 0, .unsatisfiable),
        ("bytes=-1", 0, .unsatisfiable),
        ("bytes=5-2", 10, .whole), ("bytes=0-1,3-4", 10, .whole), ("bytes=0-1,", 10, .whole), ("bytes=-", 10, .whole),
        ("bytes=", 10, .whole), ("bytes", 10, .whole), ("", 10, .whole), ("items=0-1", 10, .whole),
        ("bytes=a-1", 10, .whole),
        ("bytes=0-b", 10, .whole), ("bytes= 0-1", 10, .whole), ("bytes=0 -1", 10, .whole), ("bytes=0--1", 10, .whole),
        ("bytes=+0-1", 10, .whole), ("bytes:0-1", 10, .whole),
    ])
    func `parses a range as a part, as the whole, or as unsatisfiable`(value: String, size: Int, range: ByteRange) {
        #expect(Array(value.utf8).withUnsafeBytes { ByteRange(parsing: $0, size: size) } == range)
    }
}

@Suite struct EntityTagTests {
    @Test(arguments: [
        ("\"a\"", true), ("W/\"a\"", true), ("*", true), ("\"b\", \"a\"", true), ("\"b\",W/\"a\"", true),
        (",, \"a\"", true),
        ("\"x,y\", \"a\"", true), ("\"b\"", false), ("a", false), ("\"a", false), ("", false), ("\"A\"", false),
        ("w/\"a\"", false),
        ("\"aa\"", false), ("\"\"", false), ("**", false), ("\"b\" \"c\"", false),
    ])
    func `compares entity tags weakly`(value: String, isNamed: Bool) {
        #expect(Array(value.utf8).withUnsafeBytes { EntityTag.isNamed(Array("\"a\"".utf8), in: $0) } == isNamed)
    }
}

@Suite struct MediaTypeTests {
    @Test(arguments: [
        ("a.js", "text/javascript; charset=utf-8"), ("a/B.MJS", "text/javascript; charset=utf-8"),
        ("a.css", "text/css"),
        ("a.html", "text/html; charset=utf-8"), ("a.json", "application/json; charset=utf-8"),
        ("a.map", "application/json; charset=utf-8"), ("a.wasm", "application/wasm"),
        ("a.svg", "image/svg+xml; charset=utf-8"),
        ("a.png", "image/png"), ("a.jpg", "image/jpeg"), ("a.gif", "image/gif"), ("a.webp", "image/webp"),
        ("a.avif", "image/avif"),
        ("a.ico", "image/x-icon"), ("a.woff", "font/woff"), ("a.woff2", "font/woff2"), ("a.ttf", "font/ttf"),
        ("a.otf", "font/otf"),
        ("a.mp4", "video/mp4"), ("a.webm", "video/webm"), ("a.mp3", "audio/mpeg"), ("a.ogg", "audio/ogg"),
        ("a.wav", "audio/wav"),
        ("a.pdf", "application/pdf"), ("a.txt", "text/plain; charset=utf-8"),
        ("a.xml", "application/xml; charset=utf-8"),
        ("a.webmanifest", "application/manifest+json; charset=utf-8"), ("a.md", "text/markdown; charset=utf-8"),
        ("a.csv", "text/csv; charset=utf-8"), ("a", "application/octet-stream"),
        ("a.html.x", "application/octet-stream"),
        ("a.js/b", "application/octet-stream"), ("", "application/octet-stream"),
    ])
    func `derives the media type from the extension`(name: String, type: String) {
        #expect(MediaType.of(Array(name.utf8)) == type)
    }
}

@Suite struct PortChoiceTests {
    /// The remainders were computed by JavaScript.
    @Test(arguments: [
        ("1waqgcidafgwubeqj8o", 12552), ("abc", 12368), ("ABC", 12368), ("1gcujev120hrke44h3h0", 12936),
        ("qc50hm16b987s1xngpmi", 12752), ("test-app-id", 12205), ("zzzzzzzzzzzzzzzzzzzz", 12968), ("0", 12000),
        ("", 12000),
        ("-", 12000), (".abc", 12000), ("00abc", 12368), ("abc.def", 12368), ("ü", 12000),
    ])
    func `derives the port of an application from its ID`(appId: String, port: Int) {
        #expect(PortChoice.port(forAppId: appId) == port)
    }

    @Test func `selects the first port without an application`() { #expect(PortChoice.port(forAppId: nil) == 12000) }

    @Test func `selects the first port for an ID that is not a finite number`() {
        #expect(PortChoice.port(forAppId: String(repeating: "z", count: 300)) == 12000)
    }

    @Test func `tries all other ports of the range in order`() {
        let candidates = PortChoice.derived(appId: "abc").candidates
        #expect(candidates.first == 12368)
        #expect(candidates[631] == 12999)
        #expect(candidates[632] == 12000)
        #expect(candidates.last == 12367)
        #expect(candidates.count == 1000)
    }
}

@Suite struct HTTPDateTests {
    @Test(arguments: [(0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT")])
    func `formats dates as in RFC 9110`(time: Int, text: String) { #expect(HTTPDate.text(time) == text) }
}
