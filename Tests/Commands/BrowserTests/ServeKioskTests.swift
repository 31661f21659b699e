import BundleCore
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// A device whose browser `clientctl serve` runs and restarts.
@Suite(.ownThread, .needsBrowser) struct ServeKioskTests {
    let kiosk: Kiosk
    /// Receives a request for each client that a page shows.
    let witness: LoopbackServer
    private let folder: TemporaryFolder

    init() throws {
        kiosk = try Kiosk()
        witness = try LoopbackServer { _ in .html("elsewhere") }
        folder = try TemporaryFolder()
    }

    /// Returns a client whose page runs `atOnce` inline, so that its trial does not depend on the load of a script.
    private func client(_ version: String, atOnce: String = "", _ script: String = "") -> DemoClient {
        let shown = "fetch('\(witness.root)/shown/\(version)', {mode: 'no-cors'}).catch(() => {});\n"
        var client = DemoClient.doing(version, shown + script)
        if !atOnce.isEmpty { client.head = "<script>\(atOnce)</script>" }
        return client
    }

    /// The heartbeat interval in seconds.
    private let heartbeat = BusyMachine.seconds(6)

    private func serve(timeout: Int = 4, heartbeat: Int? = nil, _ more: [String] = []) throws -> Serving {
        let browser = try Browser.command(in: folder.path).map { "'\($0)'" }.joined(separator: " ")
        return try kiosk.serve(
            timeout: "\(BusyMachine.seconds(timeout))s",
            [
                "--browser", browser, "--heartbeat", "\(heartbeat ?? self.heartbeat)s", "--csp",
                "connect-src \(witness.root)",
            ] + more)
    }

    private func times(_ version: String) -> Int { witness.requests.count { $0.target == "/shown/\(version)" } }

    private func wait(_ trouble: String, _ isMet: () throws -> Bool) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while try !isMet() {
            try #require(ContinuousClock.now < deadline, "\(trouble)")
            poll(nil, 0, 20)
        }
    }

    private func wait(until version: String, isShown times: Int, _ serving: Serving) throws {
        try wait("\(version) is not shown \(times) times: \((try? serving.program.printed().errors) ?? "")") {
            self.times(version) >= times
        }
    }

    /// Returns the processes of the browser with `kind` in their arguments.
    private func processes(_ kind: String) throws -> [pid_t] {
        let listing = try Program.run(
            ["pgrep", "-f", "--", "\(kind).*\(folder.path)|\(folder.path).*\(kind)"],
            environment: ["PATH": "/usr/bin:/bin"])
        return listing.text.split(separator: "\n").compactMap { pid_t($0) }.filter { $0 != getpid() }
    }

    /// Ends `serve` together with its browser.
    private func end(_ serving: Serving) throws {
        serving.program.send(SIGTERM)
        let ending = try #require(try serving.program.wait(within: .seconds(60)), "it does not end")
        #expect(ending.status == 0)
        try wait("the browser still runs") { try processes("--type=renderer").isEmpty }
    }

    @Test func `serve restarts a browser that ends, and ends it with itself`() throws {
        try kiosk.install(client("1.0.0", atOnce: DemoClient.Scripts.confirm))
        let serving = try serve()
        try wait(until: "1.0.0", isShown: 1, serving)
        try kiosk.wait(until: "v1.0.0", is: "good")
        let shown = times("1.0.0")
        // On a slow machine, the page may seem lost. Then `serve` ends the first browser itself.
        var killed: pid_t?
        try wait("the log lacks the end of the browser") {
            if try serving.program.printed().errors.contains(
                "the browser was ended by signal 9; it is restarted")
            {
                return true
            }
            if let leader = try processes("--headless").first(where: { getpgid($0) == $0 }), leader != killed {
                kill(leader, SIGKILL)
                killed = leader
            }
            return false
        }
        try wait(until: "1.0.0", isShown: shown + 1, serving)
        try end(serving)
    }

    @Test func `serve removes a profile lock of a browser on another host`() throws {
        try kiosk.install(client("1.0.0", atOnce: DemoClient.Scripts.confirm))
        #expect(mkdir(folder.file("profile"), 0o700) == 0)
        #expect(symlink("another-host-4242", folder.file("profile/SingletonLock")) == 0)
        let serving = try serve()
        try wait(until: "1.0.0", isShown: 1, serving)
        #expect(try serving.program.printed().errors.contains("it belongs to the host another-host"))
        try end(serving)
    }

    @Test func `serve ends the browser of a killed serve and shows its page in one window`()
        throws
    {
        try kiosk.install(client("1.0.0", atOnce: DemoClient.Scripts.confirm))
        let killed = try serve()
        try wait(until: "1.0.0", isShown: 1, killed)
        let leader = try #require(try processes("--headless").first { getpgid($0) == $0 })
        killed.program.send(SIGKILL)
        #expect(try killed.program.wait(within: Browser.patience)?.signal == SIGKILL)
        #expect(kill(leader, 0) == 0)
        let serving = try serve()
        try wait(until: "1.0.0", isShown: 2, serving)
        #expect(try serving.program.printed().errors.contains("ended a browser that an earlier run left"))
        try wait("the previous browser still runs") { kill(leader, 0) != 0 }
        try end(serving)
    }

    @Test(arguments: ["dies", "hangs"])
    func `serve restores a confirmed page that crashes or hangs`(fault: String) throws {
        let hang = fault == "hangs" ? "setTimeout(() => { while (true) {} }, 1000);\n" : ""
        try kiosk.install(client("1.0.0", atOnce: DemoClient.Scripts.confirm, hang))
        // The end of a process is detected long before the page's heartbeat is missing.
        let serving = try serve(heartbeat: fault == "dies" ? 600 : nil)
        try wait(until: "1.0.0", isShown: 1, serving)
        try kiosk.wait(until: "v1.0.0", is: "good")
        if fault == "dies" { for process in try processes("--type=renderer") { kill(process, SIGKILL) } }
        try wait(until: "1.0.0", isShown: 2, serving)
        let log = try serving.program.printed().errors
        let reason =
            fault == "dies"
            ? "its connection ended, and no page followed within 4s" : "it has said nothing for \(heartbeat)s"
        #expect(log.contains("the page is lost: \(reason); the browser is restarted"))
        #expect(try kiosk.status(of: "v1.0.0").failures.isEmpty)
        try end(serving)
    }

    @Test(arguments: ["dies", "hangs", "leaves"])
    func `serve rolls back a page on trial that crashes, hangs or leaves`(
        fault: String
    ) throws {
        let script =
            switch fault {
            case "hangs": "setTimeout(() => { while (true) {} }, 100);\n"
            case "leaves": "location.href = '\(witness.root)/elsewhere';\n"
            default: ""
            }
        let record = folder.file("record")
        let hook = "sh -c 'echo \"$ROLLBACK_FROM $ROLLBACK_TO $ROLLBACK_REASON\" >>\(record)'"
        try kiosk.install(client("1.0.0", atOnce: DemoClient.Scripts.confirm, DemoClient.Scripts.update))
        // The page has to leave within this time.
        let serving = try serve(timeout: fault == "leaves" ? 8 : 4, ["--on-rollback", hook])
        try wait(until: "1.0.0", isShown: 1, serving)
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(client("2.0.0", script))
        try wait(until: "2.0.0", isShown: 1, serving)
        let shown = times("1.0.0")
        if fault == "dies" { for process in try processes("--type=renderer") { kill(process, SIGKILL) } }
        try kiosk.wait(until: "v2.0.0", is: "failed")
        try wait(until: "1.0.0", isShown: shown + 1, serving)
        let failed = try kiosk.status(of: "v2.0.0")
        #expect(failed.state == "failed")
        #expect(failed.failures.count == 1)
        if fault == "leaves" {
            let detail = failed.failures.first?["detail"]?.stringValue ?? ""
            #expect(detail.contains("its page left for \(witness.root)/elsewhere"), "\(detail)")
        }
        try wait("the hook does not run") { access(record, F_OK) == 0 }
        try end(serving)
        let lines = try String(decoding: readWhole(record), as: UTF8.self).split(separator: "\n")
        #expect(lines.count == 1)
        #expect(lines.first?.hasPrefix("v2.0.0 v1.0.0 v2.0.0 was rolled back to v1.0.0: ") == true, "\(lines)")
    }

    private func readWhole(_ path: String) throws -> [UInt8] {
        try Program.run(["cat", path], environment: ["PATH": "/usr/bin:/bin"]).output
    }

    @Test func `startupDidFail fails a trial, and is rejected after a confirmed start`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        let page = try Browser.forAllTests().open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        let refused = "Capacitor.Plugins.CapacitorMeteorWebApp.startupDidFail({reason: 'x'}).catch(error => error.code)"
        #expect(try page.evaluate(refused).stringValue == "notOnTrial")
        try kiosk.install(.doing("2.0.0", "WebAppLocalServer.startupDidFail('no printer');\n"))
        try kiosk.wait(until: "v2.0.0", is: "failed")
        try page.wait(until: "window.version === '1.0.0'")
        let detail = try kiosk.status(of: "v2.0.0").failures.first?["detail"]?.stringValue
        #expect(detail == "the page said: no printer")
    }

    @Test func `a busy page is not switched until it is no longer busy`() throws {
        // A page that requests the next client gets it even when busy, so this one does not.
        try kiosk.install(.doing("1.0.0", DemoClient.Scripts.confirm))
        let serving = try kiosk.serve(["--activation-window", "00:00-24:00"])
        let page = try Browser.forAllTests().open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        let call = "Capacitor.Plugins.CapacitorMeteorWebApp.busy({busy: true}).then(JSON.stringify)"
        #expect(try page.evaluate(call).stringValue == "{}")
        _ = try page.evaluate("WebAppLocalServer.onNewVersionReady(version => { window.ready = version })")
        try kiosk.install(.good("2.0.0"))
        // A page that is not busy would be switched when this event arrives.
        try page.wait(until: "window.ready === '2.0.0'")
        #expect(try page.evaluate("window.version").stringValue == "1.0.0")
        _ = try page.evaluate("WebAppLocalServer.busy(false)")
        try page.wait(until: "window.version === '2.0.0'")
    }

    @Test func `serve rejects an invalid --browser and logs a browser that cannot be started`() throws {
        for words in ["a 'b", "''", " "] {
            let ending = try kiosk.run(
                [
                    "serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--seed", kiosk.seed, "--browser",
                    words,
                ],
                expecting: 64)
            #expect(ending.errors.contains("--browser takes a command with its arguments"))
        }
        for browser in ["/no/such/browser --kiosk {url}", "no-such-browser"] {
            let ending = try kiosk.run(
                [
                    "serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--seed", kiosk.seed, "--browser",
                    browser,
                ],
                expecting: 78)
            #expect(ending.errors.contains("was not found"), "\(ending.errors)")
        }
        // The file exists, but the kernel cannot start it.
        let broken = try kiosk.folder.write(Array("\u{7f}ELF".utf8), to: "broken")
        chmod(broken, 0o755)
        let serving = try kiosk.serve(["--browser", broken, "--on-rollback", "sh -c 'exit 3'"])
        try wait("the log lacks the broken browser") {
            try serving.program.printed().errors.contains("broken cannot be started: ")
        }
        try kiosk.install(.doing("1.0.0", ""))
        let page = try serving.ask("GET /", ["Accept": "text/html"]).text
        let token = try #require(page.firstMatch(of: /name="clientctl-token" content="([^"]+)"/)?.output.1)
        #expect(try serving.call("startupDidFail", token: String(token)).status == 200)
        try wait("the log lacks the end of the hook") {
            try serving.program.printed().errors.contains("the command of --on-rollback ended with status 3")
        }
    }
}
