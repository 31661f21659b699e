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

    private func start(_ serving: Serving) throws -> Program {
        let script = "#!/bin/sh\necho \"$1 $2\" >>'\(log)'\nexec sleep 90\n"
        let path = try kiosk.folder.write(bytes(script), to: "browser")
        chmod(path, 0o755)
        return try kiosk.start(["kiosk", "--port", "\(serving.port)", "--browser", "\(path) {profile} {url}"])
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
        func wait(for line: String) throws {
            let deadline = ContinuousClock.now + Browser.patience
            while true {
                let log = try program.printed().errors
                if log.contains(line) { return }
                try #require(ContinuousClock.now < deadline, "\(log)")
                poll(nil, 0, 50)
            }
        }
        try wait(
            for:
                "warning: serve does not answer at \(serving.root)/: check CLIENTCTL_PORT (--port), and that clientctl-serve runs"
        )
        #expect(starts().isEmpty)
        let next = try kiosk.serve(port: serving.port)
        try wait(for: "serve answers at \(serving.root)/")
        try self.wait(starts: 1, program)
        #expect(try program.printed().errors.ranges(of: "does not answer").count == 1)
        withExtendedLifetime(next) {}
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
