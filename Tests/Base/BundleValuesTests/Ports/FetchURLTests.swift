import BundleValues
import Testing

@Suite("FetchURL") struct FetchURLTests {
    @Test(arguments: [
        ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"), ("/g", "http://a/g"),
        ("//g", "http://g"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"), ("#s", "http://a/b/c/d;p?q#s"),
        ("g#s", "http://a/b/c/g#s"), ("g?y#s", "http://a/b/c/g?y#s"), (";x", "http://a/b/c/;x"),
        ("g;x", "http://a/b/c/g;x"),
        ("g;x?y#s", "http://a/b/c/g;x?y#s"), ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"), ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"),
        ("../../", "http://a/"), ("../../g", "http://a/g"), ("../../../g", "http://a/g"),
        ("../../../../g", "http://a/g"),
        ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."), (".g", "http://a/b/c/.g"),
        ("g..", "http://a/b/c/g.."), ("..g", "http://a/b/c/..g"), ("./../g", "http://a/b/g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/./h", "http://a/b/c/g/h"), ("g/../h", "http://a/b/c/h"), ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
        ("g;x=1/../y", "http://a/b/c/y"), ("g?y/./x", "http://a/b/c/g?y/./x"), ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("g#s/./x", "http://a/b/c/g#s/./x"), ("g#s/../x", "http://a/b/c/g#s/../x"),
        ("https://b/x/../y", "https://b/y"),
    ])
    func `resolves references by RFC 3986 section 5.4`(reference: String, expected: String) throws {
        let base = try FetchURL(parsing: "http://a/b/c/d;p?q")
        #expect(try base.resolve(relative: reference).description == expected)
    }

    @Test(arguments: [
        ("g", "https://a/b/g?sig=1"), ("../g", "https://a/g?sig=1"), ("g?v=2", "https://a/b/g?v=2"),
        ("g?", "https://a/b/g?"),
        ("https://a/g", "https://a/g?sig=1"), ("https://a:443/g", "https://a:443/g?sig=1"),
        ("https://b/g", "https://b/g"),
        ("https://a:8443/g", "https://a:8443/g"), ("http://a/g", "http://a/g"), ("g#x", "https://a/b/g#x"),
    ])
    func `passes the query of a document only to a file of its origin that has none`(
        reference: String, expected: String
    )
        throws
    {
        let document = try FetchURL(parsing: "https://a/b/manifest.json?sig=1")
        let expected = try FetchURL(parsing: expected)
        #expect(try document.file(reference) == expected)
        #expect(try FetchURL(parsing: "https://a/b/c").file("g").description == "https://a/b/g")
    }

    @Test(arguments: ["g:h", "http:g", "ftp://x/", "//user:pw@host/", "a b", "//"])
    func `rejects references that cannot be fetched`(reference: String) throws {
        let base = try FetchURL(parsing: "http://a/b/c/d;p?q")
        #expect(throws: FetchError.self) { try base.resolve(relative: reference) }
    }

    @Test func `resolves a reference against a URL without a path`() throws {
        #expect(try FetchURL(parsing: "http://a").resolve(relative: "g").description == "http://a/g")
    }

    @Test(arguments: [
        ("", "not absolute"), ("feed.json", "not absolute"), ("//h/x", "not absolute"), ("ftp://h/", "scheme"),
        ("javascript:x", "scheme"), ("http:/h", "'//'"), ("http:///x", "host is missing"),
        ("http://", "host is missing"),
        ("http://:80/", "host is missing"), ("http://user@h/", "user or password"),
        ("https://u:p@h/", "user or password"),
        ("http://h/a b", "percent-encoded"), ("http://h/\r\nX: y", "percent-encoded"),
        ("http://h/\u{0}", "percent-encoded"),
        ("http://h/ä", "percent-encoded"), ("http://h/a\\b", "percent-encoded"), ("http://h/%", "hex digits"),
        ("http://h/%4", "hex digits"), ("http://h/%g1", "hex digits"), ("http://h:x/", "port"), ("http://h:0/", "port"),
        ("http://h:65536/", "port"), ("http://h:99999999999999999999/", "port"), ("http://h:1:2/", "port"),
        ("http://h:-1/", "port"), ("http://a%2eb/", "not a name"), ("http://a,b/", "not a name"),
        ("http://[::1/", "not IPv6"), ("http://[]/", "not IPv6"), ("http://[::g]/", "not IPv6"),
        ("http://[::1]x/", "port"),
        ("file://h/x", "no host"), ("file:x", "'//'"), ("file://", "not absolute"), ("file:///a?b", "percent-encoded"),
        ("file:///a#b", "percent-encoded"), ("file:///a%00b", "NUL"),
        ("http://h/" + String(repeating: "a", count: 8192), "8 KiB"),
    ])
    func `rejects a text with its reason`(text: String, reason: String) throws {
        let error = #expect(throws: FetchError.self) { try FetchURL(parsing: text) }
        guard case .unsupportedURL(_, let found) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(found.contains(reason))
    }

    @Test(arguments: [
        ("HTTP://Example.COM/Path?Q#F", "http://example.com/Path?Q#F", "example.com", 80),
        ("https://h", "https://h", "h", 443), ("https://h:8443/x", "https://h:8443/x", "h", 8443),
        ("http://h:/x", "http://h:/x", "h", 80), ("http://[::1]:8080/", "http://[::1]:8080/", "[::1]", 8080),
        ("file://localhost/a/b", "file:///a/b", "", 0),
    ])
    func `normalizes scheme and host and derives the origin`(text: String, normal: String, host: String, port: Int)
        throws
    {
        let url = try FetchURL(parsing: text)
        #expect(url.description == normal)
        #expect(url.origin.host == host)
        #expect(url.origin.port == port)
        #expect(url.origin.scheme == url.scheme)
    }

    @Test func `has an origin that ignores case and the default port`() throws {
        #expect(try FetchURL(parsing: "https://A/x").origin == FetchURL(parsing: "https://a:443/y").origin)
        #expect(try FetchURL(parsing: "https://a/").origin != FetchURL(parsing: "http://a/").origin)
        #expect(try FetchURL(parsing: "https://a/").origin != FetchURL(parsing: "https://a:444/").origin)
        #expect(try FetchURL(parsing: "https://a/").origin != FetchURL(parsing: "https://b/").origin)
    }

    @Test func `keeps all bytes of a file path`() throws {
        let path = Array("/a b/%?#ä".utf8) + [0xFF]
        let url = try FetchURL(filePath: path)
        #expect(url.description == "file:///a%20b/%25%3F%23%C3%A4%FF")
        #expect(url.filePath == path)
        #expect(url.isFile)
        #expect(try FetchURL(parsing: "http://a/b").filePath == nil)
    }

    @Test(arguments: ["", "a/b", "/a\u{0}b"])
    func `rejects a file path that is relative or contains NUL`(path: String) {
        #expect(throws: FetchError.self) { try FetchURL(filePath: Array(path.utf8)) }
    }

    @Test(arguments: [
        ("http", "http", true), ("http", "https", true), ("https", "https", true), ("https", "http", false),
        ("http", "file", false), ("https", "file", false), ("file", "http", false), ("file", "https", false),
        ("file", "file", true),
    ])
    func `permits only references that keep encryption and the kind of scheme`(from: String, to: String, allowed: Bool)
        throws
    {
        let url = { (scheme: String) in try FetchURL(parsing: scheme == "file" ? "file:///x" : "\(scheme)://h/x") }
        #expect(try url(from).mayLead(to: url(to)) == allowed)
    }

    @Test(arguments: [
        ("https://u:secret@h/x?token=secret#secret", "https://…@h/x"), ("https://h/@scope/x", "https://h/@scope/x"),
        ("http://h/\u{1B}[31m\n", "http://h/\u{FFFD}[31m\u{FFFD}"),
        (String(repeating: "a", count: 300), String(repeating: "a", count: 200)),
    ])
    func `hides secrets and control characters in messages`(text: String, shown: String) {
        #expect(FetchURL.display(of: text) == shown)
    }
}

@Suite("FetchRequest.Resume") struct ResumeTests {
    @Test(arguments: [
        (1, "\"a\"", true), (1, "Sat, 21 Nov 2026 10:00:00 GMT", true), (0, "\"a\"", false), (-1, "\"a\"", false),
        (1, "W/\"a\"", false), (1, "", false), (1, "\"a\"\r\nX: y", false), (1, "\"ä\"", false),
        (1, String(repeating: "a", count: 1025), false),
    ])
    func `requires an offset and a strong validator that is a header value`(offset: Int, validator: String, valid: Bool)
    {
        #expect((FetchRequest.Resume(offset: offset, validator: validator) != nil) == valid)
    }

    @Test func `uses the strong entity tag rather than the date as the validator`() throws {
        let url = try FetchURL(parsing: "http://h/")
        let head = { FetchHead(status: 200, effectiveURL: url, entityTag: $0, lastModified: $1).validator }
        #expect(head("\"a\"", "date") == "\"a\"")
        #expect(head("W/\"a\"", "date") == "date")
        #expect(head("W/\"a\"", nil) == nil)
        #expect(head(nil, nil) == nil)
    }
}

@Suite("FetchError") struct FetchErrorTests {
    @Test func `describes the failure and the remedy without the query of the URL`() throws {
        let url = try FetchURL(parsing: "https://h/x?token=secret")
        let errors: [FetchError] = [
            .unreachable(url, reason: "r"), .httpStatus(404, url, retryAfter: nil), .invalidResponse(url, reason: "r"),
            .tooLarge(limit: 1, url), .tooSlow(url), .timedOut(url), .redirectRefused(from: url, to: "t", reason: "r"),
            .tlsFailed(url, reason: "r"), .fileMissing(url), .filePermission(url),
        ]
        for error in errors {
            #expect(error.description.hasPrefix("https://h/x "))
            #expect(!error.description.contains("secret"))
            #expect(error.description.hasSuffix("."))
        }
    }

    @Test func `returns the wait that the server asks for`() throws {
        let url = try FetchURL(parsing: "https://h/x")
        #expect(FetchError.httpStatus(503, url, retryAfter: .seconds(7)).description.contains("in 7 s"))
    }
}
