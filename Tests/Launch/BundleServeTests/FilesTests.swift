import BundleDisk
import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct `A client's files` {
    @Test(arguments: [
        ("<meta charset=ISO-8859-1>h\u{E9}", "iso-8859-1"), ("\u{FEFF}<meta charset=latin1>", "utf-8"),
        ("<meta http-equiv=Content-Type content='text/html; charset=Shift_JIS'>", "shift_jis"),
        ("<meta charset=utf-16>", "utf-8"), ("<!-- <meta charset=latin1> --><p>", "utf-8"),
        ("<meta charset='x\r\nA: b'>", "x"),
    ])
    func `of HTML are in the letters that they declare`(page: String, charset: String) async throws {
        let fixture = try await Fixture()
        let folder = try fixture.folder.writeTree(["old.html": Array(page.utf8)], to: "old")
        let site = try Site(root: try .open(folder), index: try IndexPage(cutting: Array(page.utf8)))
        fixture.host.with { $0.current = site }
        for (path, fields) in [("/old.html", []), ("/old.html", navigation), ("/", navigation)] {
            #expect(try fixture.ask(path, fields)["Content-Type"] == "text/html; charset=\(charset)")
        }
    }

    @Test(arguments: [
        ("/sub", "./sub/"), ("/sub?a=b/c", "./sub/?a=b/c"), ("/%73ub", "./sub/"), ("/a%20b:", "./a%20b%3A/"),
        ("/deep/er", "./er/"), ("/clients/v1.0.0/sub", "./sub/"), ("/sub/index.html", nil), ("/sub/", nil),
        ("/app.js", nil), ("/", nil),
    ])
    func `below a folder with a page are found from the folder's slash`(target: String, location: String?) async throws
    {
        let fixture = try await Fixture()
        let files = Fixture.files.merging(["a b:/index.html": [1], "deep/er/index.html": [2]]) { $1 }
        let site = try Site(root: try .open(try fixture.folder.writeTree(files, to: "folders")), index: Fixture.index)
        fixture.host.with {
            $0.current = site
            $0.versions["v1.0.0"] = site
        }
        for fields in [navigation, []] {
            let answer = try fixture.ask(target, fields)
            #expect(answer.status == (location == nil ? 200 : 308))
            #expect(answer["Location"] == location)
        }
    }

    @Test func `are sent only where they are those that If-Match means`() async throws {
        let fixture = try await Fixture()
        let tag = try fixture.ask("/app.js")["ETag"] ?? ""
        for (condition, status) in [("*", 200), (tag, 200), ("\"a\", \(tag)", 200), ("W/\(tag)", 412), ("\"a\"", 412)] {
            #expect(try fixture.ask("/app.js", ["If-Match: \(condition)"]).status == status)
        }
    }

    @Test(arguments: [
        ("/app.js", "let a = 1;\n", "text/javascript; charset=utf-8", "no-cache"),
        ("/app.js?v=1", "let a = 1;\n", "text/javascript; charset=utf-8", "no-cache"),
        ("/%61pp.js", "let a = 1;\n", "text/javascript; charset=utf-8", "no-cache"),
        ("/assets/style.css", "a{}", "text/css", "no-cache"),
        (
            "/assets/app.0123456789abcdef.js", "hashed", "text/javascript; charset=utf-8",
            "public, max-age=31536000, immutable"
        ),
        ("/plain", "no extension", "application/octet-stream", "no-cache"),
        ("/empty.txt", "", "text/plain; charset=utf-8", "no-cache"),
        ("/sub/index.html", "<p>nested</p>", "text/html; charset=utf-8", "no-cache"),
        ("/sub/", "<p>nested</p>", "text/html; charset=utf-8", "no-cache"),
        ("/%252e%252e%252fx.js", "escaped name", "text/javascript; charset=utf-8", "no-cache"),
        ("/-rf", "option", "application/octet-stream", "no-cache"),
        ("/%F0%9F%98%80.txt", "emoji", "text/plain; charset=utf-8", "no-cache"),
        ("/a%20b.txt", "blank", "text/plain; charset=utf-8", "no-cache"),
        ("/%C3%BC.txt", "umlaut", "text/plain; charset=utf-8", "no-cache"),
        ("/..x.txt", "dots", "text/plain; charset=utf-8", "no-cache"),
        ("/a..b.txt", "more dots", "text/plain; charset=utf-8", "no-cache"),
    ])
    func `are served with their type`(target: String, body: String, type: String, caching: String) async throws {
        let fixture = try await Fixture()
        let answer = try fixture.ask(target)
        #expect(answer.status == 200)
        #expect(answer.text == body)
        #expect(answer["Content-Type"] == type)
        #expect(answer["Cache-Control"] == caching)
        #expect(answer["Accept-Ranges"] == "bytes")
        #expect(answer["ETag"]?.hasPrefix("\"") == true)
        #expect((answer["Content-Security-Policy"] != nil) == type.hasPrefix("text/html"))
    }
}
