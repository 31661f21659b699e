import BundleCore
import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

/// What a client could leave in a browser, in the way of the one that follows it.
@Suite(.ownThread) struct `What would outlive a client` {
    @Test(arguments: ["/app.js", "/sw.js", "/gone/worker.js?v=1", "/", "/%ff"])
    func `is a service worker, whose script is always one that unregisters itself`(target: String) async throws {
        let fixture = try await Fixture()
        #expect(try fixture.ask("/app.js", ["Sec-Fetch-Dest: script"]).text == "let a = 1;\n")
        for field in ["Sec-Fetch-Dest: serviceworker", "Service-Worker: script"] {
            let answer = try fixture.ask(target, [field])
            #expect(answer.status == 200)
            #expect(answer["Content-Type"] == "text/javascript; charset=utf-8")
            #expect(answer["Cache-Control"] == "no-store")
            #expect(answer["Service-Worker-Allowed"] == "/")
            #expect(answer.text.contains("self.registration.unregister()"))
            #expect(!answer.text.contains("let a"))
        }
        #expect(fixture.host.with { $0.pages.isEmpty })
    }

    @Test func `is a flood of cookies, which is taken away`() async throws {
        let fixture = try await Fixture()
        let answer = try fixture.ask("/", navigation + ["Cookie: a=" + String(repeating: "x", count: 9000)])
        #expect(answer.status == 431)
        #expect(answer["Clear-Site-Data"] == "\"cookies\"")
        #expect(answer["Refresh"] == "1")
        #expect(try fixture.ask("/gone.js")["Clear-Site-Data"] == nil)
    }
}

@Suite struct `The script of the host` {
    @Test func `brings the shim, which a policy in the page's head could forbid`() throws {
        let bridge = try ServerConfiguration.Bridge.page()
        #expect(bridge.script.suffix(ShimInjector.shim.count).elementsEqual(ShimInjector.shim))
        #expect(bridge.scriptSource == (try ScriptSource.expression(for: bridge.script[...])))
    }

    @Test func `stands on one line, so the lines of the page keep their numbers`() throws {
        #expect(try !ServerConfiguration.Bridge.page().script.contains(UInt8(ascii: "\n")))
        let script = Array("// a\nif (b) {\n  // c\n  d();\n}\n".utf8)
        #expect(ShimInjector.onOneLine(script) == Array("if (b) { d(); }".utf8))
    }

    @Test(arguments: [
        "<!doctype html><head><title>a</title></head><p>", "<head><script nonce=n>a()</script></head>", "no head",
        "<body><p></body>",
    ])
    func `is without the shim that a serving root has in its page`(page: String) {
        let page = Array(page.utf8)
        let shimmed = ShimInjector.inject(into: page)
        #expect(shimmed != page)
        #expect(ShimInjector.remove(from: shimmed) == page)
        #expect(ShimInjector.remove(from: page) == page)
    }
}
