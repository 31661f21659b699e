import BundleValues
import Synchronization
import BundleDisk
import BundleFormats
import BundleServe
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct ContentSecurityPolicyTests {
    private static let rest = """
        default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; \
        connect-src 'self'; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; \
        frame-ancestors 'none'; script-src 'self' 'sha256-bridge='
        """

    @Test(arguments: [
        ("/", " 'sha256-inline='"), ("/settings", " 'sha256-inline='"), ("/index.html", " 'sha256-inline='"),
        ("/clients/v1.0.0/", " 'sha256-inline='"), ("/sub/", ""),
        ("/page.html", " 'sha256-piUNRj01n+hTo+pnthBY6P38CNukLgjZT+mSJ4I5u6U='"),
    ])
    func `is strict by default and separates its sources unambiguously`(target: String, scripts: String) async throws {
        let fixture = try await Fixture()
        fixture.host.with { $0.versions["v1.0.0"] = $0.current }
        for fields in [navigation, ["Accept: text/html", "If-None-Match: *"]] {
            #expect(try fixture.ask(target, fields)["Content-Security-Policy"] == Self.rest + scripts)
        }
    }

    @Test func `extends only the directives that the operator names`() async throws {
        let fixture = try await Fixture {
            $0.extraSources = [
                "script-src": ["'unsafe-eval'"], "connect-src": ["https://a.example", "wss://a.example"],
                "object-src": ["blob:"], "media-src": ["blob:"], "frame-ancestors": ["'self'"],
            ]
            $0.policies.permissions["camera"] = "(self)"
            $0.policies.isolation = .isolated
        }
        let answer = try fixture.ask("/", navigation)
        #expect(
            answer["Content-Security-Policy"] == """
                default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; \
                connect-src 'self' https://a.example wss://a.example; worker-src 'self' blob:; object-src blob:; \
                base-uri 'self'; form-action 'self'; frame-ancestors 'self'; media-src 'self' blob:; \
                script-src 'self' 'unsafe-eval' 'sha256-bridge=' 'sha256-inline='
                """)
        #expect(answer["X-Frame-Options"] == nil)
        #expect(answer["Permissions-Policy"] == "camera=(self), geolocation=(), microphone=()")
        for path in ["/", "/app.js"] {
            #expect(try fixture.ask(path)["Cross-Origin-Embedder-Policy"] == "require-corp")
            #expect(try fixture.ask(path)["Cross-Origin-Opener-Policy"] == "same-origin")
        }
    }

    @Test func `adds an operator's sources to the directives that replace others`() async throws {
        let fixture = try await Fixture {
            $0.extraSources = [
                "style-src-elem": ["https://a"], "style-src-attr": ["'unsafe-hashes'"], "script-src": ["https://b"],
                "script-src-elem": ["https://c"], "default-src": ["https://d"], "child-src": ["https://e"],
                "frame-src": ["https://f"],
            ]
        }
        let policy = try #require(try fixture.ask("/", navigation)["Content-Security-Policy"])
        for directive in [
            "style-src-elem 'self' 'unsafe-inline' https://a", "style-src-attr 'self' 'unsafe-inline' 'unsafe-hashes'",
            "script-src-elem 'self' https://b https://c 'sha256-bridge=' 'sha256-inline='",
            "child-src 'self' https://d https://e", "frame-src 'self' https://d https://e https://f",
        ] {
            #expect("; \(policy); ".contains("; \(directive); "), "\(policy)")
        }
    }

    @Test func `allows popups to refer to their opener with the isolation popups`() async throws {
        let fixture = try await Fixture { $0.policies.isolation = .popups }
        #expect(try fixture.ask("/", navigation)["Cross-Origin-Opener-Policy"] == "same-origin-allow-popups")
        #expect(try fixture.ask("/", navigation)["Cross-Origin-Embedder-Policy"] == nil)
    }

    @Test(arguments: [
        (["script-src": ["'unsafe-inline'"]], ["script-src 'self' 'unsafe-inline'"]),
        (
            ["script-src-attr": ["'unsafe-inline'"]],
            ["script-src-attr 'unsafe-inline'", "script-src 'self' 'sha256-bridge=' 'sha256-inline='"]
        ),
        (
            ["script-src-elem": ["https://a.example"]],
            [
                "script-src-elem 'self' https://a.example 'sha256-bridge=' 'sha256-inline='",
                "script-src 'self' 'sha256-bridge=' 'sha256-inline='",
            ]
        ),
    ])
    func `omits hashes if the operator allows inline scripts`(
        extra: [String: [String]], directives: [String]
    ) async throws {
        let fixture = try await Fixture { $0.extraSources = extra }
        let policy = try fixture.ask("/", navigation)["Content-Security-Policy"] ?? ""
        let found = policy.split(separator: ";").map { String($0.trimmingPrefix { $0 == " " }) }.filter {
            $0.hasPrefix("script-src")
        }
        #expect(found == directives)
    }

    @Test(arguments: [([:], 1), (["frame-ancestors": ["'self'"]], 0)])
    func `reports a blocked frame once, and nothing if framing is allowed`(extra: [String: [String]], count: Int)
        async throws
    {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture {
            $0.extraSources = extra
            $0.environment.log = { line in said.withLock { $0.append(line) } }
        }
        for kind in ["iframe", "embed", "document", "image"] {
            _ = try fixture.ask("/sub/index.html", ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Dest: \(kind)"])
        }
        let line =
            "a page shows /sub/index.html in a frame, which is refused: --csp \"frame-ancestors 'self'\" would allow it"
        #expect(said.withLock(\.self) == Array(repeating: line, count: count))
    }

    @Test func `reports a sandboxed frame without allow-same-origin once`() async throws {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture { $0.environment.log = { line in said.withLock { $0.append(line) } } }
        for _ in 0..<2 {
            let fields = [
                "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script",
            ]
            #expect(try fixture.ask("/app.js", fields).status == 403)
        }
        #expect(said.withLock { $0.count } == 1)
        #expect(said.withLock { $0.first?.contains("allow-same-origin") } == true)
    }

    @Test func `reports a replaced service worker once`() async throws {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture { $0.environment.log = { line in said.withLock { $0.append(line) } } }
        for _ in 0..<2 {
            let answer = try fixture.ask("/app.js", ["Sec-Fetch-Dest: serviceworker"])
            #expect(answer.status == 200)
        }
        #expect(
            said.withLock(\.self) == [
                "the browser has the service worker /app.js, or is about to register it: it is ended, because it would respond "
                    + "instead of the clients that follow"
            ])
    }

    @Test func `allows inline scripts that are too many for a header, and reports it once`() async throws {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture { $0.environment.log = { line in said.withLock { $0.append(line) } } }
        let page = (0..<6000).map { "<script>a(\($0))</script>" }.joined()
        let folder = try fixture.folder.writeTree(["many.html": Array(page.utf8)], to: "many")
        let site = try Site(root: try .open(folder), index: Fixture.index)
        fixture.host.with { $0.nextPage = Page(id: "p", token: "t", site: site) }
        for _ in 0..<2 {
            let policy = try fixture.ask("/many.html", navigation)["Content-Security-Policy"] ?? ""
            #expect(policy.hasSuffix("script-src 'self' 'unsafe-inline'"))
        }
        #expect(said.withLock { $0.count } == 1)
        #expect(said.withLock { $0.first?.contains("/many.html has 6000 inline scripts") } == true)
    }
}
