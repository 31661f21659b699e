import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// The content that `clientctl serve` shows in each state of its device, requested over HTTP.
@Suite(.ownThread) struct ServeStateTests {
    let kiosk: Kiosk

    init() throws { kiosk = try Kiosk() }

    /// Returns the response to a navigation.
    private func document(_ serving: Serving, sourceLocation: SourceLocation = #_sourceLocation) throws -> String {
        let answer = try serving.ask("GET /", ["Accept": "text/html"])
        #expect(answer.status == 200, sourceLocation: sourceLocation)
        return answer.text
    }

    private func wait(_ serving: Serving, for text: String, body: () throws -> Void = {}) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while true {
            try body()
            let shown = try document(serving)
            if shown.contains(text) { return }
            try #require(ContinuousClock.now < deadline, "no \(text): \(shown)")
            poll(nil, 0, 50)
        }
    }

    private func expectClosed(_ serving: Serving) throws {
        for path in ["/app.js", "/lazy.js", "/clients/v1.0.0/", "/clients/v1.0.0/app.js", "/clients/embedded/app.js"] {
            #expect(try serving.ask("GET \(path)").status == 404, "\(path)")
        }
        #expect(try serving.ask("GET /clients/").text == #"{"versions":[]}"#)
    }

    @Test func `serve shows the client without sessions and stores no session file`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        #expect(try document(serving).contains("version 1.0.0"))
        #expect(try serving.ask("GET /app.js").text.contains("var version = '1.0.0'"))
        #expect(access("\(kiosk.store)/session.json", F_OK) != 0)
    }

    @Test func `serve shows the client to a logged-in user`() throws {
        try kiosk.install(.good("1.0.0"))
        try kiosk.login()
        let serving = try kiosk.serve()
        #expect(try document(serving).contains("version 1.0.0"))
    }

    @Test func `serve shows only the seed to guests at every address`() throws {
        try kiosk.install(.good("1.0.0"))
        try kiosk.login()
        try kiosk.on("session logout")
        let serving = try kiosk.serve()
        #expect(try document(serving).contains("version embedded"))
        #expect(try serving.ask("GET /app.js").text.contains("var version = 'embedded'"))
        #expect(try serving.ask("GET /clients/").text == #"{"versions":["embedded"]}"#)
        #expect(try serving.ask("GET /clients/v1.0.0/").status == 404)
        #expect(try serving.ask("GET /clients/embedded/").status == 200)
        #expect(try kiosk.status()["launch"] == .null)
    }

    @Test(arguments: [[], ["--maintenance"]]) func `serve shows only the lock page on a locked device`(more: [String])
        throws
    {
        try kiosk.install(.good("1.0.0"))
        try kiosk.on("screen lock", more)
        let serving = try kiosk.serve()
        #expect(try document(serving).contains("data-state=\"\(more.isEmpty ? "locked" : "maintenance")\""))
        try expectClosed(serving)
        #expect(try kiosk.status()["launch"] == .null)
    }

    @Test(.needsBrowser, arguments: ["screen lock", "session logout"])
    func `screen lock and session logout replace a page with a beforeunload dialog`(command: String) throws {
        let asking =
            "addEventListener('beforeunload', event => { event.preventDefault(); event.returnValue = 'stay'; });"
        try kiosk.install(.doing("1.0.0", asking + DemoClient.Scripts.confirm))
        try kiosk.login()
        let serving = try kiosk.serve()
        let page = try Browser.forAllTests().open(serving.root + "/some/route")
        try page.wait(until: "window.confirmed")
        // A browser shows the dialog only after a user action in the page.
        try page.evaluate("document.body.click(); null")
        try kiosk.on(command)
        try page.wait(
            until: command == "screen lock"
                ? "document.querySelector('[data-state=locked]')" : "window.version === 'embedded'"
        )
        if command == "screen lock" {
            try kiosk.on("screen unlock")
            try page.wait(until: "window.version === '1.0.0' && location.pathname === '/some/route'")
        }
    }

    @Test(.needsBrowser) func `a used page without input returns to its start unless it is busy, an unused page stays`()
        throws
    {
        let asking =
            "addEventListener('beforeunload', event => { event.preventDefault(); event.returnValue = 'stay'; });"
        try kiosk.install(.doing("1.0.0", asking + DemoClient.Scripts.confirm))
        let serving = try kiosk.serve(["--idle-reset", "5s"])
        let pages = try (0..<3).map { _ in
            try Browser.forAllTests().open(serving.root + "/some/route", inWindow: true)
        }
        let (unused, busy, used) = (pages[0], pages[1], pages[2])
        // An evaluation counts as input, so nothing is evaluated in the unused page.
        for page in [busy, used] { try page.wait(until: "window.confirmed") }
        try busy.evaluate("Capacitor.Plugins.CapacitorMeteorWebApp.busy({ busy: true }); null")
        for page in [busy, used] { try page.click(x: 5, y: 5) }
        try used.wait(for: "the used page returns") { $0.loads == 2 }
        #expect(try used.evaluate("location.pathname") == .string("/"))
        #expect(busy.loads == 1)
        try busy.evaluate("Capacitor.Plugins.CapacitorMeteorWebApp.busy({}); null")
        try busy.wait(for: "the page that is no longer busy returns") { $0.loads == 2 }
        #expect(unused.loads == 1)
    }

    @Test func `serve shows the previous client with a notice when the shell is too old`() throws {
        try kiosk.install(.good("1.0.0"))
        try kiosk.installForNewerShell("2.0.0", shell: "9.0.0")
        let serving = try kiosk.serve()
        let text = try document(serving)
        #expect(text.contains("version 1.0.0"))
        #expect(text.contains("clientctl-update-required"))
        #expect(text.contains("version 9.0.0 or later"))
        #expect(try kiosk.status()["updateRequired"] == .string("9.0.0"))
        #expect(try kiosk.status(of: "v1.0.0").state == "trial")
    }

    @Test func `serve shows a failure page without a client until one is installed`() throws {
        try kiosk.login()
        let serving = try Serving(
            try kiosk.start(["serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--port", "0"]))
        #expect(try document(serving).contains("data-state=\"failure\""))
        #expect(try document(serving).contains("The log of this device contains the reason"))
        #expect(try serving.program.printed().errors.contains("There is nothing to launch"))
        try expectClosed(serving)
        try kiosk.install(.good("1.0.0"))
        try wait(serving, for: "version 1.0.0")
    }

    @Test func `serve names the device, the silent server and the time on its waiting page`() throws {
        let waiting = try Serving(
            try kiosk.start([
                "serve", "--store", kiosk.store, "--manifest", "http://127.0.0.1:9/manifest.json", "--trust",
                kiosk.trust,
                "--roster", "http://127.0.0.1:9/roster", "--name", "Lobby <3>", "--port", "0",
            ]))
        try wait(waiting, for: "data-state=\"waiting\"")
        try wait(waiting, for: "<p class=\"device\">Lobby &lt;3&gt;<br>No answer from 127.0.0.1 since 20")
        #expect(try document(waiting).contains("(networkUnavailable)."))
    }

    @Test func `serve shows guests a signed-out page without a seed`() throws {
        try kiosk.install(.good("1.0.0"))
        try kiosk.login()
        try kiosk.on("session logout")
        let serving = try Serving(
            try kiosk.start(["serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--port", "0"]))
        let shown = try document(serving)
        #expect(shown.contains("data-state=\"signedOut\"") && shown.contains("No user is signed in."), "\(shown)")
        #expect(!shown.contains("nothing to launch"))
        try expectClosed(serving)
        let log = try serving.program.printed().errors
        #expect(log.contains("no session: No seed is set for guests: name one with --seed."), "\(log)")
        try kiosk.login()
        try wait(serving, for: "version 1.0.0")
    }

    @Test func `serve treats unreadable sessions as logged out and reports them once`() throws {
        try kiosk.install(.good("1.0.0"))
        try kiosk.login()
        chmod("\(kiosk.store)/session.json", 0o644)
        let serving = try kiosk.serve()
        #expect(try document(serving).contains("version embedded"))
        poll(nil, 0, 1500)
        let log = try serving.program.printed().errors
        #expect(log.ranges(of: "Other users can read or change").count == 1, "\(log)")
        chmod("\(kiosk.store)/session.json", 0o600)
        try wait(serving, for: "version 1.0.0")
    }

    @Test func `serve follows lock, unlock, login and logout of other commands`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        try wait(serving, for: "version 1.0.0")
        try kiosk.login()
        #expect(try document(serving).contains("version 1.0.0"))
        try kiosk.on("screen lock")
        try wait(serving, for: "data-state=\"locked\"")
        try expectClosed(serving)
        try kiosk.on("screen unlock")
        try wait(serving, for: "version 1.0.0")
        try kiosk.on("session logout")
        try wait(serving, for: "version embedded")
        // The session must last long enough for this machine to show the client.
        var isShown = false
        for time in [2, 5, 15, 40] where !isShown {
            try kiosk.login(["--expires", "\(time)s"])
            let end = ContinuousClock.now + .seconds(time)
            while !isShown, ContinuousClock.now < end {
                isShown = try document(serving).contains("version 1.0.0")
                if !isShown { poll(nil, 0, 50) }
            }
        }
        #expect(isShown)
        // The session expires without a command.
        try wait(serving, for: "version embedded")
        #expect(try kiosk.status()["session"]?.objectValue?["state"] == .string("expired"))
        try kiosk.on("session logout", ["--forget"])
        try wait(serving, for: "version 1.0.0")
        // The session ended during the client's trial several times, which does not count as a failure.
        #expect(try kiosk.status(of: "v1.0.0").failures.isEmpty)
    }

    @Test func `status reports a page that did not load or may still show the previous client`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        func screen() throws -> String? { try kiosk.status()["screen"]?.stringValue }
        func isWaiting() -> Bool { access("\(kiosk.store)/screen.json", F_OK) == 0 }
        #expect(isWaiting())
        #expect(try screen() == nil)
        try wait(serving, for: "version 1.0.0")
        #expect(!isWaiting())
        try kiosk.on("screen lock")
        let deadline = ContinuousClock.now + Browser.patience
        while try screen() == nil {
            try #require(ContinuousClock.now < deadline, "status does not report it")
            poll(nil, 0, 100)
        }
        #expect(try screen()?.contains("may still be on the screen") == true)
        try wait(serving, for: "data-state=\"locked\"")
        #expect(try screen() == nil)
        serving.program.send(SIGTERM)
        #expect(try serving.program.wait(within: Browser.patience)?.status == 0)
        #expect(!isWaiting())
    }

    @Test func `serve returns no files of the client on an open connection after a lock`() throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve()
        let connection = try RawConnection(port: serving.port)
        func get(_ path: String) throws -> RawResponse {
            connection.send("GET \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(serving.port)\r\nAccept: text/html\r\n\r\n")
            return try connection.receiveAnswer()
        }
        #expect(try get("/").text.contains("version 1.0.0"))
        #expect(try get("/app.js").status == 200)
        try kiosk.on("screen lock")
        // The server closes connections that are idle for half a minute.
        try wait(serving, for: "data-state=\"locked\"") { _ = try get("/app.js") }
        #expect(try get("/app.js").status == 404)
    }

    @Test func `repeated 401 responses of the feed end the session and show the seed`() throws {
        try kiosk.install(.good("1.0.0"))
        let server = try LoopbackServer(["/manifest.json": Route(bytes("no"), status: 401)])
        try kiosk.login()
        // The session after two rejections in the last minutes.
        let now = Timestamp.now.secondsSinceEpoch
        let (first, last) = (Timestamp(clamping: now - 600), Timestamp(clamping: now - 60))
        let session = String(decoding: try contents(ofFile: "\(kiosk.store)/session.json"), as: UTF8.self)
        let rejections = #""rejections": {"count": 2, "first": "\#(first)", "last": "\#(last)"}, "session":"#
        try kiosk.folder.write(bytes(session.replacing(#""session":"#, with: rejections)), to: "store/session.json")
        chmod("\(kiosk.store)/session.json", 0o600)
        let serving = try kiosk.serve([
            "--manifest", "\(server.root)/manifest.json", "--trust", kiosk.trust, "--check-interval", "1s",
        ])
        try wait(serving, for: "version embedded")
        #expect(server.requests.first?["Authorization"] == "Bearer kiosk.t0ken")
        #expect(try kiosk.status()["session"]?.objectValue?["ended"]?.objectValue?["cause"] == .string("rejected"))
        var deadline = ContinuousClock.now + Browser.patience
        while try !serving.program.printed().errors.contains("Log in again") {
            try #require(ContinuousClock.now < deadline, "the log does not suggest a login")
            poll(nil, 0, 20)
        }
        let log = try serving.program.printed()
        #expect(!(log.errors + log.output).contains("t0ken"))
        // After a new login, requests carry the new token.
        server.set("/manifest.json", Route(try contents(ofFile: kiosk.manifest)))
        try kiosk.login()
        try wait(serving, for: "version 1.0.0")
        deadline = ContinuousClock.now + Browser.patience
        while server.requests.last?["Authorization"] != "Bearer kiosk.t0ken" {
            try #require(ContinuousClock.now < deadline, "the request lacks the token")
            poll(nil, 0, 50)
        }
    }

    @Test func `serve checks a channel automatically`() throws {
        let server = try LoopbackServer(["/channels/stable.json": Route(bytes("no"), status: 404)])
        let serving = try kiosk.serve([
            "--channel", "\(server.root)/channels/stable.json", "--trust", kiosk.trust, "--check-interval", "1s",
        ])
        #expect(server.wait(for: "/channels/stable.json"))
        withExtendedLifetime(serving) {}
    }
}

/// The content of each state in a browser.
@Suite(.ownThread, .needsBrowser) struct ServeStatePagesTests {
    let browser: Browser
    let kiosk: Kiosk

    init() throws {
        browser = try Browser.forAllTests()
        kiosk = try Kiosk()
    }

    private func shows(_ page: BrowserPage, _ version: String) throws {
        try page.wait(until: "window.version === '\(version)' && document.readyState === 'complete'")
    }

    private func shows(_ page: BrowserPage, state: String) throws {
        try page.wait(until: "document.readyState === 'complete' && document.body.dataset.state === '\(state)'")
    }

    @Test func `a window follows login, lock, maintenance and guests`() throws {
        try kiosk.install(.good("1.0.0", "#2e7d32"))
        try kiosk.login()
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/", inWindow: true)
        try shows(page, "1.0.0")
        try kiosk.wait(until: "v1.0.0", is: "good")
        var pictures = [try ScreenshotFolder.keep(page, as: "state-1-authenticated")]

        try kiosk.on("screen lock")
        try shows(page, state: "locked")
        #expect(try page.evaluate("document.querySelector('h1').textContent").stringValue == "Locked")
        pictures.append(try ScreenshotFolder.keep(page, as: "state-2-locked"))

        try kiosk.on("screen lock", ["--maintenance"])
        try shows(page, state: "maintenance")
        pictures.append(try ScreenshotFolder.keep(page, as: "state-3-maintenance"))

        try kiosk.on("screen unlock")
        try shows(page, "1.0.0")

        try kiosk.on("session logout")
        try shows(page, "embedded")
        pictures.append(try ScreenshotFolder.keep(page, as: "state-4-unauthenticated"))
        #expect(Set(pictures).count == pictures.count)
        #expect(try kiosk.status(of: "v1.0.0").state == "good")

        try kiosk.login()
        try shows(page, "1.0.0")
        #expect(!page.console.contains { $0.text.contains("Content Security Policy") })
    }

    @Test(arguments: [
        ("de-DE, en;q=0.5", "de", "Gesperrt"), ("fr", "fr", "Verrouill\u{E9}"), ("es-MX", "es", "Bloqueado"),
        ("ja", "ja", "\u{30ED}\u{30C3}\u{30AF}\u{4E2D}"), ("en-GB", "en", "Closed for today"),
        ("xx", "en", "Closed for today"),
    ])
    func `a state page has the language of the browser, and the texts and style of --texts and --style`(
        accepted: String, language: String, title: String
    ) throws {
        try kiosk.install(.good("1.0.0"))
        try kiosk.on("screen lock")
        let texts = try kiosk.folder.write(bytes(#"{"en": {"locked.title": "Closed for today"}}"#), to: "texts.json")
        let style = try kiosk.folder.write(bytes("h1 { color: rgb(1, 2, 3) }"), to: "style.css")
        let serving = try kiosk.serve(["--texts", texts, "--style", style])
        let answer = try serving.ask("GET /", ["Accept": "text/html", "Accept-Language": accepted])
        #expect(answer.text.contains("<html lang=\"\(language)\">") && answer.text.contains("<h1>\(title)</h1>"))
        let page = try browser.open(serving.root + "/")
        try shows(page, state: "locked")
        #expect(try page.evaluate("getComputedStyle(document.querySelector('h1')).color").stringValue == "rgb(1, 2, 3)")
        #expect(page.console.filter { $0.text.contains("Content Security Policy") } == [])
    }

    @Test func `a client that failed twice leaves the window, and the next one comes into it`() throws {
        try kiosk.install(.doing("1.0.0", ""))
        let serving = try Serving(
            try kiosk.start([
                "serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--startup-timeout", "2s", "--port", "0",
                "--activation-window", "always",
            ]))
        let page = try browser.open(serving.root + "/", inWindow: true)
        try shows(page, state: "failure")
        #expect(
            try page.evaluate("document.querySelector('p').innerText").stringValue?.contains("versionBlocked") == true)
        #expect(try serving.program.printed().errors.contains("error[versionBlocked]: There is nothing to launch"))
        try kiosk.install(.good("2.0.0"))
        try shows(page, "2.0.0")
    }

    @Test(arguments: [("auto", false, true), ("on", true, true), ("off", false, false)])
    func `a page shows the notice by the choice of the device`(choice: String, atOnce: Bool, afterInput: Bool) throws {
        try kiosk.install(.good("1.0.0"))
        try kiosk.installForNewerShell("2.0.0", shell: "9.0.0")
        let serving = try kiosk.serve(["--notice", choice])
        let page = try browser.open(serving.root + "/", inWindow: true)
        try shows(page, "1.0.0")
        try page.wait(until: "window.confirmed")
        let notice = "!!document.getElementById('clientctl-update-required')"
        // An event of the page's own scripts is no input of a person.
        try page.evaluate("window.dispatchEvent(new Event('pointerdown')) && 0")
        #expect(try page.evaluate(notice) == .bool(atOnce))
        try page.click(x: 5, y: 200)
        #expect(try page.evaluate(notice) == .bool(afterInput))
    }

    @Test func `a window shows a notice above the client when the shell is too old`() throws {
        var client = DemoClient.good("1.0.0", "#2e7d32")
        // The page's own policy does not block the notice.
        client.head = "<meta http-equiv=Content-Security-Policy content=\"script-src 'self'\">"
        client.script += "document.querySelector('p').style.paddingTop = '3em';"
        try kiosk.install(client)
        try kiosk.installForNewerShell("2.0.0", shell: "9.0.0")
        let serving = try kiosk.serve(["--notice", "on"])
        let page = try browser.open(serving.root + "/", inWindow: true)
        try shows(page, "1.0.0")
        try page.wait(until: "document.getElementById('clientctl-update-required') && window.confirmed")
        let text = try page.evaluate(
            "document.getElementById('clientctl-update-required').shadowRoot.querySelector('.notice').innerText"
        ).stringValue
        #expect(text?.contains("needs a newer shell, version 9.0.0 or later") == true)
        #expect(
            try page.evaluate(
                "(() => { let b = document.getElementById('clientctl-update-required').getBoundingClientRect();"
                    + " return b.top === 0 && b.left === 0 && b.width === innerWidth && b.height < innerHeight / 2 })()"
            )
                == .bool(true))
        let noticed = try ScreenshotFolder.keep(page, as: "state-5-update-required")
        try kiosk.wait(until: "v1.0.0", is: "good")
        try page.evaluate(
            "document.querySelector('#clientctl-update-required').shadowRoot.querySelector('button').click()")
        #expect(try page.evaluate("document.getElementById('clientctl-update-required')") == .null)
        #expect(try page.screenshot() != noticed)
    }

    /// Opens a page as a logged-in user and leaves data in the browser.
    private func pageOfUser() throws -> (serving: Serving, page: BrowserPage) {
        try kiosk.install(.good("1.0.0"))
        try kiosk.login()
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/")
        try shows(page, "1.0.0")
        try page.evaluate("localStorage.left = 'mine'; document.cookie = 'left=1; Max-Age=999'; window.isOld = 1; null")
        return (serving, page)
    }

    /// Stores a value and loads the page again, which still has it. A page that loads during a change of state reloads
    /// itself once more.
    private func leave(_ value: String, in page: BrowserPage, of serving: Serving) throws {
        try page.wait(until: "(localStorage.left = '\(value)', true)")
        let deadline = ContinuousClock.now + Browser.patience
        var isLoaded = false
        while !isLoaded {
            do {
                try page.navigate(serving.root + "/?again")
                isLoaded = true
            } catch BrowserError.notLoaded(_, "net::ERR_ABORTED") where ContinuousClock.now < deadline {
                poll(nil, 0, 100)
            }
        }
        try page.wait(until: "location.search === '?again' && document.readyState === 'complete'")
        try page.wait(until: "localStorage.left === '\(value)'")
    }

    /// The stored value and whether there is a cookie.
    private let left = "[localStorage.left, /left/.test(document.cookie)].join()"

    @Test(arguments: [false, true])
    func `browser data of a session is cleared when it ends, unless the seed keeps it`(keeps: Bool) throws {
        var seed = DemoClient("embedded")
        if keeps { seed.head = "<meta name=\"clientctl-site-data\" content=\"keep\">" }
        try kiosk.folder.writeTree(seed.files, to: "seed")
        let (serving, page) = try pageOfUser()
        // A lock does not end a session.
        try kiosk.on("screen lock")
        try shows(page, state: "locked")
        try kiosk.on("screen unlock")
        try shows(page, "1.0.0")
        #expect(try page.evaluate(left).stringValue == "mine,true")
        try kiosk.on("session logout")
        try shows(page, "embedded")
        #expect(try page.evaluate(left).stringValue == (keeps ? "mine,true" : ",false"))
        // Data of guests is kept.
        try leave("guest", in: page, of: serving)
        try shows(page, "embedded")
    }

    @Test(arguments: [["session logout", "--forget"], ["session logout", "session login"]])
    func `browser data of a session is cleared for the next user, whose own data stays`(commands: [String]) throws {
        let (serving, page) = try pageOfUser()
        if commands.last == "session login" {
            // Both commands run before the shell checks the session, so no guest sees a page.
            try kiosk.on("session logout")
            try kiosk.login()
        } else {
            try kiosk.on(commands[0], Array(commands.dropFirst()))
        }
        // The data is cleared while the old page is still shown, just before it reloads.
        try page.wait(until: "!window.isOld")
        try page.wait(until: "\(left) === ',false'")
        try shows(page, "1.0.0")
        try leave("theirs", in: page, of: serving)
        try shows(page, "1.0.0")
    }

    @Test(arguments: [false, true])
    func `a hidden page of an ended session reloads`(isSeenFirst: Bool) throws {
        let (serving, page) = try pageOfUser()
        let token = try #require(
            try page.evaluate("document.querySelector('meta[name=clientctl-token]').content").stringValue)
        // The hidden page receives no events and makes no calls that could be rejected.
        try page.wait(until: "window.confirmed")
        try page.evaluate(DemoClient.Scripts.hide + "null")
        try page.wait(for: "both visibility reports have arrived") {
            $0.sentMessages.count { $0.contains("\"visibility\"") } == 2
        }
        #expect(try serving.call("getCurrentVersion", token: token).status == 200)
        try kiosk.on("session logout", ["--forget"])
        // The server rejects calls of the page as soon as the shell has read the session.
        try page.wait(for: "calls of the old page are rejected") { _ in
            try serving.call("getCurrentVersion", token: token).status == 403
        }
        #expect(try page.evaluate("window.isOld") == .integer(1))
        if isSeenFirst {
            try page.evaluate(DemoClient.Scripts.show + "null")
        } else {
            try shows(page.openBeside(serving.root + "/"), "1.0.0")
        }
        try page.wait(until: "!window.isOld")
        try shows(page, "1.0.0")
    }

    @Test func `a window shows a failure page until a client is installed`() throws {
        try kiosk.login()
        let serving = try Serving(
            try kiosk.start(["serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--port", "0"]))
        let page = try browser.open(serving.root + "/", inWindow: true)
        try shows(page, state: "failure")
        _ = try ScreenshotFolder.keep(page, as: "state-6-failure")
        try kiosk.install(.good("1.0.0"))
        try shows(page, "1.0.0")
    }
}

extension Kiosk {
    /// Logs in with a token.
    func login(_ more: [String] = []) throws {
        let token = try folder.write(bytes("kiosk.t0ken\n"), to: "token")
        try run(["session", "login", "--store", store, "--token-file", token, "--create"] + more)
    }

    /// Runs a command on the store.
    func on(_ command: String, _ more: [String] = []) throws {
        try run(command.split(separator: " ").map(String.init) + ["--store", store] + more)
    }

    /// Publishes and installs a client that requires shell `shell`, as a newer shell did before an older one replaced
    /// it.
    func installForNewerShell(_ version: String, shell: String) throws {
        let source = try folder.writeTree(DemoClient.good(version).files, to: "web-\(version)")
        try run([
            "publish", source, "--version", version, "--feed", folder.file("feed"), "--key",
            folder.file("release.key.pem"), "--min-shell", shell, "--level", "1",
        ])
        try run(["install", "--manifest", manifest, "--trust", trust, "--store", store, "--shell-version", shell])
    }
}
