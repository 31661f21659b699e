import BundleValues
import Testing

@testable import BundleFormats
@testable import BundleCore

/// The origins that a release may declare, and those that a device grants.
@Suite struct ReleaseOriginsTests {
    private static func declared(_ page: String) -> ReleaseOrigins { ReleaseOrigins(page: Array(page.utf8)) }

    private static func connect(_ content: String) -> ReleaseOrigins {
        declared("<meta name=\"clientctl:connect\" content=\"\(content)\">")
    }

    // MARK: Origins

    @Test(arguments: [
        ("https://api.example.com", "https://api.example.com"), ("wss://live.example.com", "wss://live.example.com"),
        ("HTTPS://API.Example.COM", "https://api.example.com"), ("https://a.example:8443", "https://a.example:8443"),
        ("https://a.example:443", "https://a.example"), ("wss://a.example:443", "wss://a.example"),
        ("https://a.example:80", "https://a.example:80"),
        ("https://xn--mnchen-3ya.example", "https://xn--mnchen-3ya.example"),
        ("https://localhost", "https://localhost"), ("https://8.8.8.8", "https://8.8.8.8"),
        ("https://nas", "https://nas"),
        ("http://localhost:3000", "http://localhost:3000"), ("ws://127.0.0.1:9001", "ws://127.0.0.1:9001"),
        ("http://127.8.0.1:80", "http://127.8.0.1"), ("http://10.1.2.3", "http://10.1.2.3"),
        ("http://172.16.0.1", "http://172.16.0.1"), ("http://172.31.255.255", "http://172.31.255.255"),
        ("ws://192.168.0.20:8080", "ws://192.168.0.20:8080"), ("http://169.254.1.1", "http://169.254.1.1"),
    ])
    func `accepts an origin`(text: String, origin: String) {
        let declared = Self.connect(text)
        #expect(declared.lines == ["connect \(origin)"])
        #expect(declared.faults == [])
    }

    @Test(
        arguments: [
            ("'unsafe-inline'", .quotes), ("'unsafe-eval'", .quotes), ("'self'", .quotes), ("'none'", .quotes),
            ("https://a.example'", .quotes), ("`https://a.example`", .quotes), ("https://a.example,", .separator),
            ("https://a.example;script-src", .separator), ("https://a.example;", .separator), ("*", .noScheme),
            ("https:", .noScheme), ("data:", .noScheme), ("blob:", .noScheme), ("api.example.com", .noScheme),
            ("//api.example.com", .noScheme), ("ftp://a.example", .scheme), ("file://a.example", .scheme),
            ("://a.example", .scheme), ("https://*", .wildcard), ("https://*.example.com", .wildcard),
            ("https://api.*.com", .wildcard), ("https://a.example:*", .wildcard), ("wss://*", .wildcard),
            ("https://a.example/", .path), ("https://a.example/v1", .path), ("https://a.example?x", .path),
            ("https://a.example#x", .path), ("https://a.example\\b", .path), ("https:///a.example", .path),
            ("https://user@a.example", .credentials), ("https://user:word@a.example", .credentials),
            ("https://", .host), ("https://:443", .host), ("https://a..example", .host), ("https://.example", .host),
            ("https://a.example.", .host), ("https://-a.example", .host), ("https://a-.example", .host),
            ("https://a_b.example", .host), ("https://m\u{FC}nchen.example", .host),
            ("https://api.\u{212A}.example", .host),
            ("https://a%2eexample", .host), ("https://&#97;.example", .separator),
            ("https://a&#46;example", .separator),
            ("https://" + String(repeating: "a", count: 64), .host),
            ("https://" + String(repeating: "a.", count: 127) + "b", .host), ("https://[::1]", .address),
            ("https://[::1]:443", .address), ("http://127.1", .address), ("http://0x7f.0.0.1", .address),
            ("http://127.0.0.01", .address), ("https://256.1.1.1", .address), ("https://1.2.3", .address),
            ("https://2130706433", .address), ("https://a.0x10", .address), ("https://a.example:", .port),
            ("https://a.example:0", .port), ("https://a.example:080", .port), ("https://a.example:65536", .port),
            ("https://a.example:80:80", .port), ("https://a.example:x", .port),
            ("http://a.example", .unencrypted), ("ws://a.example", .unencrypted), ("http://8.8.8.8", .unencrypted),
            ("http://172.15.0.1", .unencrypted), ("http://172.32.0.1", .unencrypted),
            ("http://192.169.0.1", .unencrypted),
            ("http://11.0.0.1", .unencrypted), ("http://localhost.example", .unencrypted),
            ("http://nas.local", .unencrypted),
            ("http://127.0.0.1.example", .unencrypted),
        ] as [(String, OriginRefusal)])
    func `refuses a text that is not an origin`(text: String, refusal: OriginRefusal) {
        let declared = Self.connect(text)
        #expect(declared.origins[.connect] == nil)
        #expect(declared.faults == [.init(name: "clientctl:connect", value: text, reason: .refused(refusal))])
        let granted = GrantedOrigins(declared, within: .all)
        #expect(granted.sources == [:])
        #expect(granted.refusals.count == 1 && granted.refusals.allSatisfy { !$0.contains("\"") })
    }

    @Test(arguments: ["frame", "image", "media"])
    func `declares no WebSocket for resources`(purpose: String) {
        let declared = Self.declared("<meta name=clientctl:\(purpose) content='wss://a.example https://a.example'>")
        #expect(declared.lines == ["\(purpose) https://a.example"])
        #expect(declared.faults.map(\.reason) == [.refused(.webSocket)])
    }

    @Test func `a fault shows the correct element`() {
        let path = Self.connect("https://api.example.com/v1").faults.first?.description
        #expect(
            path
                == "clientctl:connect names https://api.example.com/v1, which has a path. Write an origin: "
                + "<meta name=\"clientctl:connect\" content=\"https://api.example.com\">")
        let frame = Self.declared("<meta name=clientctl:frame content=*>").faults.first?.description
        #expect(frame?.hasSuffix("<meta name=\"clientctl:frame\" content=\"https://api.example.com\">") == true)
        let unknown = Self.declared("<meta name=clientctl:script content=https://a.example>")
        #expect(unknown.faults.map(\.reason) == [.unknownName] && unknown.lines == [])
    }

    @Test func `a purpose has 16 origins at most, in several elements and without repetitions`() {
        let origins = (1...20).map { "https://h\($0).example" }
        let declared = Self.declared(
            "<meta name=clientctl:connect content='\(origins[..<10].joined(separator: " "))'>"
                + "<meta name=CLIENTCTL:Connect content='\(origins.joined(separator: "\n\t\u{0C}\r"))'>"
                + "<meta name=clientctl:media content='https://h20.example  https://H20.example:443'>")
        #expect(declared.origins[.connect]?.map(\.description) == Array(origins.prefix(16)))
        #expect(declared.origins[.media]?.count == 1)
        #expect(declared.faults.map(\.value) == Array(origins.suffix(4)))
        #expect(declared.faults.allSatisfy { $0.reason == .tooMany })
    }

    // MARK: The head

    private static let tag = "<meta name='clientctl:connect' content='https://a.example'>"

    @Test(arguments: [
        "|", "<!doctype html><html lang=en><head><meta charset=utf-8>|<title>x</title></head><body>", "\u{FEFF}<head>|",
        "<!-- x --><html>\n|", "<title></head><body></title>|", "<script>document.write('<body>')</script>|",
        "<style>p > a {}</style><link rel=icon href=x>|", "<noscript><p></noscript>|", "<head></head>|",
        "<head></head>\n<!-- x -->|", "<template><body><p>x</template>|", "</p></div>|", "<base href=/>|",
        "<head><head>|", "<html><html>|", "<noframes><p></noframes>|", "<script>a</script ><!--> |", "<?php x ?>|",
        "<head/>|", "<title/></title>|",
    ])
    func `reads a declaration in the head`(page: String) {
        #expect(Self.declared(page.replacing("|", with: Self.tag)).lines == ["connect https://a.example"])
    }

    @Test(arguments: [
        "<!-- | -->", "<script>|</script>", "<script type=text/html>|</script>", "<template>|</template>",
        "<template><template></template>|</template>", "<noscript>|</noscript>", "<title>|</title>", "<style>|</style>",
        "<textarea>|</textarea>", "<noframes>|</noframes>", "<iframe>|</iframe>", "<xmp>|</xmp>", "<body>|", "<p>|",
        "text|", "</body>|", "</html>|", "</br>|", "<br>|", "<svg>|", "<svg><title>|", "<div></div>|",
        "<head></head>text|", "<head></head><noscript></noscript>|", "<title>x</title>.|", "<frameset>|",
        "<plaintext>|",
        "<meta name='x' content=\"|\">", "<![CDATA[|]]>", "<script><!--<script>|</script>", "<title>|", "<img>|",
        "<select>|", "<math>|", "<template><svg></template><div>|",
        "\u{0}|", "&#32;|", "<link rel=x><center>|",
    ])
    func `ignores a declaration elsewhere`(page: String) {
        let declared = Self.declared(page.replacing("|", with: Self.tag))
        #expect(declared.lines == [] && declared.faults == [])
    }

    @Test(arguments: [
        "<meta property=clientctl:connect content=https://a.example>", "<meta name=clientctl:connect>",
        "<meta name=' clientctl:connect' content=https://a.example>", "<meta name=clientctl:connect content=''>",
        "<meta http-equiv=clientctl:connect content=https://a.example>",
        "<link name=clientctl:connect content=https://a.example>",
        "<meta name=clientctl-connect content=https://a.example>",
        "<metas name=clientctl:connect content=https://a.example>",
        "<meta name=x name=clientctl:connect content=https://a.example>",
        "<meta name=clientctl:connect content=https://a.example",
        "</meta name=clientctl:connect content=https://a.example>",
    ])
    func `ignores other elements`(page: String) {
        #expect(Self.declared(page).lines == [] && Self.declared(page).faults == [])
    }

    // MARK: The device's bound

    @Test(arguments: [
        ("https://api.example.com", "https://api.example.com", true),
        ("https://api.example.com", "https://API.example.com:443", true),
        ("https://api.example.com", "https://*.example.com", true),
        ("https://a.b.example.com", "https://*.example.com", true),
        ("https://example.com", "https://*.example.com", false),
        ("https://badexample.com", "https://*.example.com", false),
        ("https://api.example.com.evil.example", "https://*.example.com", false),
        ("https://api.example.com", "https://example.com", false),
        ("wss://api.example.com", "https://*.example.com", false),
        ("https://api.example.com", "wss://*.example.com", false),
        ("https://api.example.com:8443", "https://*.example.com", false),
        ("https://api.example.com:8443", "https://*.example.com:8443", true),
        ("https://api.example.com:8443", "https://*.example.com:*", true),
        ("https://api.example.com", "https://*.example.com:*", true),
        ("http://10.0.0.1", "http://10.0.0.1", true), ("http://10.0.0.1", "http://10.0.0.2", false),
        ("http://10.0.0.1:8080", "http://10.0.0.1", false),
    ])
    func `a pattern of the device covers an origin`(origin: String, pattern: String, isCovered: Bool) throws {
        let bound = OriginBound.covered(by: [
            try OriginPattern(parsing: "https://other.example"), try OriginPattern(parsing: pattern),
        ])
        #expect(bound.verdict(on: try WebOrigin(parsing: origin)) == (isCovered ? .allowed : .notCovered))
    }

    @Test(arguments: [
        "*", "https://*", "https://*.*.example.com", "https://a*.example.com", "https://*.", "https://*.10.0.0.1",
        "https://example.com/", "'self'", "https:", "https://a.example,https://b.example", "ftp://a.example",
        "https://*example.com",
    ])
    func `refuses another pattern`(pattern: String) {
        #expect(throws: OriginRefusal.self) { _ = try OriginPattern(parsing: pattern) }
    }

    @Test func `a device grants what its bound covers and names the rest with the flag`() throws {
        let declared = Self.declared(
            "<meta name=clientctl:connect content='https://a.example wss://b.example'>"
                + "<meta name=clientctl:frame content='https://c.example'><meta name=clientctl:image content=x>")
        let all = GrantedOrigins(declared, within: .all)
        #expect(
            all.sources == [
                "connect-src": ["https://a.example", "wss://b.example"], "frame-src": ["https://c.example"],
            ])
        #expect(all.refusals.count == 1 && all.refusals[0].contains("clientctl:image names x, which has no scheme"))
        let some = GrantedOrigins(
            declared, within: .covered(by: [try OriginPattern(parsing: "https://a.example")]))
        #expect(some.sources == ["connect-src": ["https://a.example"]])
        #expect(
            some.refusals.prefix(2) == [
                "index.html declares wss://b.example for connect-src, which no --csp-allow covers: --csp-allow 'wss://b.example' would",
                "index.html declares https://c.example for frame-src, which no --csp-allow covers: --csp-allow 'https://c.example' would",
            ])
        let none = GrantedOrigins(declared, within: .none)
        #expect(none.sources == [:])
        #expect(
            none.refusals.count == 2 && none.refusals.allSatisfy { $0.hasSuffix("which --csp-from-release no ignores") }
        )
        let unsigned = GrantedOrigins(declared, within: .unsigned)
        #expect(unsigned.sources == [:])
        #expect(
            unsigned.refusals.first?.contains(
                "only a signed release may: --csp 'connect-src https://a.example wss://b.example'") == true)
        #expect(GrantedOrigins(ReleaseOrigins(), within: .none) == GrantedOrigins())
    }
}
