import BundleValues
import BundleDisk
import BundleFormats
import BundleServe
import BundleTestTraits
import BundleTesting
import Synchronization
import Testing

@Suite(.ownThread) struct NavigationTests {
    static let document = """
        <html><head><meta name="clientctl-token" content="token-1" data-ended=""><script>bridge()</script></head>app</html>
        """
    static let bare = "<html><head></head>app</html>"

    @Test(arguments: [
        "/", "/index.html", "/settings", "/settings/", "/a/b/c", "/assets", "/assets/", "/?a=b", "/clients",
        "/clients/x",
    ])
    func `responds to a navigation with the index page, a token, the bridge and a cookie`(target: String) async throws {
        let fixture = try await Fixture()
        let answer = try fixture.ask(target, navigation)
        #expect(answer.status == 200)
        #expect(answer.text == Self.document)
        #expect(answer["Content-Type"] == "text/html; charset=utf-8")
        #expect(answer["Cache-Control"] == "no-cache")
        #expect(answer["ETag"]?.hasPrefix("\"sha256-") == true)
        #expect(answer["Set-Cookie"] == "clientctl-\(fixture.server.port)=page-1; Path=/; HttpOnly; SameSite=Strict")
        #expect(fixture.host.with { $0.pages.count } == 1)
        expectCommonFields(answer)
    }

    @Test(arguments: [
        ["Accept: text/html"], ["Accept: */*, TEXT/html;q=0.5"], ["Sec-Fetch-Mode: navigate"],
        ["Sec-Fetch-Dest: document"],
    ])
    func `recognizes a navigation by its Accept field or its Fetch Metadata`(fields: [String]) async throws {
        let fixture = try await Fixture()
        #expect(try fixture.ask("/settings", fields).text == Self.document)
    }

    @Test(arguments: [("/", []), ("/", ["Accept: */*"]), ("/index.html", []), ("/", ["Accept: application/json"])])
    func `serves the index page at its own path without an Accept field`(target: String, fields: [String]) async throws
    {
        let fixture = try await Fixture()
        #expect(try fixture.ask(target, fields).text == Self.document)
        #expect(fixture.host.with { $0.pages.count } == 1)
    }

    @Test(arguments: [
        (["Accept: */*"], "/settings", 404), (["Accept: text/htmlx"], "/settings", 404),
        (["Accept: application/json"], "/a/b", 404),
        ([], "/settings", 404), (["Accept: text/html"], "/missing.js", 404),
        (["Accept: text/html"], "/a/missing.css", 404),
        (["Accept: text/html"], "/a/.hidden", 404), (["Accept: text/html"], "/__clientctl/", 404),
        (navigation, "/__clientctl/", 404), (navigation, "/__clientctl/users/jane.doe", 404),
        (navigation, "/favicon.ico", 404),
        (navigation, "/__cordova/b.js", 404), (navigation, "/__cordova", 404),
    ])
    func `does not treat other requests as navigations`(fields: [String], target: String, status: Int) async throws {
        let fixture = try await Fixture()
        let answer = try fixture.ask(target, fields)
        #expect(answer.status == status)
        #expect(answer["Content-Type"] == "text/plain; charset=utf-8")
        #expect(answer["Set-Cookie"] == nil)
        #expect(answer.text == "Not Found\n")
        #expect(fixture.host.with { $0.pages.isEmpty })
    }

    @Test(arguments: [
        "/users/jane.doe", "/docs/v1.2", "/map/@51.5,-0.12", "/project/group%2Fname", "/search/100%", "/a//b",
        "/search/caf%E9", "/__admin", "/__data", "/clients/jane.doe/orders", "/a/..%2fb?q=%",
    ])
    func `shows the index page at any address of the application in a window, and logs unusual ones`(
        target: String
    ) async throws {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture { $0.environment.log = { line in said.withLock { $0.append(line) } } }
        for _ in 0..<2 {
            let answer = try fixture.ask(target, navigation)
            #expect(answer.status == 200)
            #expect(answer.text.hasSuffix("</head>app</html>"))
            #expect(answer["Set-Cookie"] != nil)
        }
        #expect(fixture.host.with { $0.pages.count } == 2)
        // A resource at that address is not a page.
        for kind in ["script", "image", "empty"] {
            let answer = try fixture.ask(target, ["Accept: */*", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: \(kind)"])
            #expect([400, 404].contains(answer.status))
        }
        let isOdd = target.contains("//") || target.wholeMatch(of: /[a-zA-Z_\/]+/) == nil
        #expect(said.withLock { $0.count } == (isOdd && !target.hasSuffix("orders") ? 1 : 0), "\(said.withLock { $0 })")
    }

    @Test func `serves a file whose name resembles a reserved path, and none below __clientctl`() async throws {
        let fixture = try await Fixture()
        let files = [
            "__data.json": Array("{}".utf8), "__app/chunk.js": Array("1".utf8), "__clientctl/x.js": Array("2".utf8),
        ]
        let site = try Site(root: try .open(try fixture.folder.writeTree(files, to: "odd")), index: Fixture.index)
        fixture.host.with { $0.current = site }
        #expect(try fixture.ask("/__data.json").text == "{}")
        #expect(try fixture.ask("/__data.json", navigation).text == "{}")
        #expect(try fixture.ask("/__app/chunk.js").text == "1")
        #expect(try fixture.ask("/__clientctl/x.js").status == 404)
    }

    @Test(arguments: [
        ("HEAD", "/", navigation), ("GET", "/", ["Accept: */*", "Sec-Fetch-Mode: no-cors"]),
        ("GET", "/", navigation + ["Sec-Purpose: prefetch"]),
        ("HEAD", "/settings", navigation),
        ("GET", "/", ["Accept: text/html", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"]),
        ("GET", "/settings", ["Accept: text/html", "Sec-Fetch-Mode: cors"]),
        ("GET", "/", ["Accept: text/html", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]),
    ])
    func `sends no token with a response that is not shown as a client`(
        method: String, target: String, fields: [String]
    ) async throws {
        let fixture = try await Fixture()
        let answer = try fixture.ask(target, method: method, fields)
        #expect(answer.status == 200)
        #expect(answer.text == (method == "HEAD" ? "" : Self.bare))
        #expect(answer["Content-Length"] == "\(Self.bare.utf8.count)")
        #expect(answer["Content-Security-Policy"] != nil)
        #expect(answer["Set-Cookie"] == nil)
        #expect(fixture.host.with { $0.pages.isEmpty })
    }

    @Test func `serves a file to a navigation`() async throws {
        let fixture = try await Fixture()
        #expect(try fixture.ask("/plain", navigation).text == "no extension")
        #expect(fixture.host.with { $0.pages.isEmpty })
    }

    private static let start =
        #"<meta name="clientctl-token" content="token-1" data-ended=""><script>bridge()</script>"#

    @Test(arguments: [
        ("/sub/", navigation, "<p>nested</p>"), ("/sub/index.html", ["Accept: text/html"], "<p>nested</p>"),
        ("/page.html?a=b", ["Sec-Fetch-Mode: navigate"], "<script>page()</script>"),
    ])
    func `launches the client at any of its pages`(target: String, fields: [String], page: String) async throws {
        let fixture = try await Fixture()
        let answer = try fixture.ask(target, fields + ["Range: bytes=0-1"])
        #expect(answer.status == 200)
        #expect(answer.text == Self.start + page)
        #expect(answer["Set-Cookie"]?.contains("=page-1;") == true)
        #expect(answer["Content-Security-Policy"]?.contains("'sha256-bridge='") == true)
        let again = try fixture.ask(target, fields + ["If-None-Match: \(answer["ETag"] ?? "")"])
        #expect(again.text == answer.text.replacing("token-1", with: "token-2"))
    }

    @Test(arguments: [
        ("GET", []), ("GET", ["Accept: */*"]), ("HEAD", navigation), ("GET", navigation + ["Sec-Purpose: prefetch"]),
        ("GET", ["Accept: text/html", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"]),
        ("GET", ["Accept: text/html", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]),
    ])
    func `serves a page without a launch to requests that do not show it`(method: String, fields: [String]) async throws
    {
        let fixture = try await Fixture()
        let answer = try fixture.ask("/page.html", method: method, fields)
        #expect(answer.text == (method == "HEAD" ? "" : "<script>page()</script>"))
        #expect(answer["Set-Cookie"] == nil)
        #expect(fixture.host.with { $0.pages.isEmpty })
    }

    @Test func `redirects a page that the launched client lacks to its start, unless the user follows a link of it`()
        async throws
    {
        let fixture = try await Fixture()
        let without = try fixture.anotherSite("other")
        fixture.host.with { $0.nextPage = Page(id: "next", token: "t", site: without) }
        for target in ["/page.html", "/none.html"] {
            let answer = try fixture.ask(target, navigation)
            #expect(answer.status == 303)
            #expect(answer["Location"] == "/")
        }
        let cookie = "Cookie: clientctl-\(fixture.server.port)=next"
        #expect(try fixture.ask("/none.html", navigation + [cookie]).status == 404)
        #expect(try fixture.ask("/", navigation + [cookie]).text.contains("other"))
    }

    @Test func `serves a page in UTF-16 or XML as a file`() async throws {
        let fixture = try await Fixture()
        let files: [String: [UInt8]] = ["wide.html": [0xFF, 0xFE, 0x61, 0], "a.xhtml": Array("<html/>".utf8)]
        let site = try Site(root: try .open(try fixture.folder.writeTree(files, to: "odd")), index: Fixture.index)
        fixture.host.with { $0.current = site }
        for (name, bytes) in files { #expect(try fixture.ask("/\(name)", navigation).body == bytes) }
        #expect(fixture.host.with { $0.pages.isEmpty })
    }

    @Test func `launches a page that is too large for the cache`() async throws {
        let fixture = try await Fixture()
        let text = "<!doctype html><script>large()</script>" + "<p>" + String(repeating: "text", count: 1_100_000)
        let site = try Site(
            root: try .open(try fixture.folder.writeTree(["large.html": Array(text.utf8)], to: "l")),
            index: Fixture.index)
        fixture.host.with { $0.current = site }
        let answer = try fixture.ask("/large.html", navigation)
        #expect(answer.text == text.replacing("html><s", with: "html>\(Self.start)<s"))
        #expect(answer["Content-Security-Policy"]?.contains(" 'sha256-bridge=' 'sha256-") == true)
    }

    @Test func `sends a new token with each launch, and 304 only if the page is unchanged`() async throws {
        let fixture = try await Fixture()
        let first = try fixture.ask("/", navigation)
        let tag = try #require(first["ETag"])
        let second = try fixture.ask("/", navigation + ["If-None-Match: \(tag)"])
        #expect(second.status == 200)
        #expect(second.text.contains("token-2"))
        let page = Page(id: "same", token: "token-1", site: fixture.host.with { $0.current })
        fixture.host.with { $0.nextPage = page }
        let third = try fixture.ask("/", navigation + ["If-None-Match: \(tag)"])
        #expect(third.status == 304)
        #expect(third["Set-Cookie"]?.contains("=same;") == true)
    }

    @Test func `reports no details of a failed navigation`() async throws {
        let fixture = try await Fixture()
        fixture.host.with { $0.pageFails = true }
        let answer = try fixture.ask("/", navigation)
        #expect(answer.status == 500)
        #expect(answer.text == "Internal Server Error\n")
        expectCommonFields(answer)
    }

    @Test(arguments: [("", "b"), ("a", ""), ("a;b", "b"), ("a", "b\"><script>"), ("a\r\nb", "b"), ("a", "ü")])
    func `rejects an ID or token with special characters`(id: String, token: String) async throws {
        let fixture = try await Fixture()
        let page = Page(id: id, token: token, site: fixture.host.with { $0.current })
        fixture.host.with { $0.nextPage = page }
        #expect(try fixture.ask("/", navigation).status == 500)
    }
}

@Suite(.ownThread) struct VersionListTests {
    @Test func `lists versions and serves them without a token and the bridge`() async throws {
        let fixture = try await Fixture()
        let other = try fixture.anotherSite("other")
        fixture.host.with { $0.versions = ["v1.5.1": other, "embedded": $0.current] }
        let list = try fixture.ask("/clients/")
        #expect(list.text == "{\"versions\":[\"embedded\",\"v1.5.1\"]}")
        #expect(list["Content-Type"] == "application/json; charset=utf-8")
        expectCommonFields(list)
        for target in ["/clients/v1.5.1/", "/clients/v1.5.1/index.html", "/clients/v1.5.1/settings"] {
            let answer = try fixture.ask(target, navigation)
            #expect(answer.text == "<html>other</html>")
            #expect(answer["Set-Cookie"] == nil)
        }
        #expect(try fixture.ask("/clients/v1.5.1/app.js").text == "let a = 'other';")
        #expect(try fixture.ask("/clients/embedded/app.js").text == "let a = 1;\n")
        #expect(try fixture.ask("/clients/embedded/missing.js").status == 404)
        #expect(try fixture.ask("/clients/v9.9.9/", navigation).status == 404)
        #expect(try fixture.ask("/clients/v0.0.1-broken/").status == 500)
        #expect(fixture.host.with { $0.pages.isEmpty })
        // A name that no client has is an address of the application.
        #expect(try fixture.ask("/clients/anne/orders", ["Accept: text/html"]).text.hasSuffix("app</html>"))
        #expect(fixture.host.with { $0.pages.count } == 1)
    }
}

@Suite(.ownThread) struct PageResourceTests {
    @Test func `serves resources of the version that the cookie names`() async throws {
        let fixture = try await Fixture()
        let cookie = try #require(try fixture.ask("/", navigation)["Set-Cookie"]?.split(separator: ";").first)
        let other = try fixture.anotherSite("other")
        fixture.host.with { $0.current = other }
        #expect(try fixture.ask("/app.js").text == "let a = 'other';")
        #expect(try fixture.ask("/app.js", ["Cookie: \(cookie)"]).text == "let a = 1;\n")
        #expect(try fixture.ask("/app.js", ["Cookie: a=b; \(cookie);c=d"]).text == "let a = 1;\n")
        #expect(try fixture.ask("/app.js", ["Cookie: x\(cookie)"]).text == "let a = 'other';")
        #expect(try fixture.ask("/app.js", ["Cookie: clientctl-1=page-1"]).text == "let a = 'other';")
        #expect(try fixture.ask("/app.js", ["Cookie: \(cookie)0"]).text == "let a = 'other';")
        #expect(try fixture.ask("/", navigation + ["Cookie: \(cookie)"]).text.hasPrefix("<html>other"))
    }

    @Test func `serves resources of the connection's last version to clients without cookies`() async throws {
        let fixture = try await Fixture()
        let connection = try fixture.connect()
        func get(_ target: String, _ fields: [String] = []) throws -> String {
            connection.send(fixture.request(target, fields))
            return try connection.receiveAnswer().text
        }
        #expect(try get("/", navigation).contains("token-1"))
        let other = try fixture.anotherSite("other")
        fixture.host.with { $0.current = other }
        #expect(try get("/app.js") == "let a = 1;\n")
        #expect(try fixture.ask("/app.js").text == "let a = 'other';")
        // The cookie takes precedence.
        #expect(try fixture.ask("/", navigation)["Set-Cookie"]?.contains("page-2") == true)
        #expect(try get("/app.js", ["Cookie: clientctl-\(fixture.server.port)=page-2"]) == "let a = 'other';")
        #expect(try get("/app.js") == "let a = 1;\n")
        #expect(try get("/", navigation).hasPrefix("<html>other"))
        #expect(try get("/app.js") == "let a = 'other';")
    }

    @Test func `does not serve a version of a connection that must no longer be shown`() async throws {
        let fixture = try await Fixture()
        let connection = try fixture.connect()
        func get(_ target: String, _ fields: [String] = []) throws -> String {
            connection.send(fixture.request(target, fields))
            return try connection.receiveAnswer().text
        }
        #expect(try get("/", navigation).contains("token-1"))
        let other = try fixture.anotherSite("other")
        fixture.host.with { $0.current = other }
        #expect(try get("/app.js") == "let a = 1;\n")
        fixture.host.with { $0.generation += 1 }
        #expect(try get("/app.js") == "let a = 'other';")
    }

    @Test func `serves a file completely from one version`() async throws {
        let fixture = try await Fixture()
        let bytes = noise(8_000_000)
        let folder = try fixture.folder.writeTree(["large.bin": bytes], to: "big")
        let big = try Site(root: try .open(folder), index: Fixture.index)
        fixture.host.with { $0.current = big }
        let connection = try fixture.connect()
        connection.send(fixture.request("/large.bin"))
        let start = try connection.receive(upTo: "\r\n\r\n")
        let other = try fixture.anotherSite("other")
        fixture.host.with { $0.current = other }
        #expect(try fixture.ask("/large.bin").body.count == 300_000)
        #expect(String(decoding: start, as: UTF8.self).contains("Content-Length: 8000000\r\n"))
        #expect(try connection.receive(exactly: bytes.count) == bytes)
    }
}
