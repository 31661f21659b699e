import BundleCore
import BundleDisk
import BundleServe
import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@Suite(.ownThread) struct ClientFileTests {
    @Test(arguments: [
        ("<meta charset=ISO-8859-1>h\u{E9}", "iso-8859-1"), ("\u{FEFF}<meta charset=latin1>", "utf-8"),
        ("<meta http-equiv=Content-Type content='text/html; charset=Shift_JIS'>", "shift_jis"),
        ("<meta charset=utf-16>", "utf-8"), ("<!-- <meta charset=latin1> --><p>", "utf-8"),
        ("<meta charset='x\r\nA: b'>", "x"),
    ])
    func `sends HTML with its declared character set`(page: String, charset: String) async throws {
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
    func `redirects a folder with an index page to its slash`(target: String, location: String?) async throws {
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

    @Test(arguments: [
        "img/64b7f0c2a1b2c3d4e5f60718.svg", "\(String(repeating: "0a", count: 20)).js", "0123456789abcdef/app.js",
        "large.0123456789abcdef.bin",
    ])
    func `serves the files of the present release even if the earlier one has equal names, sizes and times`(
        name: String
    ) async throws {
        let fixture = try await Fixture()
        let size = name.hasPrefix("large") ? 100_000 : 100
        func show(_ byte: UInt8, _ release: String, knowsDigest: Bool = false) throws {
            let bytes = [UInt8](repeating: byte, count: size)
            let folder = try fixture.folder.writeTree([name: bytes], to: release)
            var dates = [timespec(tv_sec: 1_700_000_000, tv_nsec: 0), timespec(tv_sec: 1_700_000_000, tv_nsec: 0)]
            #expect(utimensat(AT_FDCWD, "\(folder)/\(name)", &dates, 0) == 0)
            let label = AssetLabels.Label(digest: knowsDigest ? try SHA256Digest.of(bytes) : nil)
            let site = try Site(
                root: try .open(folder), index: Fixture.index,
                labels: AssetLabels([try BundlePath(parsing: Array(name.utf8)): label]))
            fixture.host.with { $0.current = site }
        }
        for knowsDigest in [false, true] {
            try show(1, "a\(knowsDigest)", knowsDigest: knowsDigest)
            let first = try fixture.ask("/\(name)?1")
            #expect(first["Cache-Control"] == "no-cache")
            let condition = ["If-None-Match: \(try #require(first["ETag"]))"]
            #expect(try fixture.ask("/\(name)?1", condition).status == 304)
            try show(2, "b\(knowsDigest)", knowsDigest: knowsDigest)
            let second = try fixture.ask("/\(name)?1", condition)
            #expect(second.status == 200)
            #expect(second.body.first == 2)
            // A release that has the content of the first one costs no transfer.
            try show(1, "c\(knowsDigest)", knowsDigest: knowsDigest)
            let isKnown = knowsDigest || size < 1000
            #expect(try fixture.ask("/\(name)?1", condition).status == (isKnown ? 304 : 200))
        }
    }

    @Test func `sends a file only if If-Match matches it`() async throws {
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
        ("/assets/app.0123456789abcdef.js", "hashed", "text/javascript; charset=utf-8", "no-cache"),
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
    func `sends files with their media types`(target: String, body: String, type: String, caching: String) async throws
    {
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
