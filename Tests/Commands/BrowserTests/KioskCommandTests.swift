import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// `clientctl kiosk`, which starts the browser for a `serve` of another user.
@Suite(.ownThread) struct KioskCommandTests {
    let kiosk: Kiosk
    private let log: String

    init() throws {
        kiosk = try Kiosk()
        log = kiosk.folder.file("starts")
    }

    private func start(_ serving: Serving, _ more: [String] = []) throws -> Program {
        let path = try script("browser", "exec sleep 90")
        return try kiosk.start(["kiosk", "--port", "\(serving.port)", "--browser", "\(path) {profile} {url}"] + more)
    }

    /// Returns a program that records its arguments and its drawing, and then runs the lines of `end`.
    private func script(_ name: String, _ end: String) throws -> String {
        let lines = "#!/bin/sh\necho \"$@ ${WLR_RENDERER-}\" >>'\(log)'\n\(end)\n"
        let path = try kiosk.folder.write(bytes(lines), to: name)
        chmod(path, 0o755)
        return path
    }

    private func wait(for line: String, _ program: Program) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while true {
            let log = try program.printed().errors
            if log.contains(line) { return }
            try #require(ContinuousClock.now < deadline, "\(log)")
            poll(nil, 0, 50)
        }
    }

    /// Returns a port on which no program listens.
    private func freePort() throws -> Int {
        let serving = try kiosk.serve()
        serving.program.send(SIGTERM)
        _ = try serving.program.wait(within: Browser.patience)
        return serving.port
    }

    /// Requests the page at `url` as a browser.
    private func load(_ url: String) throws -> RawResponse {
        let port = try #require(url.split(whereSeparator: { ":/".contains($0) }).last.flatMap { Int($0) })
        let connection = try RawConnection(port: port)
        connection.send(
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\nAccept: text/html\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Site: none\r\n\r\n"
        )
        return try connection.receiveAnswer()
    }

    /// Returns the arguments of each start so far.
    private func starts() -> [[String]] {
        let text = (try? contents(ofFile: log)) ?? []
        return String(decoding: text, as: UTF8.self).split(separator: "\n").map {
            $0.split(separator: " ").map(String.init)
        }
    }

    private func wait(starts count: Int, _ program: Program) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while starts().count < count {
            try #require(
                ContinuousClock.now < deadline,
                "the browser was started \(starts().count) times, not \(count): \((try? program.printed().errors) ?? "")"
            )
            poll(nil, 0, 20)
        }
    }

    /// Waits until the page at `url` is redirected, and returns the new address.
    private func redirect(of url: String) throws -> String? {
        let deadline = ContinuousClock.now + Browser.patience
        while true {
            let response = try load(url)
            if response.status == 303 { return response["location"] }
            try #require(ContinuousClock.now < deadline, "the page is not redirected")
            poll(nil, 0, 50)
        }
    }

    @Test func `ends a browser that a killed clientctl kiosk left`() throws {
        let serving = try kiosk.serve()
        let pids = kiosk.folder.file("pids")
        let path = try script("lasting", "echo $$ >>'\(pids)'\nexec sleep 90")
        func start() throws -> Program {
            try kiosk.start(["kiosk", "--port", "\(serving.port)", "--browser", "\(path) {url}"])
        }
        let killed = try start()
        try wait(starts: 1, killed)
        killed.send(SIGKILL)
        _ = try killed.wait(within: Browser.patience)
        let text = String(decoding: try contents(ofFile: pids), as: UTF8.self)
        let left = try #require(text.split(separator: "\n").first.flatMap { pid_t($0) })
        #expect(kill(left, 0) == 0)
        let next = try start()
        try wait(for: "ended a browser that an earlier run left", next)
        try wait(starts: 2, next)
        let deadline = ContinuousClock.now + Browser.patience
        while kill(left, 0) == 0 {
            try #require(ContinuousClock.now < deadline, "the browser that was left still runs")
            poll(nil, 0, 50)
        }
        for program in [next, serving.program] { program.send(SIGTERM) }
    }

    @Test func `kiosk starts the browser at the address of serve, and with a new profile after a session`() throws {
        try kiosk.install(.good("1.0.0"))
        try kiosk.login()
        let serving = try kiosk.serve()
        let program = try start(serving)
        try wait(starts: 1, program)
        #expect(starts()[0].last == serving.root + "/")
        try kiosk.on("session logout")
        try wait(starts: 2, program)
        #expect(starts()[0].first != starts()[1].first)
        #expect(access(starts()[0].first ?? "", F_OK) != 0)
        program.send(SIGTERM)
        #expect(try program.wait(within: Browser.patience)?.status == 0)
        #expect(access(starts()[1].first ?? "", F_OK) != 0)
    }

    @Test func `kiosk restarts the browser when serve reports a lost page, but not after a restart of serve`() throws {
        try kiosk.install(.doing("1.0.0", ""))
        let serving = try kiosk.serve(["--heartbeat", "1s"])
        let program = try start(serving)
        try wait(starts: 1, program)
        // The page reports once and then stops.
        let page = try serving.ask("GET /", ["Accept": "text/html"]).text
        let token = try #require(page.firstMatch(of: /name="clientctl-token" content="([^"]+)"/)?.output.1)
        let answer = try serving.ask(
            "POST /__clientctl/v1/heartbeat", ["X-Client-Token": String(token), "Origin": serving.root],
            body: #"{"page": "1"}"#)
        #expect(answer.status == 200)
        try wait(starts: 2, program)
        #expect(
            try program.printed().errors.contains("the page is lost: serve reports it; the browser is restarted"))
        serving.program.send(SIGTERM)
        _ = try serving.program.wait(within: Browser.patience)
        let next = try kiosk.serve(port: serving.port)
        poll(nil, 0, 2000)
        #expect(starts().count == 2)
        withExtendedLifetime(next) {}
    }

    @Test func `kiosk restarts a browser that loads no page`() throws {
        let serving = try kiosk.serve(["--heartbeat", "1s"])
        let program = try start(serving)
        try wait(starts: 2, program)
        #expect(
            try serving.program.printed().errors.contains(
                "the page is lost: the browser was started, and has loaded no page within 30s; the browser is restarted"
            ))
    }

    @Test func `kiosk logs that serve does not answer at the address, and that it answers again`() throws {
        let serving = try kiosk.serve()
        serving.program.send(SIGTERM)
        _ = try serving.program.wait(within: Browser.patience)
        let program = try start(serving)
        try wait(
            for:
                "warning: serve does not answer at \(serving.root)/: check CLIENTCTL_PORT (--port), and that clientctl-serve runs",
            program)
        let next = try kiosk.serve(port: serving.port)
        try wait(for: "serve answers at \(serving.root)/", program)
        #expect(try program.printed().errors.ranges(of: "does not answer").count == 1)
        withExtendedLifetime(next) {}
    }

    @Test func `kiosk shows a page of its own until serve answers`() throws {
        let port = try freePort()
        let path = try script("browser", "exec sleep 90")
        let program = try kiosk.start(["kiosk", "--port", "\(port)", "--browser", "\(path) {url}"])
        try wait(starts: 1, program)
        let own = try #require(starts()[0].first)
        #expect(own.hasPrefix("http://127.0.0.1:") && !own.contains(":\(port)/"))
        let waiting = try load(own)
        #expect(waiting.status == 200 && waiting.text.contains("<h1>One moment</h1>"))
        #expect(waiting["refresh"] == "2")
        let serving = try kiosk.serve(port: port)
        #expect(try redirect(of: own) == serving.root + "/")
        #expect(starts().count == 1)
    }

    @Test(arguments: [true, false])
    func `a browser that starts before serve keeps its profile unless the device requires a session`(
        requiresSession: Bool
    ) throws {
        if requiresSession { try kiosk.login() }
        let port = try freePort()
        let path = try script("browser", "echo left >\"$1/left\"\nexec sleep 90")
        let program = try kiosk.start(["kiosk", "--port", "\(port)", "--browser", "\(path) {profile} {url}"])
        try wait(starts: 1, program)
        let serving = try kiosk.serve(port: port)
        if requiresSession {
            try wait(starts: 2, program)
            #expect(starts()[1].last == serving.root + "/")
            #expect(starts()[0].first != starts()[1].first)
            #expect(access(starts()[0][0], F_OK) != 0)
        } else {
            #expect(try redirect(of: starts()[0][1]) == serving.root + "/")
            program.send(SIGTERM)
            _ = try program.wait(within: Browser.patience)
            #expect(access(starts()[0][0] + "/left", F_OK) == 0)
        }
        withExtendedLifetime(serving) {}
    }

    @Test(.enabled(if: Browser.isInstalled, "no Chromium"))
    func `Chromium goes from the page of kiosk to the page of serve`() throws {
        let port = try freePort()
        let path = try script("browser", "exec sleep 90")
        let program = try kiosk.start(["kiosk", "--port", "\(port)", "--browser", "\(path) {url}"])
        try wait(starts: 1, program)
        let page = try Browser.forAllTests().open(starts()[0][0])
        try page.wait(until: "document.body && document.body.dataset.state === 'starting'")
        let serving = try kiosk.serve(port: port)
        try page.wait(until: "window.version === 'embedded'")
        withExtendedLifetime(serving) {}
    }

    @Test func `kiosk restarts a browser whose page does not come back after a restart of serve`() throws {
        let serving = try kiosk.serve()
        let program = try start(serving)
        try wait(starts: 1, program)
        #expect(try load(serving.root).status == 200)
        poll(nil, 0, 1500)
        serving.program.send(SIGKILL)
        _ = try serving.program.wait(within: Browser.patience)
        let next = try kiosk.serve(port: serving.port)
        try wait(starts: 2, program)
        #expect(
            try program.printed().errors.contains(
                "the page is lost: serve was restarted, and the browser has loaded no page from it"))
        #expect(starts()[1].last == serving.root + "/")
        withExtendedLifetime(next) {}
    }

    @Test(.enabled(if: geteuid() == 0, "not root"))
    func `kiosk does not show the page of another user who listens on the port of serve`() throws {
        let port = try freePort()
        let server = """
            import http.server
            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    self.send_response(200); self.end_headers()
                    self.wfile.write(b'{"process": 1, "losses": 0, "endings": 0, "requiresSession": false}')
            http.server.HTTPServer(("127.0.0.1", \(port)), Handler).serve_forever()
            """
        let stranger = try Program(
            ["setpriv", "--reuid", "65534", "--clear-groups", "python3", "-c", server],
            environment: ["PATH": "/usr/bin:/bin"])
        defer { stranger.send(SIGKILL) }
        let path = try script("browser", "exec sleep 90")
        func run(_ more: [String]) throws -> Program {
            try kiosk.start(["kiosk", "--port", "\(port)", "--browser", "\(path) {url}"] + more)
        }
        let program = try run([])
        try wait(for: "error: a program of the user nobody (65534) listens at http://127.0.0.1:\(port)/", program)
        try wait(starts: 1, program)
        #expect(starts()[0].first?.contains(":\(port)/") == false)
        program.send(SIGTERM)
        _ = try program.wait(within: Browser.patience)
        let named = try run(["--serve-user", "nobody"])
        try wait(starts: 2, named)
        #expect(starts()[1].first == "http://127.0.0.1:\(port)/")
        named.send(SIGTERM)
        _ = try named.wait(within: Browser.patience)
        let unknown = try kiosk.run(["kiosk", "--browser", path, "--serve-user", "no-such-user"], expecting: 78)
        #expect(unknown.errors.contains("--serve-user: this machine has no user no-such-user."))
    }

    @Test func `kiosk and serve repeat the last lines of a browser that failed, and no others`() throws {
        let noise = "for i in $(seq 1 2000); do echo \"noise $i\" >&2; done; printf 'bad \\033[31m\\n' >&2; exit 3"
        let path = try script("browser", noise)
        let serving = try kiosk.serve(["--browser", "\(path) {url}"])
        let program = try kiosk.start(["kiosk", "--port", "\(serving.port)", "--browser", "\(path) {url}"])
        for each in [serving.program, program] {
            try wait(for: "the browser wrote: bad", each)
            let log = try each.printed().errors
            #expect(
                log.contains(
                    "warning: the browser ended with status 3; it is restarted\nwarning: the browser wrote: noise 1994\n"
                ))
            #expect(log.contains("warning: the browser wrote: bad \\x1B[31m\n"))
            #expect(!log.contains("noise 1993"))
        }
    }

    @Test func `kiosk lets a compositor that fails draw without the GPU`() throws {
        let serving = try kiosk.serve()
        let path = try script("cage", "[ \"${WLR_RENDERER-}\" = pixman ] || exit 1\nexec sleep 90")
        let program = try kiosk.start(["kiosk", "--port", "\(serving.port)", "--browser", "\(path) -- page {url}"])
        try wait(starts: 2, program)
        #expect(starts()[0].last == serving.root + "/")
        #expect(starts()[1].last == "pixman")
        #expect(try program.printed().errors.contains("draws without the GPU (WLR_RENDERER=pixman)"))
    }

    @Test(.enabled(if: geteuid() == 0, "not root"), arguments: ["kiosk", "serve"])
    func `process 1 of a container reaps the processes that a browser leaves`(command: String) throws {
        let left = "for i in 1 2 3 4 5 6; do (setsid sleep 0.2 &); done; exit 3"
        let path = try script("browser", left)
        let serving = try kiosk.serve()
        let store = try TemporaryFolder()
        let arguments =
            command == "kiosk"
            ? ["kiosk", "--port", "\(serving.port)"]
            : ["serve", "--store", store.file("store"), "--seed", kiosk.seed, "--port", "0"]
        let program = try Program(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", Built.clientctl] + arguments
                + ["--browser", "\(path) {url}"],
            environment: ["PATH": "/usr/bin:/bin", "HOME": kiosk.folder.file("home"), "LC_ALL": "C.UTF-8"])
        try wait(starts: 3, program)
        #expect(try program.printed().errors.contains("the browser ended with status 3; it is restarted"))
        func children(of process: String) -> [String] {
            let text = (try? contents(ofFile: "/proc/\(process)/task/\(process)/children")) ?? []
            return String(decoding: text, as: UTF8.self).split(separator: " ").map(String.init)
        }
        let first = try #require(children(of: "\(program.number)").first)
        let deadline = ContinuousClock.now + Browser.patience
        while true {
            let list = try Program.run(
                ["ps", "--ppid", first, "-o", "stat="], environment: ["PATH": "/usr/bin:/bin"])
            let ended = list.text.split(separator: "\n").count { $0.hasPrefix("Z") }
            if ended == 0 { break }
            try #require(ContinuousClock.now < deadline, "\(ended) ended processes are not reaped")
            poll(nil, 0, 100)
        }
        program.send(SIGTERM)
        _ = try program.wait(within: Browser.patience)
    }

    @Test func `kiosk requires a browser command and waits for serve`() throws {
        let none = try kiosk.run(["kiosk"], expecting: 64)
        #expect(none.errors.contains("--browser"))
        let serving = try kiosk.serve()
        serving.program.send(SIGTERM)
        _ = try serving.program.wait(within: Browser.patience)
        let program = try start(serving)
        poll(nil, 0, 1500)
        #expect(starts().isEmpty)
        let next = try kiosk.serve(port: serving.port)
        try wait(starts: 1, program)
        withExtendedLifetime(next) {}
    }
}
