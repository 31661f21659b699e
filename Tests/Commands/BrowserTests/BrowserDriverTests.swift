import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread, .needsBrowser) struct BrowserDriverTests {
    let browser: Browser

    init() throws { browser = try Browser.forAllTests() }

    @Test func `Browser reports console messages, uncaught errors and policy violations`() throws {
        let server = try LoopbackServer([
            "/": .html(
                """
                <script>console.log('one', 2, 1.5, true, null); console.warn('two')</script>
                <script>setTimeout(() => { throw new Error('three') }, 0); Promise.reject(new Error('four'))</script>
                <img src="/missing.png"><img src="http://forbidden.invalid/x.png">
                """, policy: "default-src 'self' 'unsafe-inline'")
        ])
        let page = try browser.open(server.root + "/")
        try page.wait(for: "every message is there") { $0.console.count >= 6 }
        let console = page.console
        #expect(
            console.contains {
                $0.origin == .console && $0.level == "log" && $0.text == "one 2 1.5 true null"
                    && $0.url == server.root + "/"
            })
        #expect(console.contains { $0.level == "warning" && $0.text == "two" })
        #expect(console.contains { $0.origin == .exception && $0.text.hasPrefix("Uncaught Error: three") })
        #expect(console.contains { $0.origin == .exception && $0.text.hasPrefix("Uncaught (in promise) Error: four") })
        #expect(
            console.contains {
                $0.origin == .browser && $0.text.contains("404") && $0.url == server.root + "/missing.png"
            })
        #expect(console.contains { $0.origin == .browser && $0.text.contains("Content Security Policy") })
    }

    @Test func `Browser reports every request with its status and cache use`() throws {
        let cached = Route(bytes("window.count = (window.count || 0) + 1")).with {
            $0.headers = [("Content-Type", "text/javascript"), ("Cache-Control", "max-age=1000")]
        }
        let server = try LoopbackServer([
            "/": .html("<script src=/a.js></script><script src=/gone.js></script><script src=/moved.js></script>"),
            "/again": .html("<script src=/a.js></script>"), "/a.js": cached, "/b.js": cached,
            "/moved.js": .redirect(to: "/b.js"),
            "/cut.js": cached.with { $0.pace = .cut(after: 3) },
        ])
        let page = try browser.open(server.root + "/")
        let first = page.requests
        #expect(
            Set(first.map(\.url)) == Set(["/", "/a.js", "/gone.js", "/moved.js", "/b.js"].map { server.root + $0 }))
        #expect(first.first { $0.url.hasSuffix("/gone.js") }?.status == 404)
        #expect(first.first { $0.url.hasSuffix("/moved.js") }?.status == 302)
        #expect(first.first { $0.url.hasSuffix("/b.js") }?.status == 200)
        #expect(first.allSatisfy { !$0.isFromCache && $0.method == "GET" })
        try page.navigate(server.root + "/again")
        #expect(page.requests.dropFirst(first.count).first { $0.url.hasSuffix("/a.js") }?.isFromCache == true)
        _ = try page.evaluate("fetch('/cut.js').then(r => r.text()).catch(() => null)")
        try page.wait(for: "the cut answer is known") {
            $0.requests.contains { $0.url.hasSuffix("/cut.js") && $0.failure?.isEmpty == false }
        }
    }

    @Test func `Browser evaluates expressions and promises`() throws {
        let page = try browser.open()
        #expect(try page.evaluate("6 * 7") == .integer(42))
        #expect(try page.evaluate("1 / 4") == .string("0.25"))
        #expect(try page.evaluate("undefined") == .null)
        #expect(try page.evaluate("NaN") == .string("NaN"))
        #expect(
            try page.evaluate("'\\u0000\\n\\\"\\u00e4\\ud83d\\ude00 -1.5e3'") == .string("\0\n\"\u{E4}\u{1F600} -1.5e3")
        )
        #expect(
            try page.evaluate("new Promise(done => setTimeout(() => done({a: [1, -2, 1e21], b: {}}), 20))")
                == .object(["a": .array([.integer(1), .integer(-2), .string("1e+21")]), "b": .object([:])]))
        #expect(
            throws: BrowserError.exception("Uncaught ReferenceError: nobody is not defined\n    at <anonymous>:1:1")
        ) {
            try page.evaluate("nobody")
        }
        #expect(try page.evaluate("'\\ud83d\\\\\\ud83d\\ude00\\ude00'") == .string("\u{FFFD}\\\u{1F600}\u{FFFD}"))
        #expect(throws: BrowserError.exception("Uncaught (in promise) no")) {
            try page.evaluate("Promise.reject('no')")
        }
    }

    @Test func `Browser waits for an expression over page loads`() throws {
        let server = try LoopbackServer([
            "/": .html("<script>setTimeout(() => { location.href = '/next' }, 50)</script>"),
            "/next": .html("<script>setTimeout(() => { window.answer = 42 }, 50)</script>"),
        ])
        let page = try browser.open(server.root + "/")
        try page.wait(until: "window.answer === 42")
        // The timer runs before the page is complete.
        for _ in 0..<6000 where page.loads < 2 { poll(nil, 0, 10) }
        #expect(page.loads == 2)
        try page.reload()
        #expect(page.loads == 3)
        let error = #expect(throws: BrowserError.self) {
            try page.wait(until: "location.never", within: .milliseconds(100))
        }
        guard case .timedOut(let what) = error else { throw BrowserError.unreadable("\(String(describing: error))") }
        #expect(what.hasPrefix("`location.never` was not true within 0.1 seconds: "))
    }

    @Test func `Browser takes a screenshot of a page in a window`() throws {
        let server = try LoopbackServer(["/": .html("<body style='margin:0;background:#0a0'>")])
        let page = try browser.open(server.root + "/", inWindow: true)
        let picture = try page.screenshot()
        #expect(picture.prefix(8) == [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
        func number(at offset: Int) -> Int { picture[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
        #expect(JSONValue.integer(number(at: 16)) == (try page.evaluate("innerWidth")))
        #expect(JSONValue.integer(number(at: 20)) == (try page.evaluate("innerHeight")))
        #expect(number(at: 16) > 700 && number(at: 20) > 300)
    }

    @Test func `Browser rejects a screenshot of a page without a window at once`() throws {
        let page = try browser.open()
        #expect(try page.evaluate("document.visibilityState + innerWidth") == .string("visible800"))
        #expect(
            throws: BrowserError.refused(method: "Page.captureScreenshot", message: "the page has no window")
        ) { try page.screenshot() }
    }

    @Test func `Browser isolates the storage of pages`() throws {
        let server = try LoopbackServer(["/": .html("")])
        let page = try browser.open(server.root + "/")
        try page.evaluate("localStorage.setItem('a', '1'); document.cookie = 'a=1'")
        let other = try browser.open(server.root + "/")
        #expect(try other.evaluate("localStorage.length + document.cookie.length") == .integer(0))
    }

    @Test func `Browser times out when a page or script does not end`() throws {
        let server = try LoopbackServer([
            "/": Route().with {
                $0.framing = .stated("10"); $0.pace = .stall(after: 0)
            }
        ])
        server.set(
            "/silent",
            Route().with {
                $0.raw = []; $0.pace = .stall(after: 0)
            })
        let began = ContinuousClock.now
        let page = try browser.open()
        #expect(throws: BrowserError.self) { try page.navigate(server.root + "/", within: .milliseconds(300)) }
        #expect(throws: BrowserError.timedOut("Runtime.evaluate within 0.3 seconds")) {
            try page.evaluate("new Promise(() => {})", within: .milliseconds(300))
        }
        #expect(throws: BrowserError.timedOut("Runtime.evaluate within 0.3 seconds")) {
            try page.evaluate("for (;;) {}", within: .milliseconds(300))
        }
        #expect(throws: BrowserError.notLoaded(url: "http://127.0.0.1:1/", reason: "net::ERR_UNSAFE_PORT")) {
            try browser.open("http://127.0.0.1:1/")
        }
        // This is less than any timeout that the browser has by default.
        #expect(ContinuousClock.now - began < .seconds(55))
    }

    @Test func `Browser leaves no process and no folder behind`() throws {
        let (folder, processes) = try openAndLeave()
        #expect(processes.count > 2)
        #expect(processes.filter { kill($0, 0) == 0 && !isZombie($0) } == [])
        #expect(access(folder, F_OK) != 0)
    }

    private func openAndLeave() throws -> (folder: String, processes: [Int32]) {
        let own = try Browser()
        _ = try own.open()
        return (own.folder, own.processes)
    }

    /// Returns whether the process has ended and waits to be reaped.
    private func isZombie(_ process: pid_t) -> Bool {
        let descriptor = open("/proc/\(process)/cmdline", O_RDONLY)
        guard descriptor >= 0 else { return true }
        defer { close(descriptor) }
        var byte: UInt8 = 0
        return read(descriptor, &byte, 1) == 0
    }

    @Test func `Browser reports a Chromium that ends`() throws {
        let own = try Browser()
        let page = try own.open()
        for process in own.processes { kill(process, SIGKILL) }
        let error = #expect(throws: BrowserError.self) { try page.evaluate("1", within: .seconds(60)) }
        guard case .ended = error else { Issue.record("\(String(describing: error))"); return }
    }
}
