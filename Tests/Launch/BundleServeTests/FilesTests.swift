import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct `A client's files` {
    @Test(arguments: [
        ("/app.js", "let a = 1;\n", "text/javascript; charset=utf-8", "no-cache"),
        ("/app.js?v=1", "let a = 1;\n", "text/javascript; charset=utf-8", "no-cache"),
        ("/%61pp.js", "let a = 1;\n", "text/javascript; charset=utf-8", "no-cache"),
        ("/assets/style.css", "a{}", "text/css; charset=utf-8", "no-cache"),
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
