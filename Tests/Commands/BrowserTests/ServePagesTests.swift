import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Testing

/// The content that pages of `clientctl serve` may load and run, and the responses of its addresses.
@Suite(.ownThread, .needsBrowser) struct ServePagesTests {
    let browser: Browser
    let kiosk: Kiosk

    init() throws {
        browser = try Browser.forAllTests()
        kiosk = try Kiosk()
    }

    private func violations(_ page: BrowserPage) -> [String] {
        page.console.map(\.text).filter { $0.contains("Content Security Policy") }
    }

    /// A script that runs later in the page itself, because scripts of the debugger bypass the policy.
    private static let runningMore = """
        setTimeout(() => {
        document.body.insertAdjacentHTML('beforeend', '<img src="/none.png" onerror="window.handled = 1">');
        var element = document.createElement('script');
        element.textContent = 'window.added = 1';
        document.body.append(element);
        try { window.evaluated = eval('1 + 1') } catch (error) { window.evaluated = error.name }
        }, 0); null
        """

    @Test func `a page runs a build whose files exist only compressed`() throws {
        var client = DemoClient("1.0.0")
        client.script = """
            WebAssembly.instantiateStreaming(fetch('/Build/game.wasm.br')).then(game => {
              if (game.instance.exports.f() === 42 && window.framework === 'loaded') { \(DemoClient.Scripts.confirm) }
            });

            """
        client.head = "<script src=/Build/game.framework.js.gz></script>"
        var files = client.files
        let wasm: [UInt8] = [
            0, 0x61, 0x73, 0x6D, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7F, 3, 2, 1, 0, 7, 5, 1, 1, 0x66, 0, 0, 0x0A, 6, 1,
            4, 0,
            0x41, 0x2A, 0x0B,
        ]
        // One block without compression (RFC 7932, section 9.2), and an empty last one.
        let head = (wasm.count - 1) << 4 | 1 << 20
        files["Build/game.wasm.br"] = (0..<3).map { UInt8(head >> (8 * $0) & 0xFF) } + wasm + [3]
        files["Build/game.loader.js"] = bytes("")
        let web = try kiosk.folder.writeTree(files, to: "unity")
        try kiosk.folder.write(bytes("window.framework = 'loaded';\n"), to: "unity/Build/game.framework.js")
        _ = try Program.run(["gzip", web + "/Build/game.framework.js"], environment: ["PATH": "/usr/bin:/bin"])
        try kiosk.publish(web, as: "1.0.0")
        try kiosk.install()
        let serving = try kiosk.serve(["--csp", "script-src 'wasm-unsafe-eval'"])
        let page = try browser.open(serving.root + "/")
        try page.wait(until: "window.confirmed")
        try kiosk.wait(until: "v1.0.0", is: "good")
    }

    @Test func `serve allows only the inline scripts of the page`() throws {
        var client = DemoClient.good("1.0.0")
        client.head = "<script>window.inline = 1</script><script type=module>window.module = 1</script>"
        try kiosk.install(client)
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try page.wait(until: "window.confirmed && window.inline && window.module")
        #expect(page.console == [])
        try page.evaluate(Self.runningMore)
        try page.wait(until: "window.evaluated")
        try page.wait(for: "two violations, besides the one of eval, which its caller catches") {
            violations($0).count >= 2
        }
        #expect(try page.evaluate("[window.handled, window.added, evaluated].join()").stringValue == ",,EvalError")
    }

    @Test func `serve extends the policy of pages by --csp`() throws {
        try kiosk.install(.good("1.0.0"))
        let policy = "connect-src https://api.example.com; script-src 'unsafe-eval'"
        let serving = try kiosk.serve(["--csp", policy])
        let header = try serving.ask("GET /", ["Accept": "text/html"])["Content-Security-Policy"] ?? ""
        let directives = header.split(separator: ";").map { $0.split(separator: " ") }
        #expect(directives.contains(["connect-src", "'self'", "https://api.example.com"]))
        #expect(directives.contains { $0.first == "script-src" && $0.contains("'unsafe-eval'") })
        let page = try browser.open(serving.root + "/")
        try page.evaluate(Self.runningMore)
        try page.wait(until: "window.evaluated")
        #expect(try page.evaluate("evaluated") == .integer(2))
        #expect(try page.evaluate("window.added === undefined") == .bool(true))
    }

    @Test func `serve logs missing and forbidden content of a page once with the flag that allows it`() throws {
        var client = DemoClient.good("1.0.0")
        client.head = "<base href=/><script src=/gone.js></script><script src=https://cdn.invalid/a.js></script>"
        client.more = ["other.html": "<!doctype html><script src=/gone.js></script><script src=app.js></script>"]
        try kiosk.install(client)
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/deep/link")
        try page.wait(until: "window.confirmed")
        try page.evaluate(Self.runningMore)
        for _ in 0..<2 { try page.evaluate("navigator.geolocation.getCurrentPosition(() => {}); null") }
        let wanted = [
            "v1.0.0: the page said: <script> could not load \(serving.root)/gone.js\n",
            "forbids https://cdn.invalid/a.js as script-src-elem",
            "--csp \"script-src https://cdn.invalid\" would allow it",
            "--csp \"script-src-attr 'unsafe-inline'\" would allow it",
            "--csp \"script-src 'unsafe-inline'\" would allow it",
            "--csp \"script-src 'unsafe-eval'\" would allow it",
            "--permissions \"geolocation=(self)\" would allow it",
        ]
        func count(_ text: String) throws -> Int { try serving.program.printed().errors.ranges(of: text).count }
        for text in wanted { try page.wait(for: text) { _ in (try? count(text)) ?? 0 > 0 } }
        try page.navigate(serving.root + "/other.html")
        try page.wait(until: "window.confirmed")
        try page.evaluate("setTimeout(() => { throw new Error('the last') }); null")
        try page.wait(for: "the last error") { _ in (try? count("the last")) ?? 0 > 0 }
        for text in wanted { #expect(try count(text) == 1, "\(text)") }
        #expect(!page.console.contains { $0.text.contains("base URI") })
    }

    @Test func `serve allows inline handlers by --csp and isolates pages by --cross-origin`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve([
            "--csp", "script-src 'unsafe-inline' 'unsafe-eval'", "--cross-origin", "isolated", "--permissions",
            "camera=(self)", "--permissions", "midi=(), microphone=(self)",
        ])
        let page = try browser.open(serving.root + "/")
        try page.wait(until: "window.confirmed")
        try page.evaluate(Self.runningMore)
        try page.wait(until: "window.handled && window.added && window.evaluated === 2")
        #expect(try page.evaluate("crossOriginIsolated && typeof SharedArrayBuffer").stringValue == "function")
        for (feature, isAllowed) in [("camera", true), ("microphone", true), ("midi", false), ("geolocation", false)] {
            let answer = try page.evaluate("document.featurePolicy.allowsFeature('\(feature)')")
            #expect(answer == .bool(isAllowed), "\(feature)")
        }
    }

    @Test(arguments: [
        "script-src 'nonce-c2VjcmV0' 'self'", "default-src 'self'",
        "default-src 'self'; script-src 'self' 'unsafe-eval'",
    ])
    func `a page with its own policy gets WebAppLocalServer`(policy: String) throws {
        var client = DemoClient.good("1.0.0")
        client.head = """
            <meta http-equiv=Content-Security-Policy content="\(policy)"><script nonce=c2VjcmV0>window.inline = 1</script>
            """
        try kiosk.install(client)
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try page.wait(until: "window.confirmed")
        #expect(try page.evaluate("!!window.inline") == .bool(policy.contains("nonce")))
        #expect(try kiosk.status(of: "v1.0.0").state == "good")
    }

    @Test func `serve allows the inline scripts of every page of a client`() throws {
        var client = DemoClient.good("1.0.0")
        client.more = [
            "help.html": "<!doctype html><script>window.help = 1</script>",
            "large.html": "<!doctype html><script>window.large = 1</script>"
                + String(repeating: "<p>x", count: 40_000),
        ]
        try kiosk.install(client)
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/help.html")
        #expect(try page.evaluate("window.help") == .integer(1))
        #expect(violations(page) == [])
        try page.navigate(serving.root + "/large.html")
        #expect(try page.evaluate("window.large") == .integer(1))
    }

    @Test func `a named start page is launched and rolled back, and redirects to / when it is missing`() throws {
        let pages = { (client: DemoClient) in
            [
                "kiosk.html": """
                <!doctype html><link rel=icon href=data:,><title>kiosk \(client.version)</title>\(client.head)
                <script src=/app.js></script>
                """
            ]
        }
        var (good, bad) = (
            DemoClient.good("1.0.0", atOnce: true), DemoClient.unseen("2.0.0", "throw new Error('broken');")
        )
        (good.more, bad.more) = (pages(good), pages(bad))
        try kiosk.install(good)
        let serving = try kiosk.serve(timeout: "\(BusyMachine.seconds(5))s")
        let page = try browser.open(serving.root + "/kiosk.html")
        try page.wait(until: "window.confirmed && document.title === 'kiosk 1.0.0'")
        #expect(page.console.isEmpty)
        try kiosk.install(bad)
        try page.wait(until: "document.title === 'kiosk 2.0.0' && document.readyState === 'complete'")
        try page.evaluate(DemoClient.Scripts.show + "null")
        try page.wait(until: "document.title === 'kiosk 1.0.0'")
        let failed = try kiosk.status(of: "v2.0.0")
        #expect(failed.state == "failed")
        #expect(failed.failures.first?["detail"]?.stringValue?.contains("Error: broken") == true)
        try kiosk.install(.good("3.0.0", atOnce: true))
        try page.wait(until: "window.confirmed && document.title === '3.0.0' && location.pathname === '/'")
    }

    @Test func `errors of inline scripts have the line of the file, and inserted scripts violate no policy`()
        throws
    {
        var client = DemoClient("1.0.0")
        client.more = [
            "index.html": """
            <!doctype html><html><head><meta charset=utf-8><link rel=icon href=data:,>
            <meta http-equiv=Content-Security-Policy content="script-src 'self' 'sha256-78YyGtqzJNvkiuiquBhq/vJv1WVE76EbUZJLW6sWy74='">
            <script src=/app.js></script>
            <script>
            fourth();
            </script></head></html>
            """
        ]
        client.script =
            "addEventListener('error', event => { window.failedAt = event.lineno });" + DemoClient.Scripts.confirm
        try kiosk.install(client)
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try page.wait(until: "window.confirmed && window.failedAt")
        #expect(try page.evaluate("failedAt") == .integer(5))
        #expect(try !serving.program.printed().errors.contains("forbids"))
        #expect(try serving.program.printed().errors.contains("\(serving.root)/:5)"))
    }

    @Test func `an address inside the application returns the page, and a missing file 404`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/some/route?a=b#c")
        try page.wait(until: "window.confirmed")
        #expect(page.console == [])
        #expect(try page.evaluate("fetch('/missing.js').then(answer => answer.status)") == .integer(404))
        #expect(try serving.ask("GET /missing.js", ["Accept": "text/html"]).status == 404)
        #expect(try serving.ask("GET /some/route", ["Accept": "*/*"]).status == 404)
    }

    @Test func `pages below /clients/ are shown without a launch and cannot confirm`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        let list = try browser.open(serving.root + "/clients/")
        #expect(
            try list.evaluate("document.body.innerText").stringValue?.contains(
                #"{"versions":["embedded","v1.0.0"]}"#)
                == true)
        for (name, shown) in [("v1.0.0", "1.0.0"), ("embedded", "embedded")] {
            let page = try browser.open(serving.root + "/clients/\(name)/")
            #expect(try page.evaluate("document.title").stringValue == shown)
            #expect(try page.evaluate("document.querySelector('meta[name=clientctl-token]')") == .null)
            #expect(
                try page.evaluate("typeof Capacitor + typeof WebAppLocalServer").stringValue == "undefinedundefined"
            )
            let confirming = """
                fetch('/__clientctl/v1/startupDidComplete', {
                  method: 'POST', headers: {'Content-Type': 'application/json', 'X-Client-Token': 'guessed'}, body: '{}'
                }).then(answer => answer.status)
                """
            #expect(try page.evaluate(confirming) == .integer(403))
            #expect(
                try page.evaluate("fetch('/').then(a => a.text()).then(t => t.includes('clientctl-token'))")
                    == .bool(false))
        }
        #expect(
            try browser.open(serving.root + "/clients/v9.9.9/").evaluate("document.body.innerText").stringValue?
                .contains("Not Found") == true)
        #expect(try kiosk.status()["launch"] == .null)
        #expect(try kiosk.status(of: "v1.0.0").state == "staged")
    }

    @Test(arguments: ["/clients/embedded", "/clients/v1.0.0"])
    func `the address of a version without a trailing slash redirects and launches nothing`(path: String) throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        let answer = try serving.ask("GET \(path)", ["Accept": "text/html"])
        #expect(answer.status == 308)
        #expect(answer["Location"] == path + "/")
        #expect(try kiosk.status()["launch"] == .null)
    }

    @Test func `a file with a digest in its name is served from the current release`() throws {
        func client(_ version: String) -> DemoClient {
            var client = DemoClient.good(version)
            client.head = "<script src='/js/64b7f0c2a1b2c3d4e5f60718.js'></script>"
            client.more = ["js/64b7f0c2a1b2c3d4e5f60718.js": "window.named = '\(version)';"]
            return client
        }
        try kiosk.install(client("1.0.0"))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try page.wait(until: "window.named === '1.0.0' && window.confirmed")
        try page.reload()
        try page.wait(until: "window.named === '1.0.0' && window.confirmed")
        try kiosk.install(client("2.0.0"))
        try page.wait(until: "window.version === '2.0.0' && window.named === '2.0.0'")
    }

    private static func script(_ text: String) -> Route {
        Route(Array(text.utf8)).with { $0.headers = [("Content-Type", "text/javascript")] }
    }

    @Test func `serve removes a service worker of another server on its port and shows the client`() throws {
        let worker = """
            addEventListener('install', event => {
              event.waitUntil(caches.open('a').then(cache => cache.addAll(['/', '/app.js'])).then(() => skipWaiting()));
            });
            addEventListener('activate', event => { event.waitUntil(clients.claim()); });
            addEventListener('fetch', event => {
              event.respondWith(caches.match(event.request).then(kept => kept || fetch(event.request)));
            });
            """
        let other = try LoopbackServer { request in
            switch request.target {
            case "/sw.js": Self.script(worker)
            case "/app.js": Self.script("window.version = 'other';")
            default: .html("<script src=/app.js></script><script>navigator.serviceWorker.register('/sw.js')</script>")
            }
        }
        let port = other.port
        // A worker cannot reload a page without a window.
        let page = try browser.open("http://127.0.0.1:\(port)/", inWindow: true)
        try page.wait(until: "window.version === 'other' && navigator.serviceWorker.controller")
        other.stop()
        try page.reload()
        try page.wait(until: "window.version === 'other'")

        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve(port: port)
        try page.reload()
        try page.wait(until: "window.version === '1.0.0' && window.confirmed")
        try page.wait(until: "navigator.serviceWorker.getRegistrations().then(found => found.length === 0)")
        #expect(try kiosk.status(of: "v1.0.0").failures.isEmpty)
        #expect(try serving.program.printed().errors.contains("the browser has the service worker /sw.js"))
    }

    @Test func `a client cannot register a service worker that keeps an old version`() throws {
        var client = DemoClient.good("1.0.0")
        client.script +=
            "navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready)"
            + ".then(() => note('worker', 'ready'), error => note('worker', error.name));"
        client.more = [
            "worker.js": """
            addEventListener('install', event => {
              event.waitUntil(caches.open('a').then(cache => cache.addAll(['/', '/app.js'])).then(() => skipWaiting()));
            });
            addEventListener('activate', event => { event.waitUntil(clients.claim()); });
            addEventListener('fetch', event => {
              event.respondWith(caches.match(event.request).then(kept => kept || fetch(event.request)));
            });
            """
        ]
        try kiosk.install(client)
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try page.wait(until: "window.confirmed && sessionStorage.worker")
        #expect(try page.evaluate("sessionStorage.worker").stringValue == "TypeError; ")
        try kiosk.install(.good("2.0.0"))
        try page.wait(until: "window.version === '2.0.0' && window.confirmed")
    }
}
