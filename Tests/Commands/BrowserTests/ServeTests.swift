import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// `clientctl serve` with the built program, published clients and a real browser.
@Suite(.ownThread, .needsBrowser) struct ServeTests {
    let browser: Browser
    let kiosk: Kiosk

    init() throws {
        browser = try Browser.forAllTests()
        kiosk = try Kiosk()
    }

    private static let idle = "note('idle', version);\n"

    private func shows(
        _ page: BrowserPage, _ version: String, within limit: Duration = Browser.patience
    ) throws {
        try page.wait(
            until: "window.version === '\(version)' && document.readyState === 'complete'", within: limit)
    }

    private func text(_ page: BrowserPage, _ expression: String) throws -> String {
        try page.evaluate(expression).stringValue ?? "null"
    }

    private func token(_ page: BrowserPage) throws -> String {
        try text(page, "document.querySelector('meta[name=clientctl-token]').content")
    }

    // MARK: One window

    @Test func `a window shows an update, its rollback, retry and block`() throws {
        try kiosk.install(.good("1.0.0", "#1565c0", atOnce: true))
        let serving = try kiosk.serve(timeout: "\(BusyMachine.seconds(5))s", ["--check-interval", "1s"])
        let page = try browser.open(serving.root + "/", inWindow: true)
        try shows(page, "1.0.0")
        try kiosk.wait(until: "v1.0.0", is: "good")
        let first = try ScreenshotFolder.keep(page, as: "1-version-1-good")

        try kiosk.install(.good("2.0.0", "#2e7d32", atOnce: true))
        try shows(page, "2.0.0")
        #expect(try text(page, "sessionStorage.news") == "string 2.0.0; ")
        try kiosk.wait(until: "v2.0.0", is: "good")
        let second = try ScreenshotFolder.keep(page, as: "2-version-2-good")

        try kiosk.install(.unseen("3.0.0", "throw new Error('version 3 is broken');", "#c62828"))
        try shows(page, "3.0.0")
        let third = try ScreenshotFolder.keep(page, as: "3-version-3-on-trial")
        try page.evaluate(DemoClient.Scripts.show + "null")
        try shows(page, "2.0.0")
        let fourth = try ScreenshotFolder.keep(page, as: "4-version-2-after-rollback")
        let failed = try kiosk.status(of: "v3.0.0")
        #expect(failed.state == "failed")
        #expect(failed.failures.count == 1)
        #expect(failed.failures.first?["cause"] == .string("notConfirmed"))
        #expect(failed.failures.first?["detail"]?.stringValue?.contains("Error: version 3 is broken") == true)
        try page.wait(until: "!!sessionStorage.errors")
        #expect(try text(page, "sessionStorage.errors") == "healthFailed; ")
        // No update is pushed to the page after the rollback, because its script would switch to it.
        #expect(try text(page, "sessionStorage.news") == "string 2.0.0; string 3.0.0; ")

        // The pause between two trials is the check interval.
        try page.evaluate("new Promise(done => setTimeout(() => done(null), 1500))")
        try page.evaluate("WebAppLocalServer.checkForUpdates(); null")
        try shows(page, "3.0.0")
        try page.evaluate(DemoClient.Scripts.show + "null")
        try shows(page, "2.0.0")
        let fifth = try ScreenshotFolder.keep(page, as: "5-version-2-after-block")
        let blocked = try kiosk.status(of: "v3.0.0")
        #expect(blocked.state == "blocked")
        #expect(blocked.failures.count == 2)
        #expect(try kiosk.status(of: "v2.0.0").state == "good")
        try page.evaluate("new Promise(done => WebAppLocalServer.checkForUpdates(() => done(null)))")
        #expect(try text(page, "sessionStorage.shown") == "1.0.0; 2.0.0; 3.0.0; 2.0.0; 3.0.0; 2.0.0; ")
        #expect(page.loads == 6)

        #expect(Set([first, second, third]).count == 3)
        #expect(fourth == second && fifth == second)
    }

    @Test func `a window shows the fallback again after serve is killed during a trial`() throws {
        try kiosk.install(.good("1.0.0"))
        // The port of the application, because the system could give a free port to another process before it is
        // requested again.
        let killed = try kiosk.serve(port: nil, ["--app-id", "kill\(getpid())"])
        let page = try browser.open(killed.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(.doing("2.0.0", Self.idle))
        try shows(page, "2.0.0")
        #expect(try kiosk.status(of: "v2.0.0").state == "trial")
        killed.program.send(SIGKILL)
        #expect(try killed.program.wait(within: Browser.patience)?.signal == SIGKILL)

        let serving = try kiosk.serve(port: killed.port)
        try shows(page, "1.0.0")
        let interrupted = try kiosk.status(of: "v2.0.0")
        #expect(interrupted.state == "failed")
        #expect(interrupted.failures.map { $0["cause"] } == [.string("interrupted")])
        #expect(try text(page, "sessionStorage.shown") == "1.0.0; 2.0.0; 1.0.0; ")
        withExtendedLifetime(serving) {}
    }

    @Test func `the outgoing page cannot confirm the incoming client`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        let old = try token(page)
        #expect(try serving.call("startupDidComplete", token: old).status == 200)
        try kiosk.install(.doing("2.0.0", Self.idle))
        try shows(page, "2.0.0")
        let incoming = try token(page)
        #expect(incoming != old)

        let before = try kiosk.status()
        let refused = try serving.call("startupDidComplete", token: old)
        #expect(refused.status == 403)
        #expect(refused.text.contains("staleLaunch"))
        #expect(try kiosk.status() == before)
        #expect(try kiosk.status(of: "v2.0.0").state == "trial")
        #expect(try serving.call("startupDidComplete", token: incoming).status == 200)
        #expect(try kiosk.status(of: "v2.0.0").state == "good")
    }

    // MARK: Two versions at once

    private static let holding = "navigation.addEventListener('navigate', event => event.preventDefault());\n"

    @Test func `a window gets the files of its version during a switch, until another window loads the next version`()
        throws
    {
        try kiosk.install(.doing("1.0.0", DemoClient.Scripts.confirm))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        let lazy = "fetch('/lazy.js', {cache: 'no-store'}).then(answer => answer.text())"
        #expect(try text(page, lazy) == "lazy 1.0.0")
        let cookie = try serving.ask("GET /", ["Accept": "text/html"])["Set-Cookie"]?.split(separator: ";").first ?? ""

        // The window stays in the middle of the switch: the server has switched, and the page may not reload.
        try page.evaluate(Self.holding + "null")
        try kiosk.install(.doing("2.0.0", DemoClient.Scripts.confirm))
        let plugin = "Capacitor.Plugins.CapacitorMeteorWebApp"
        try page.wait(until: "\(plugin).isUpdateAvailable().then(answer => answer.available)")
        try page.evaluate("\(plugin).reload().then(() => null)")
        #expect(try text(page, lazy) == "lazy 1.0.0")

        let other = try page.openBeside(serving.root + "/")
        try shows(other, "2.0.0")
        #expect(try text(other, lazy) == "lazy 2.0.0")
        // The cookie belongs to the browser, not to the window, so only one version works for both windows.
        #expect(try text(page, lazy) == "lazy 2.0.0")
        #expect(try serving.ask("GET /lazy.js", ["Cookie": String(cookie)]).text == "lazy 1.0.0")
    }

    @Test func `a hidden tab reloads when another one loads the next client`() throws {
        try kiosk.install(.doing("1.0.0", DemoClient.Scripts.confirm))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        try page.evaluate(DemoClient.Scripts.hide + "null")
        try kiosk.install(.doing("2.0.0", DemoClient.Scripts.confirm))
        let other = try page.openBeside(serving.root + "/")
        try shows(other, "2.0.0")
        try shows(page, "2.0.0")
    }

    @Test func `checkForUpdates returns the result of the check`() throws {
        try kiosk.install(.doing("1.0.0", DemoClient.Scripts.confirm))
        let serving = try kiosk.serve(["--manifest", kiosk.manifest, "--trust", kiosk.trust, "--check-interval", "24h"])
        let page = try browser.open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        let plugin = "Capacitor.Plugins.CapacitorMeteorWebApp"
        try page.evaluate("\(plugin).addListener('upToDate', event => { window.current = event.version }); null")
        // A slow check returns `checking`.
        let ask = """
            (async () => {
              let answer;
              do { answer = await \(plugin).checkForUpdates() } while (answer.outcome === 'checking');
              return JSON.stringify(answer);
            })()
            """
        // The event is sent only to a page that already listens.
        try page.wait(for: "it listens") { $0.sentMessages.contains { $0.contains("\"listen\"") } }
        #expect(try text(page, ask) == #"{"outcome":"upToDate"}"#)
        try page.wait(until: "window.current === '1.0.0'")
        let next = DemoClient.doing("2.0.0", DemoClient.Scripts.confirm)
        try kiosk.publish(try kiosk.folder.writeTree(next.files, to: "web-2.0.0"), as: "2.0.0")
        #expect(try text(page, ask) == #"{"outcome":"updateAvailable","version":"2.0.0"}"#)
        try kiosk.folder.write(bytes("{"), to: "feed/manifest.json")
        #expect(try text(page, ask).contains(#""outcome":"failed""#))
    }

    @Test func `a link and a form that launch the next client lead to their addresses`() throws {
        let page = """
            document.body.innerHTML = '<a href="/orders/7?tab=2">orders</a>'
              + '<form action="/find"><input name=q value=screws><button>find</button></form>';

            """
        try kiosk.install(.doing("1.0.0", page + DemoClient.Scripts.confirm))
        let serving = try kiosk.serve()
        let window = try browser.open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        for (number, (click, address)) in [
            ("a", "/orders/7?tab=2"), ("button", "/find?q=screws"), ("a", "/orders/7?tab=2"),
            ("button", "/find?q=screws"),
        ].enumerated() {
            let version = "1.\(number + 1).0"
            _ = try window.evaluate(
                "window.isReady = false; WebAppLocalServer.onNewVersionReady(() => { window.isReady = true })")
            try kiosk.install(.doing(version, page + DemoClient.Scripts.confirm))
            try window.wait(until: "window.isReady")
            _ = try window.evaluate("document.querySelector('\(click)').click()")
            try window.wait(until: "window.version === '\(version)' && window.confirmed")
            #expect(try text(window, "location.pathname + location.search") == address)
        }
    }

    @Test func `serve reloads a page again when the page cancels the navigation, and logs it`()
        throws
    {
        let keeping = """
            var kept = 0;
            navigation.addEventListener('navigate', event => { kept += 1; if (kept < 2) event.preventDefault(); });

            """
        try kiosk.install(.doing("1.0.0", keeping + DemoClient.Scripts.confirm))
        let serving = try kiosk.serve(["--activation-window", "00:00-24:00"])
        let window = try browser.open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(.good("2.0.0"))
        try shows(window, "2.0.0")
        let deadline = ContinuousClock.now + Browser.patience
        while true {
            let log = try serving.program.printed().errors
            if log.contains("it did not reload") { break }
            try #require(ContinuousClock.now < deadline, "\(log)")
            poll(nil, 0, 20)
        }
    }

    @Test func `a switch reloads every window`() throws {
        try kiosk.install(.doing("1.0.0", DemoClient.Scripts.confirm))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        let other = try page.openBeside(serving.root + "/deep/link")
        try kiosk.install(.good("2.0.0"))
        try page.wait(until: "Capacitor.Plugins.CapacitorMeteorWebApp.isUpdateAvailable().then(a => a.available)")
        try page.evaluate("WebAppLocalServer.switchToPendingVersion(); null")
        try shows(page, "2.0.0")
        try shows(other, "2.0.0")
        #expect(try text(other, "location.pathname") == "/deep/link")
        #expect(try text(other, "sessionStorage.shown") == "1.0.0; 2.0.0; ")
        try kiosk.wait(until: "v2.0.0", is: "good")
        #expect(try token(page) == token(other))
    }

    @Test func `reloading a page launches the pending client in every window`() throws {
        try kiosk.install(.doing("1.0.0", DemoClient.Scripts.confirm))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        let other = try page.openBeside(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(.doing("2.0.0", DemoClient.Scripts.confirm))
        try page.wait(until: "Capacitor.Plugins.CapacitorMeteorWebApp.isUpdateAvailable().then(a => a.available)")
        #expect(try serving.ask("GET /lazy.js").text == "lazy 1.0.0")
        // A probe does not launch the client, because no page shows the response.
        #expect(try serving.ask("GET /").text.contains("1.0.0"))
        try page.reload()
        try shows(page, "2.0.0")
        try shows(other, "2.0.0")
        try kiosk.wait(until: "v2.0.0", is: "good")
    }

    @Test func `hidden windows hold none of the browser's six connections`() throws {
        try kiosk.install(.doing("1.0.0", DemoClient.Scripts.confirm + DemoClient.Scripts.hide))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        for _ in 0..<8 { try shows(try page.openBeside(serving.root + "/"), "1.0.0") }
        #expect(try text(page, "fetch('/lazy.js').then(answer => answer.text())") == "lazy 1.0.0")
    }

    @Test(arguments: [false, true]) func `a download continues while its page is hidden or closed`(isClosed: Bool)
        throws
    {
        try kiosk.publish(try kiosk.folder.writeTree(DemoClient("2.0.0").files, to: "next"), as: "2.0.0")
        let path = "/releases/v2.0.0/client-v2.0.0.tar.zst"
        let archive = try contents(ofFile: kiosk.folder.file("feed") + path)
        let gate = try Gate()
        let server = try LoopbackServer(folder: kiosk.folder.file("feed"))
        let held = Route.resource(archive, entityTag: "\"one\"")
        server.set(path, held.with { $0.pace = .held(after: archive.count / 2, gate) })
        let serving = try kiosk.serve([
            "--manifest", try server.url("/manifest.json").display, "--trust", kiosk.trust, "--check-interval", "1s",
        ])
        var page: BrowserPage? = try browser.open(serving.root + "/")
        try page.map { try shows($0, "embedded") }
        #expect(server.wait(for: path))
        if isClosed { page = nil } else { try page?.evaluate(DemoClient.Scripts.hide) }
        gate.open()
        try kiosk.wait(until: "v2.0.0", is: "staged")
        if let page { #expect(try text(page, "version") == "embedded") }
    }

    // MARK: The trial

    @Test func `a trial is suspended while its page is hidden`() throws {
        try kiosk.install(.good("1.0.0", atOnce: true))
        let limit = BusyMachine.seconds(3)
        let serving = try kiosk.serve(timeout: "\(limit)s")
        let page = try browser.open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(.unseen("2.0.0", ""))
        try shows(page, "2.0.0")
        try page.evaluate("new Promise(done => setTimeout(() => done(null), \(limit + 1)000))")
        #expect(try text(page, "version") == "2.0.0")
        #expect(try kiosk.status(of: "v2.0.0").state == "trial")
        try page.evaluate(DemoClient.Scripts.show + "null")
        try shows(page, "1.0.0")
        #expect(try kiosk.status(of: "v2.0.0").failures.map { $0["cause"] } == [.string("notConfirmed")])
    }

    @Test func `a trial continues for the other windows when one of them closes`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve(timeout: "\(BusyMachine.seconds(6))s")
        let page = try browser.open(serving.root + "/")
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(.doing("2.0.0", ""))
        try shows(page, "2.0.0")
        var other: BrowserPage? = try page.openBeside(serving.root + "/")
        try other.map { try shows($0, "2.0.0") }
        other = nil
        try kiosk.wait(until: "v2.0.0", is: "failed")
        try shows(page, "1.0.0")
    }

    @Test func `a probe starts a trial without its timeout until a browser connects`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve(timeout: "200ms")
        #expect(try serving.ask("GET /", ["Accept": "*/*"]).status == 200)
        let end = ContinuousClock.now + .seconds(2)
        while ContinuousClock.now < end { #expect(try kiosk.status(of: "v1.0.0").state == "trial") }
        // The program requests the page like a browser but reports nothing, so the launch ends without a verdict.
        #expect(try serving.ask("GET /", ["Accept": "text/html"]).status == 200)
        try kiosk.wait(until: "v1.0.0", is: "staged")
        #expect(try kiosk.status(of: "v1.0.0").failures.isEmpty)
    }

    @Test func `a page that is reloaded keeps its launch and can confirm`() throws {
        try kiosk.install(.doing("1.0.0", Self.idle))
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        let first = try token(page)
        #expect(try kiosk.status(of: "v1.0.0").state == "trial")
        let launch = try kiosk.status()["launch"]
        try page.reload()
        try page.reload()
        #expect(try token(page) == first)
        #expect(try kiosk.status()["launch"] == launch)
        try page.evaluate(DemoClient.Scripts.confirm + "null")
        try page.wait(until: "window.confirmed")
        #expect(try kiosk.status(of: "v1.0.0").state == "good")
    }

    @Test func `a page that reloads itself repeatedly does not extend its trial`() throws {
        let again =
            "note('tokens', document.querySelector('meta[name=clientctl-token]').content);\n"
            + "setTimeout(() => location.reload(), 300);"
        try kiosk.install(.doing("1.0.0", again))
        // Each load has that much time to send its first report.
        let serving = try kiosk.serve(timeout: "\(BusyMachine.seconds(6))s")
        let page = try browser.open(serving.root + "/")
        try shows(page, "embedded", within: .seconds(180))
        let failures = try kiosk.status(of: "v1.0.0").failures
        #expect(failures.map { $0["cause"] } == [.string("notConfirmed")])
        let tokens = try text(page, "sessionStorage.tokens").split(separator: ";").map { $0.filter { $0 != " " } }
        #expect(tokens.filter { !$0.isEmpty }.count > 1)
        #expect(Set(tokens.filter { !$0.isEmpty }).count == 1)
    }
}
