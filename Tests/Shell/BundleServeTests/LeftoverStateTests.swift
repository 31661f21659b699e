import BundleCore
@testable import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

/// The state of a browser that an earlier client or server has left, and that would affect later clients.
@Suite(.ownThread) struct LeftoverStateTests {
    @Test(arguments: ["/app.js", "/sw.js", "/gone/worker.js?v=1", "/", "/%ff"])
    func `responds to every service worker with a script that unregisters it`(target: String) async throws {
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

    @Test func `deletes cookies that exceed the size of a head`() async throws {
        let fixture = try await Fixture()
        let answer = try fixture.ask("/", navigation + ["Cookie: a=" + String(repeating: "x", count: 9000)])
        #expect(answer.status == 431)
        #expect(answer["Clear-Site-Data"] == "\"cookies\"")
        #expect(answer["Refresh"] == "1")
        #expect(try fixture.ask("/gone.js")["Clear-Site-Data"] == nil)
    }
}

@Suite struct PageBridgeScriptTests {
    @Test(arguments: ["electron", "my-kiosk2"]) func `names a Capacitor platform before the plugin`(name: String) throws
    {
        let platform = try #require(CapacitorPlatform(name))
        let bridge = try ServerConfiguration.Bridge.page(platform: platform)
        let start = "window.CapacitorCustomPlatform = { name: '\(name)', plugins: {} }; (function () {"
        #expect(bridge.script.starts(with: Array(start.utf8)))
    }

    @Test(arguments: ["", "Electron", "a b", "a'", "1a", String(repeating: "a", count: 33)])
    func `rejects a platform that is not a short lower-case name`(name: String) {
        #expect(CapacitorPlatform(name) == nil)
    }

    @Test func `includes the shim, which a policy in the page could block`() throws {
        let bridge = try ServerConfiguration.Bridge.page()
        #expect(bridge.script.suffix(ShimInjector.shim.count).elementsEqual(ShimInjector.shim))
        #expect(bridge.scriptSource == (try ScriptSource.expression(for: bridge.script[...])))
    }

    @Test func `has one line, so line numbers of the page are unchanged`() throws {
        #expect(try !ServerConfiguration.Bridge.page().script.contains(UInt8(ascii: "\n")))
        let script = Array("// a\nif (b) {\n  // c\n  d();\n}\n".utf8)
        #expect(ShimInjector.onOneLine(script) == Array("if (b) { d(); }".utf8))
    }

    @Test func `adds at most 4 KiB for the plugins of phones`() {
        #expect(ShimInjector.onOneLine(PackageResources.page_capacitor_js).count <= 4096)
    }

    @Test(arguments: [
        "<!doctype html><head><title>a</title></head><p>", "<head><script nonce=n>a()</script></head>", "no head",
        "<body><p></body>",
    ])
    func `removes the shim from a page of a serving root`(page: String) {
        let page = Array(page.utf8)
        let shimmed = ShimInjector.inject(into: page)
        #expect(shimmed != page)
        #expect(ShimInjector.remove(from: shimmed) == page)
        #expect(ShimInjector.remove(from: page) == page)
    }
}
