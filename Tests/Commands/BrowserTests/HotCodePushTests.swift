import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import MeteorTesting
import Testing

/// Meteor's hot code push with the built program, a real browser and pages that ask for updates.
@Suite(.ownThread, .needsBrowser) struct HotCodePushTests {
    let browser: Browser
    let push: PushKiosk
    var kiosk: Kiosk { push.kiosk }

    init() throws {
        browser = try Browser.forAllTests()
        push = try PushKiosk(.good("version1", "#dff0ff"))
    }

    private static let broken = "throw new Error('version 3 is broken');"
    private static let check = "WebAppLocalServer.checkForUpdates(); null"
    private static let show = DemoClient.Scripts.show + "null"

    private func shows(_ page: BrowserPage, _ version: String) throws {
        try page.wait(until: "window.version === '\(version)' && document.readyState === 'complete'")
    }

    private func text(_ page: BrowserPage, _ expression: String) throws -> String {
        try page.evaluate(expression).stringValue ?? "null"
    }

    /// Returns status, type and body of a request from the page.
    private func fetched(_ page: BrowserPage, _ url: String, _ headers: String = "{}") throws -> String {
        let script = """
            fetch('\(url)', {cache: 'no-store', headers: \(headers)}).then(async answer =>
              [answer.status, answer.headers.get('Content-Type'), answer.headers.get('Content-Range'), await answer.text()]
                .join('|'))
            """
        return try text(page, script)
    }

    /// Opens a page that shows version1 after the check that `serve` makes at its start.
    private func opened(_ serving: Serving) throws -> BrowserPage {
        let page = try browser.open(serving.root + "/", inWindow: true)
        try shows(page, "version1")
        try page.wait(until: "window.confirmed")
        // The check of the page replaces the first automatic check of `serve`.
        let checks = push.checks
        try page.evaluate(Self.check)
        try push.wait(forChecks: checks + 1)
        return page
    }

    // MARK: One window

    @Test func `a page follows hot code pushes, is rolled back, and a version that fails twice is blocked`() throws {
        let serving = try push.serve(timeout: "\(BusyMachine.seconds(5))s", interval: "20s")
        let page = try opened(serving)
        let checks = push.checks
        let first = try ScreenshotFolder.keep(page, as: "push-1-version-1")

        try push.push(.good("version2", "#e0ffe0", atOnce: true))
        // A new version on the server changes nothing until the page asks.
        try page.evaluate("new Promise(done => setTimeout(() => done(null), 1500))")
        #expect(try text(page, "version") == "version1")
        #expect(push.checks == checks)
        try page.evaluate(Self.check)
        try shows(page, "version2")
        #expect(try text(page, "sessionStorage.news") == "string version2; ")
        try kiosk.wait(until: "meteor-version2", is: "good")
        let second = try ScreenshotFolder.keep(page, as: "push-2-version-2")

        try push.push(.unseen("version3", Self.broken, "#ffe0e0"))
        try page.evaluate(Self.check)
        try shows(page, "version3")
        let third = try ScreenshotFolder.keep(page, as: "push-3-version-3-on-trial")
        try page.evaluate(Self.show)
        try shows(page, "version2")
        let fourth = try ScreenshotFolder.keep(page, as: "push-4-version-2-after-rollback")
        let failed = try kiosk.status(of: "meteor-version3")
        #expect(failed.state == "failed")
        #expect(failed.failures.map { $0["cause"] } == [.string("notConfirmed")])
        #expect(failed.failures.first?["detail"]?.stringValue?.contains("Error: version 3 is broken") == true)
        try page.wait(until: "sessionStorage.errors === 'healthFailed; '")

        let downloads = push.server.requests.count
        // A check after the pause starts the retry.
        try shows(page, "version3")
        try page.evaluate(Self.show)
        try shows(page, "version2")
        try page.wait(until: "sessionStorage.errors === 'healthFailed; healthFailed; '")
        let fifth = try ScreenshotFolder.keep(page, as: "push-5-version-2-after-block")
        let blocked = try kiosk.status(of: "meteor-version3")
        #expect(blocked.state == "blocked")
        #expect(blocked.failures.count == 2)
        // The files are installed, so the retry requests only the manifest.
        #expect(push.server.requests.dropFirst(downloads).allSatisfy { $0.path == "/__cordova/manifest.json" })

        try page.evaluate(Self.check)
        try page.wait(until: "sessionStorage.errors === 'healthFailed; healthFailed; versionBlocked; '")
        #expect(try kiosk.status(of: "meteor-version2").state == "good")
        #expect(
            try text(page, "sessionStorage.shown")
                == "version1; version2; version3; version2; version3; version2; ")
        #expect(page.loads == 6)
        // One check at the start of `serve`, one for each call of the page, and those for the retry.
        #expect(push.checks >= 5)

        #expect(Set([first, second, third]).count == 3)
        #expect(fourth == second && fifth == second)
        withExtendedLifetime(serving) {}
    }

    @Test func `a window shows the confirmed push again after serve is killed during a trial`() throws {
        // The port of the application, because the system could give a free port to another process before it is
        // requested again.
        let killed = try push.serve(port: nil)
        let page = try opened(killed)
        try push.push(.good("version2"))
        try page.evaluate(Self.check)
        try shows(page, "version2")
        try kiosk.wait(until: "meteor-version2", is: "good")
        try push.push(.doing("version3", Self.broken))
        try page.evaluate(Self.check)
        try shows(page, "version3")
        #expect(try kiosk.status(of: "meteor-version3").state == "trial")
        killed.program.send(SIGKILL)
        #expect(try killed.program.wait(within: Browser.patience)?.signal == SIGKILL)
        // The server offers no new version when the shell checks at its start.
        try push.server.serve(version: "version2")

        let serving = try push.serve(port: killed.port)
        try shows(page, "version2")
        let interrupted = try kiosk.status(of: "meteor-version3")
        #expect(interrupted.state == "failed")
        #expect(interrupted.failures.map { $0["cause"] } == [.string("interrupted")])
        #expect(try text(page, "sessionStorage.shown") == "version1; version2; version3; version2; ")
        withExtendedLifetime(serving) {}
    }

    // MARK: Both sources

    @Test func `a window follows an archive, a push and a failing push on one device`() throws {
        try kiosk.publish(
            try kiosk.folder.writeTree(DemoClient.good("1.0.0", atOnce: true).files, to: "web-1.0.0"), as: "1.0.0")
        let feed = ["--manifest", kiosk.manifest, "--trust", kiosk.trust]
        let serving = try push.serve(timeout: "\(BusyMachine.seconds(5))s", feed)
        let page = try browser.open(serving.root + "/")
        try shows(page, "1.0.0")
        try kiosk.wait(until: "v1.0.0", is: "good")
        let sofar = try text(page, "sessionStorage.shown")

        try push.push(.good("version2", atOnce: true))
        try page.evaluate(Self.check)
        try shows(page, "version2")
        try kiosk.wait(until: "meteor-version2", is: "good")
        let loads = page.loads

        // The newer archive is installed and waits behind the push.
        try kiosk.publish(try kiosk.folder.writeTree(DemoClient.good("1.1.0").files, to: "web-1.1.0"), as: "1.1.0")
        try page.evaluate(Self.check)
        try kiosk.wait(until: "v1.1.0", is: "staged")
        #expect(try text(page, "version") == "version2")

        try push.push(.unseen("version3", Self.broken))
        try page.evaluate(Self.check)
        try shows(page, "version3")
        try page.evaluate(Self.show)
        try shows(page, "version2")
        #expect(try kiosk.status(of: "meteor-version3").state == "failed")
        #expect(try text(page, "sessionStorage.shown") == sofar + "version2; version3; version2; ")
        #expect(page.loads == loads + 2)
        // The retry starts with the next launch or when the page asks.
        #expect(try kiosk.status()["next"] == .string("meteor-version3"))
        withExtendedLifetime(serving) {}
    }

    @Test func `a failing first push falls back to the archive`() throws {
        try kiosk.publish(
            try kiosk.folder.writeTree(DemoClient.good("1.0.0", atOnce: true).files, to: "web-1.0.0"), as: "1.0.0")
        let serving = try push.serve(
            timeout: "\(BusyMachine.seconds(5))s", interval: "20s",
            ["--manifest", kiosk.manifest, "--trust", kiosk.trust])
        let page = try browser.open(serving.root + "/")
        try shows(page, "1.0.0")
        try kiosk.wait(until: "v1.0.0", is: "good")
        try push.push(.unseen("version3", Self.broken))
        for state in ["failed", "blocked"] {
            try page.evaluate(Self.check)
            try shows(page, "version3")
            try page.evaluate(Self.show)
            try shows(page, "1.0.0")
            #expect(try kiosk.status(of: "meteor-version3").state == state)
        }
        withExtendedLifetime(serving) {}
    }

    // MARK: Content of Meteor clients

    @Test func `N-03: downloads a file with two URLs once and serves both`() throws {
        let serving = try push.serve()
        let page = try opened(serving)
        var next = DemoClient.good("version2")
        next.more = ["motto.txt": "the motto"]
        try push.push(next) { builder in
            builder.hasPrefixedURLs = true
            builder.page.template = builder.page.template.map {
                bytes(
                    String(decoding: $0, as: UTF8.self).replacing("src=\"/app.js\"", with: "src=\"/__cordova/app.js\""))
            }
        }
        try page.evaluate(Self.check)
        try shows(page, "version2")
        #expect(push.server.requests.count { $0.path.hasSuffix("/motto.txt") } == 1)
        #expect(try fetched(page, "/motto.txt") == "200|text/plain; charset=utf-8||the motto")
        #expect(try fetched(page, "/__cordova/motto.txt") == "200|text/plain; charset=utf-8||the motto")
        withExtendedLifetime(serving) {}
    }

    @Test func `N-19: a file that the new version no longer lists returns 404, although the seed has it`() throws {
        let serving = try push.serve()
        let page = try opened(serving)
        #expect(try fetched(page, "/lazy.js") == "200|text/javascript; charset=utf-8||lazy version1")
        try push.push(.good("version2")) { $0.entries.removeAll { $0.path == "app/lazy.js" } }
        try page.evaluate(Self.check)
        try shows(page, "version2")
        #expect(try fetched(page, "/lazy.js").hasPrefix("404|"))
        #expect(try fetched(page, "/app.js").hasPrefix("200|text/javascript"))
        withExtendedLifetime(serving) {}
    }

    /// Ten seconds of silence, 8000 samples per second of one byte each.
    private static func tone() -> [UInt8] {
        let count = 80_000
        func little(_ number: Int, _ size: Int) -> [UInt8] { (0..<size).map { UInt8(number >> (8 * $0) & 255) } }
        let format = little(16, 4) + little(1, 2) + little(1, 2) + little(8000, 4) + little(8000, 4) + little(1, 2)
        return bytes("RIFF") + little(36 + count, 4) + bytes("WAVEfmt ") + format + little(8, 2) + bytes("data")
            + little(count, 4) + [UInt8](repeating: 128, count: count)
    }

    @Test func `serves fonts with their type, and media in ranges that a page can seek`() throws {
        let serving = try push.serve()
        let page = try opened(serving)
        var next = DemoClient.good("version2")
        next.head = """
            <style>@font-face { font-family: Probe; src: url(/probe.woff2) }
            body { font-family: Probe !important }</style>
            """
        try push.push(next) { builder in
            builder.entries += [
                BundleEntry("app/probe.woff2", url: "/probe.woff2", .text("no real font")),
                BundleEntry("app/tone.wav", url: "/tone.wav", .bytes(Self.tone())),
            ]
        }
        try page.evaluate(Self.check)
        try shows(page, "version2")
        try page.wait(for: "the font") {
            $0.requests.contains { $0.url.hasSuffix("/probe.woff2") && $0.status == 200 }
        }
        #expect(try fetched(page, "/probe.woff2") == "200|font/woff2||no real font")
        #expect(
            try fetched(page, "/tone.wav", "{Range: 'bytes=0-3'}") == "206|audio/wav|bytes 0-3/80044|RIFF")
        #expect(try fetched(page, "/tone.wav", "{Range: 'bytes=80044-'}").hasPrefix("416|"))
        let played = try page.evaluate(
            """
            new Promise((done, fail) => {
              const sound = new Audio('/tone.wav');
              sound.onerror = () => fail(sound.error.message);
              sound.onloadedmetadata = () => { sound.currentTime = 9 };
              sound.onseeked = () => done(sound.duration + ' ' + sound.currentTime);
            })
            """)
        #expect(played == .string("10 9"))
        #expect(page.requests.contains { $0.url.hasSuffix("/tone.wav") && $0.status == 206 })
        withExtendedLifetime(serving) {}
    }
}
