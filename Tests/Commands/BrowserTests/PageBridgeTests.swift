import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Testing

/// The plugin in pages of `clientctl serve`, against a server with scripted responses.
@Suite(.ownThread, .needsBrowser) struct PageBridgeTests {
    static let prefix = "/__clientctl/v1/"

    let browser: Browser
    let server: LoopbackServer
    let feed: Feed

    init() throws {
        browser = try Browser.forAllTests()
        feed = try Feed()
        server = try LoopbackServer([
            "/": .html("<meta name=clientctl-token content=token-1><script src=/bridge.js></script><p>page"),
            "/bridge.js": .bridge,
            Self.prefix + "events": Self.stream(feed), Self.prefix + "report": .json("{}"),
            Self.prefix + "visibility": .json("{}"), Self.prefix + "heard": .json("{}"),
        ])
    }

    private static func stream(_ feed: Feed) -> Route {
        Route().with {
            $0.headers = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")]
            $0.framing = .chunked
            $0.pace = .fed(feed)
        }
    }

    private func open(_ path: String = "/") throws -> BrowserPage {
        let page = try browser.open(server.root + path)
        try page.evaluate("window.plugin = Capacitor.Plugins.CapacitorMeteorWebApp; null")
        return page
    }

    /// Returns the messages of the page, without those about the WebSocket, which this server lacks.
    private func messages(_ page: BrowserPage) -> [ConsoleMessage] {
        page.console.filter { !$0.text.hasPrefix("WebSocket connection to") }
    }

    private func value(_ page: BrowserPage, _ expression: String) throws -> String {
        try page.evaluate("Promise.resolve(\(expression)).then(JSON.stringify)").stringValue ?? "undefined"
    }

    private func requests(_ method: String) -> [LoopbackServer.Request] {
        server.requests.filter { $0.path == Self.prefix + method }
    }

    private func body(_ request: LoopbackServer.Request?) throws -> JSONObject {
        let body = try #require(request?.body)
        return try #require(try JSONScanner.parse(body, maximumBytes: 1 << 16).objectValue)
    }

    @Test func `the page bridge works after its page returns from the browser's cache`() throws {
        let page = try open()
        let problem = try page.evaluate(
            """
            window.problem = 'none';
            window.addEventListener('error', event => { window.problem = event.message; });
            window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
            window.problem
            """)
        #expect(problem == .string("none"))
    }

    /// Counts the bytes that streams of the page have read, from the first document on.
    private static let counting = """
        <script>
        var received = 0, read = ReadableStreamDefaultReader.prototype.read;
        ReadableStreamDefaultReader.prototype.read = function () {
          return read.call(this).then(result => { received += result.value ? result.value.length : 0; return result; });
        };
        </script>
        """

    private func received(_ page: BrowserPage) throws -> Int { try page.evaluate("received").integerValue ?? 0 }

    /// Records every event in `window.seen`.
    private static let listening = """
        window.seen = [];
        for (const name of ['updateAvailable', 'error']) {
          plugin.addListener(name, event => { seen.push([name, event]) });
        }
        null
        """

    @Test(arguments: [
        ("checkForUpdates", "{}"), ("startupDidComplete", "{}"), ("getCurrentVersion", #"{"version":"1.2.3"}"#),
        ("isUpdateAvailable", #"{"available":true}"#),
    ])
    func `the page bridge sends a call with its token and returns the response`(method: String, answer: String) throws {
        server.set(Self.prefix + method, .json(answer))
        let page = try open()
        #expect(try value(page, "plugin.\(method)()") == answer)
        let request = try #require(requests(method).first)
        #expect(request.method == "POST")
        #expect(request["X-Client-Token"] == "token-1")
        #expect(request["Content-Type"] == "application/json")
        #expect(request.body == bytes("{}"))
        #expect(request["Origin"] == server.root)
        #expect(page.loads == 1)
    }

    @Test func `the page bridge sends its token to its own server whatever the page's base is`() throws {
        server.set(
            "/",
            .html(
                "<base href='http://elsewhere.invalid/'><meta name=clientctl-token content=t><script src='\(server.root)/bridge.js'></script>"
            ))
        server.set(Self.prefix + "getCurrentVersion", .json("{}"))
        let page = try open()
        #expect(try value(page, "plugin.getCurrentVersion()") == "{}")
        #expect(page.requests.allSatisfy { $0.url.hasPrefix(server.root) })
    }

    @Test func `the page bridge rejects with the error's code and message, or with the status`() throws {
        server.set(
            Self.prefix + "checkForUpdates",
            .json(#"{"error":{"code":"networkUnavailable","message":"no answer from the server"}}"#, status: 409))
        server.set(Self.prefix + "getCurrentVersion", Route(bytes("<html>"), status: 502))
        let page = try open()
        let describe = "e => [e instanceof Error, e.code, e.message]"
        #expect(
            try value(page, "plugin.checkForUpdates().catch(\(describe))")
                == #"[true,"networkUnavailable","no answer from the server"]"#)
        #expect(try value(page, "plugin.getCurrentVersion().catch(\(describe))").contains("502"))
        server.stop()
        #expect(try value(page, "plugin.getCurrentVersion().catch(e => e instanceof Error)") == "true")
    }

    @Test func `the page bridge delivers events for any split of the stream`() throws {
        server.set(
            "/", .html(Self.counting + "<meta name=clientctl-token content=token-1><script src=/bridge.js></script>"))
        let page = try open()
        try page.evaluate(Self.listening)
        #expect(server.wait(for: Self.prefix + "events"))
        #expect(requests("events").first?.method == "GET")
        #expect(requests("events").first?["X-Client-Token"] == "token-1")
        feed.send(": hello\n\nevent: updateAvailable\ndata: {\"version\":\"1.0.0\"}\n\n")
        try page.wait(until: "seen.length === 1")
        // Two events in one piece with other line ends and without the space, then one event byte by byte with letters
        // of several bytes.
        feed.send(
            "event:updateAvailable\r\ndata:{\"version\":\r\ndata:\"1.0.1\"}\r\n\r\nid: 7\revent: error\rdata: {\"message\":\"a\"}\r\r"
        )
        try page.wait(until: "seen.length === 3")
        let before = try received(page)
        let split = bytes("event: error\r\ndata: {\"message\":\"\u{E4}\u{1F600}\"}\r\n\r\n")
        for (number, byte) in split.enumerated() {
            feed.send([byte])
            // Bytes sent in quick succession arrive as one piece. Inside a letter they must arrive apart.
            if byte >= 0xC0 { try page.wait(for: "byte \(number) is read") { try received($0) > before + number } }
        }
        try page.wait(until: "seen.length === 4")
        feed.send(
            "event: other\ndata: {}\n\nevent: error\n\ndata: {}\n\nevent: error\ndata: {\"message\":\"last\"}\n\n")
        try page.wait(until: "seen.length === 5")
        #expect(
            try value(page, "seen")
                == #"[["updateAvailable",{"version":"1.0.0"}],["updateAvailable",{"version":"1.0.1"}],"#
                + #"["error",{"message":"a"}],["error",{"message":"\#u{E4}\#u{1F600}"}],["error",{"message":"last"}]]"#)
        #expect(requests("events").count == 1)
        #expect(messages(page) == [])
    }

    @Test func `the page bridge keeps an update until a listener is added, and delivers it once`() throws {
        let page = try open()
        feed.send("event: updateAvailable\ndata: {\"version\":\"1.0.0\"}\n\n")
        feed.send("event: updateAvailable\ndata: {\"version\":\"1.0.1\"}\n\n")
        // The next event in the same stream shows that both updates have arrived.
        try page.evaluate("plugin.addListener('error', () => { window.reached = true }); null")
        feed.send("event: error\ndata: {\"message\":\"\"}\n\n")
        try page.wait(until: "window.reached")
        try page.evaluate(Self.listening)
        try page.wait(until: "seen.length > 0")
        try page.evaluate("plugin.addListener('updateAvailable', e => { seen.push(e) }); null")
        #expect(try value(page, "seen") == #"[["updateAvailable",{"version":"1.0.1"}]]"#)
    }

    @Test func `the page bridge keeps errors until a listener is added, and acknowledges them then`() throws {
        let page = try open()
        let error = { (id: Int) in "id: \(id)\nevent: error\ndata: {\"message\":\"\(id)\"}\n\n" }
        feed.send(error(1) + error(1) + error(2))
        // The next event in the same stream shows that all errors have arrived.
        try page.evaluate("plugin.addListener('updateAvailable', () => { window.reached = true }); null")
        feed.send("event: updateAvailable\ndata: {\"version\":\"1.0.0\"}\n\n")
        try page.wait(until: "window.reached")
        #expect(requests("heard").isEmpty)
        try page.evaluate(Self.listening)
        try page.wait(until: "seen.length === 2")
        try page.wait(for: "the acknowledgement") { _ in requests("heard").count == 2 }
        feed.send(error(3))
        try page.wait(until: "seen.length === 3")
        #expect(try value(page, "seen.map(s => s[1].message)") == #"["1","2","3"]"#)
    }

    @Test func `the page bridge acknowledges errors and delivers a repeated one once`() throws {
        let page = try open()
        try page.evaluate(Self.listening)
        let first = "id: 1\nevent: error\ndata: {\"message\":\"one\"}\n\n"
        feed.send(first + first + "id: 2\nevent: error\ndata: {\"message\":\"two\"}\n\n")
        try page.wait(until: "seen.length === 2")
        try page.wait(for: "the acknowledgement") { _ in requests("heard").count == 3 }
        #expect(try value(page, "seen.map(s => s[1].message)") == #"["one","two"]"#)
        #expect(try requests("heard").map(body).compactMap { $0["id"]?.integerValue }.sorted() == [1, 1, 2])
        #expect(requests("heard").allSatisfy { $0["X-Client-Token"] == "token-1" })
    }

    @Test func `the page bridge skips removed listeners and continues after one that throws`() throws {
        let page = try open()
        try page.evaluate("plugin.addListener('error', () => { throw new Error('mine') }); null")
        try page.evaluate(
            "window.all = 0; plugin.addListener('error', () => { all += 1 }).then(h => { window.handle = h }); null")
        try page.evaluate(Self.listening)
        try page.wait(until: "window.handle")
        feed.send("event: error\ndata: {\"message\":\"1\"}\n\n")
        try page.wait(until: "seen.length === 1 && all === 1")
        try page.wait(for: "the error is uncaught") { $0.console.contains { $0.text.contains("Error: mine") } }
        try page.evaluate("handle.remove().then(() => null)")
        feed.send("event: error\ndata: {\"message\":\"2\"}\n\n")
        try page.wait(until: "seen.length === 2")
        #expect(try value(page, "all") == "1")
        try page.evaluate(
            "plugin.removeAllListeners().then(() => plugin.addListener('error', () => { all += 10 })).then(() => null)")
        feed.send("event: error\ndata: {\"message\":\"3\"}\n\n")
        try page.wait(until: "all === 11")
        #expect(try value(page, "seen.length") == "2")
    }

    @Test(arguments: ["/", "/#part", "/?a=b"]) func `the page bridge reloads its page on a reload event`(path: String)
        throws
    {
        server.set("/?a=b", .html("<meta name=clientctl-token content=token-1><script src=/bridge.js></script>"))
        let page = try open(path)
        #expect(server.wait(for: Self.prefix + "events"))
        server.set(Self.prefix + "events", Self.stream(try Feed()))
        feed.send("event: reload\ndata: {}\n\n")
        try page.wait(for: "it is loaded again") { $0.loads == 2 }
        #expect(try page.evaluate("location.href").stringValue == server.root + path)
    }

    @Test func `the page bridge reloads only after the server accepts the call`() throws {
        server.set(
            Self.prefix + "reload", .json(#"{"error":{"code":"noPendingVersion","message":"none"}}"#, status: 409))
        let page = try open()
        #expect(try value(page, "plugin.reload().catch(e => e.code)") == "\"noPendingVersion\"")
        #expect(page.loads == 1)
        server.set(Self.prefix + "reload", .json("{}"))
        server.set(Self.prefix + "events", Self.stream(try Feed()))
        try page.evaluate("plugin.reload(); null")
        try page.wait(for: "it is loaded again") { $0.loads == 2 }
        #expect(requests("reload").count == 2)
    }

    @Test func `the page bridge reloads for a stale launch once in ten seconds`() throws {
        server.set(
            Self.prefix + "getCurrentVersion", .json(#"{"error":{"code":"staleLaunch","message":"over"}}"#, status: 403)
        )
        server.set(Self.prefix + "events", Self.stream(try Feed()))
        // The page's clock is fixed, because the following steps may take longer than ten seconds.
        server.set(
            "/",
            .html(
                "<meta name=clientctl-token content=token-1><script>Date.now = () => 1e12</script>"
                    + "<script src=/bridge.js></script>"))
        let page = try open()
        try page.evaluate("plugin.getCurrentVersion().catch(() => null); null")
        try page.wait(for: "it is loaded again") { $0.loads == 2 }
        try page.wait(until: "window.Capacitor && document.readyState === 'complete'")
        let again = "Capacitor.Plugins.CapacitorMeteorWebApp.getCurrentVersion().catch(e => e.code)"
        for _ in 0..<3 { #expect(try value(page, again) == "\"staleLaunch\"") }
        #expect(page.loads == 2)
        // Sets the page's time of the last reload to just under and just over ten seconds ago.
        func pass(_ milliseconds: Int) throws {
            try page.evaluate(
                "for (const k of Object.keys(sessionStorage)) sessionStorage[k] = Date.now() - \(milliseconds); null")
        }
        try pass(9_999)
        #expect(try value(page, again) == "\"staleLaunch\"")
        #expect(page.loads == 2)
        try pass(10_001)
        try page.evaluate("\(again); null")
        try page.wait(for: "it is loaded once more") { $0.loads == 3 }
        #expect(requests("getCurrentVersion").count == 6)
    }

    @Test func `the page bridge does not reload for another response 403`() throws {
        server.set(
            Self.prefix + "getCurrentVersion", .json(#"{"error":{"code":"forbidden","message":"no"}}"#, status: 403))
        let page = try open()
        #expect(try value(page, "plugin.getCurrentVersion().catch(e => e.code)") == "\"forbidden\"")
        // The bridge stores a time before it reloads.
        #expect(try value(page, "sessionStorage.length") == "0")
        #expect(page.loads == 1)
    }

    @Test func `the page bridge reconnects after a dropped or rejected stream`() throws {
        let page = try open()
        try page.evaluate(Self.listening)
        #expect(server.wait(for: Self.prefix + "events"))
        server.set(Self.prefix + "events", Route(bytes("busy"), status: 503))
        // The incomplete event is lost with the stream.
        feed.send("event: error\ndata: {\"message\":\"half\"}\n")
        feed.end(complete: false)
        try page.wait(for: "it came back") { _ in requests("events").count >= 2 }
        let next = try Feed()
        server.set(Self.prefix + "events", Self.stream(next))
        next.send("event: error\ndata: {\"message\":\"whole\"}\n\n")
        try page.wait(until: "seen.length > 0")
        #expect(try value(page, "seen") == #"[["error",{"message":"whole"}]]"#)
        next.end()
        let last = try Feed()
        server.set(Self.prefix + "events", Self.stream(last))
        last.send("event: error\ndata: {\"message\":\"after a clean end\"}\n\n")
        try page.wait(until: "seen.length === 2")
        #expect(page.loads == 1)
    }

    @Test func `the page bridge reports at most five uncaught errors`() throws {
        let page = try open()
        try page.evaluate("setTimeout(() => { throw new Error('one') }, 0); null")
        #expect(server.wait(for: Self.prefix + "report"))
        let first = try body(requests("report").first)
        #expect(first["message"] == .string("Uncaught Error: one"))
        #expect(first["line"]?.integerValue != nil && first["column"]?.integerValue != nil)
        #expect(requests("report").first?["X-Client-Token"] == "token-1")
        try page.evaluate("Promise.reject(new Error('two ' + '\\ud83d'.repeat(9) + 'x'.repeat(9999))); null")
        try page.wait(for: "the second report") { _ in requests("report").count == 2 }
        let second = try body(requests("report").last)["message"]?.stringValue ?? ""
        #expect(second.hasPrefix("two \u{FFFD}") && second.unicodeScalars.count <= 500)
        try page.evaluate("for (let i = 0; i < 9; i++) Promise.reject('more ' + i); null")
        try page.wait(for: "five reports") { _ in requests("report").count >= 5 }
        // A call made after the errors arrives after their reports.
        server.set(Self.prefix + "getCurrentVersion", .json("{}"))
        try page.evaluate("plugin.getCurrentVersion().then(() => null)")
        #expect(requests("report").count == 5)
    }

    @Test func `the page bridge reports visibility changes in order under one page name`()
        throws
    {
        let page = try open()
        let change = """
            Object.defineProperty(document, 'visibilityState', {value: '%', configurable: true});
            document.dispatchEvent(new Event('visibilitychange')); null
            """.split(separator: "%").map(String.init)
        try page.wait(for: "the first report") { _ in requests("visibility").count == 1 }
        for state in ["hidden", "hidden", "visible"] { try page.evaluate(change.joined(separator: state)) }
        try page.wait(for: "both changes are reported") { _ in requests("visibility").count == 3 }
        let reports = try requests("visibility").map(body).sorted {
            ($0["number"]?.integerValue ?? 0) < ($1["number"]?.integerValue ?? 0)
        }
        #expect(reports.map { $0["hidden"] } == [.bool(false), .bool(true), .bool(false)])
        #expect(reports.map { $0["number"] } == [.integer(1), .integer(2), .integer(3)])
        let name = try #require(reports.first?["page"]?.stringValue)
        #expect(reports.allSatisfy { $0["page"]?.stringValue == name })
        try page.evaluate("location.reload(); null")
        try page.wait(for: "the report of the next load") { _ in
            try requests("visibility").map(body).contains { $0["page"]?.stringValue != name }
        }
        try page.wait(for: "the page unload") { _ in requests("farewell").count == 1 }
        // A report sent after the page unload might arrive before it.
        #expect(try requests("farewell").map(body).map { $0["number"] } == [.integer(4)])
        #expect(try requests("visibility").map(body).count { $0["page"]?.stringValue == name } == 3)
    }

    @Test func `the page bridge leaves an existing plugin alone and adds one to another Capacitor`() throws {
        server.set(
            "/",
            .html(
                "<script>var Capacitor = {Plugins: {CapacitorMeteorWebApp: {mine: 1}}}</script><script src=/bridge.js></script>"
            ))
        server.set(
            "/other",
            .html(
                "<script>var Capacitor = {Plugins: {Other: {mine: 2}}, x: 3}</script><script src=/bridge.js></script>"))
        let page = try browser.open(server.root + "/")
        #expect(try value(page, "Capacitor.Plugins") == #"{"CapacitorMeteorWebApp":{"mine":1}}"#)
        #expect(requests("events").isEmpty)
        let other = try browser.open(server.root + "/other")
        #expect(
            try value(
                other,
                "[Capacitor.Plugins.Other.mine, Capacitor.x, typeof Capacitor.Plugins.CapacitorMeteorWebApp.reload]")
                == #"[2,3,"function"]"#)
    }

    @Test func `the page bridge supports the WebAppLocalServer of the shim`() throws {
        server.set("/shim.js", .shim)
        server.set(
            "/",
            .html("<meta name=clientctl-token content=t><script src=/bridge.js></script><script src=/shim.js></script>")
        )
        server.set(Self.prefix + "startupDidComplete", .json("{}"))
        let page = try open()
        try page.evaluate("WebAppLocalServer.onNewVersionReady(v => { window.version = v }); null")
        try page.evaluate("WebAppLocalServer.startupDidComplete(() => { window.done = true }); null")
        feed.send("event: updateAvailable\ndata: {\"version\":\"2.0.0\"}\n\n")
        try page.wait(until: "window.done && window.version === '2.0.0'")
        #expect(messages(page) == [])
    }
}
