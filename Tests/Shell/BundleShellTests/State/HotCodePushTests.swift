import BundleCore
import BundleTestTraits
import BundleValues
import BundleDisk
import BundleTesting
import BundleShell
import MeteorTesting
import Testing

/// The Capacitor plugin's suites of injected parts (METEOR sections 8.5 and 8.6) against an embedded shell with a
/// real server, a real store, a bridge without a web view, and a manual clock.
@Suite("ClientShell with a Meteor server", .inTurn)
struct HotCodePushTests {
    // MARK: Serving the seed

    @Test("ST-01, ST-04: start passes one serving folder to the bridge")
    func handsFolderOver() async throws {
        let fixture = try PushFixture()
        let shell = try fixture.shell()
        #expect(fixture.bridge.calls == [])
        try await shell.start()
        #expect(fixture.bridge.calls == ["base embedded"])
        #expect(fixture.bridge.basePath.hasPrefix("\(fixture.store)/serving/"))
        #expect(File.exists("\(fixture.bridge.basePath)/index.html"))
    }

    @Test("ST-02, ST-03, ST-05: the page and its assets exist at their URLs, and other URLs do not")
    func servesSeed() async throws {
        let fixture = try PushFixture()
        _ = try await fixture.start()
        let page = String(decoding: try #require(try fixture.bridge.served("/")), as: UTF8.self)
        #expect(page.contains("<title>mobileapp</title>"))
        #expect(page.contains("WebAppLocalServer"))
        try fixture.expectPage(of: .version1)
        for url in ["/not-in-manifest", "/app/some-file", "/some-other-file", "/head.html", "/program.json"] {
            #expect(try fixture.bridge.served(url) == nil, "\(url)")
        }
    }

    @Test("ST-06, ST-08, ST-11: reports the version of the seed and no available update")
    func knowsVersion() async throws {
        let fixture = try PushFixture()
        let session = try await fixture.start()
        #expect(await session.shell.currentVersion == .embedded)
        #expect(await !session.shell.isUpdateAvailable)
        let ledger = try fixture.ledger()
        #expect(ledger.seedFacts?.version.description == "version1")
        #expect(try await session.shell.meteorAppId() == CordovaBundles.appId)
        #expect(fixture.server.allRequests.isEmpty, "no check without being asked")
        #expect(fixture.warningLines == [])
    }

    @Test("ST-07, ST-10: shells of two stores are independent, and a second shell of one store is rejected")
    func sharesNothing() async throws {
        let (one, other) = (try PushFixture(), try PushFixture())
        var first = try await one.start()
        let second = try await other.start()
        let failure = #expect(throws: UpdateFailure.self) { try one.shell() }
        #expect(failure?.code == .storeLocked)
        try await first.follow(.version2)
        try one.expectPage(of: .version2)
        try other.expectPage(of: .version1)
        #expect(await second.shell.currentVersion == .embedded)
        #expect(try other.versionsOnDisk() == [])
        #expect(other.bridge.calls == ["base embedded"])
    }

    // MARK: From the seed to a bundle, and on

    @Test("SW-49: a downloaded bundle becomes available and is reported once")
    func tellsOfBundle() async throws {
        let fixture = try PushFixture()
        var session = try await fixture.start()
        try await session.check(.version2)
        let name = try #require(await session.shell.availableVersion)
        #expect(name.description == "meteor-version2")
        #expect(await session.shell.isUpdateAvailable)
        let ledger = try fixture.ledger()
        #expect(ledger.pending == name)
        #expect(ledger.offered == name)
        #expect(await session.shell.currentVersion == .embedded)
        #expect(fixture.bridge.calls == ["base embedded"])
        try fixture.expectPage(of: .version1)
        // A second check finds the same version and reports nothing.
        try await session.shell.checkForUpdates()
        fixture.server.fault("/manifest.json", .status(500))
        await #expect(throws: UpdateFailure.self) { try await session.shell.checkForUpdates() }
        #expect(await session.events.line() == "error httpStatus")
        #expect(await session.shell.availableVersion == name)
    }

    @Test("SW-50: reload shows the downloaded bundle, and the bridge serves it")
    func switchesOnReload() async throws {
        let fixture = try PushFixture()
        var session = try await fixture.start()
        try await session.check(.version2)
        try await session.reload()
        let name = try #require(await session.shell.currentVersion)
        #expect(name.description == "meteor-version2")
        #expect(await !session.shell.isUpdateAvailable)
        #expect(try fixture.ledger().current == name)
        #expect(try fixture.ledger().pending == nil)
        #expect(fixture.bridge.calls == ["base embedded", "base meteor-version2", "reload"])
        #expect(fixture.bridge.basePath == "\(fixture.store)/serving/meteor-version2")
        #expect(File.exists("\(fixture.bridge.basePath)/index.html"))
        await #expect(throws: ShellError.noPendingVersion) { try await session.shell.reload() }
        #expect(fixture.bridge.reloads == 1)
    }

    @Test(
        "ST-12, ST-13, ST-14: downloads only changed files, serves the others from the seed, and keeps the version across restarts"
    )
    func followsFromSeed() async throws {
        let fixture = try PushFixture()
        do {
            var session = try await fixture.start()
            try await session.check(.version2)
            fixture.expectRequests(page: true, fixture.template(of: .version2) + ["/some-file", "/some-other-file"])
            try fixture.expectPage(of: .version1)
            try await session.reload()
            try fixture.expectPage(of: .version2)
            try await session.confirm()
        }
        let again = try await fixture.start()
        #expect(again.launched.name.description == "meteor-version2")
        #expect(!again.launched.isTrial)
        try fixture.expectPage(of: .version2)
    }

    @Test("ST-15, ST-16, ST-17, ST-19: downloads only changed files from one bundle to the next")
    func followsFromBundle() async throws {
        let fixture = try PushFixture()
        do {
            var session = try await fixture.start()
            try await session.follow(.version2)
            try await session.check(.version3)
            // Another file of version2 is also in version3.
            fixture.expectRequests(page: true, fixture.template(of: .version3) + ["/some-file"])
            #expect(await session.shell.currentVersion?.description == "meteor-version2")
            try fixture.expectPage(of: .version2)
            try await session.reload()
            try fixture.expectPage(of: .version3)
            try await session.confirm()
        }
        #expect(try await fixture.start().launched.name.description == "meteor-version3")
        try fixture.expectPage(of: .version3)
    }

    @Test(
        "ST-18: removes a superseded bundle once the newer one has started, and keeps the one that ran before")
    func removesOvertaken() async throws {
        let fixture = try PushFixture()
        var session = try await fixture.start { $0.keep = 1 }
        try await session.follow(.version3)
        try await session.check(.version2)
        try await session.reload()
        #expect(try fixture.versionsOnDisk() == ["version2", "version3"])
        try await session.confirm()
        // The plugin removes it here; this store keeps it for a rollback without a network.
        #expect(try fixture.versionsOnDisk() == ["version2", "version3"])

        let other = try PushFixture()
        var second = try await other.start { $0.keep = 1 }
        try await second.check(.version2)
        try await second.check(.version3)
        try await second.reload()
        try await second.confirm()
        #expect(try other.versionsOnDisk() == ["version3"])
        try other.expectPage(of: .version3)
    }

    // MARK: Back to the seed

    @Test("ST-20, ST-21, ST-22, ST-24, ST-25: returns to the seed when the server returns to its version")
    func goesBackToSeed() async throws {
        let fixture = try PushFixture()
        do {
            var session = try await fixture.start { $0.keep = 1 }
            try await session.follow(.version2)
            try await session.check(.version1, as: "embedded")
            fixture.expectRequests(page: false, [])
            try fixture.expectPage(of: .version2)
            try await session.reload()
            #expect(await session.shell.currentVersion == .embedded)
            try fixture.expectPage(of: .version1)
            try await session.confirm()
            // The plugin removes version2 here; this store keeps it as the previous client.
            #expect(try fixture.versionsOnDisk() == ["version2"])
        }
        #expect(try await fixture.start().launched.name == .embedded)
        try fixture.expectPage(of: .version1)
    }

    @Test("ST-23, ST-26, ST-27: a check for the running version sends one request and reports nothing")
    func staysCurrent() async throws {
        let fixture = try PushFixture()
        var session = try await fixture.start()
        for version in [CordovaVersion.version1, .version2] {
            if version == .version2 { try await session.follow(version) }
            try fixture.server.serve(version: version.rawValue)
            try await session.shell.checkForUpdates()
            fixture.expectRequests(page: false, [])
            #expect(await !session.shell.isUpdateAvailable)
            // The next event is of another kind.
            fixture.server.fault("/manifest.json", .status(500), times: 1)
            await #expect(throws: UpdateFailure.self) { try await session.shell.checkForUpdates() }
            #expect(await session.events.line() == "error httpStatus")
        }
    }

    // MARK: Starts that fail

    /// Returns a shell on which version2 is confirmed and version3 has just been shown.
    private func trial(
        _ fixture: PushFixture, configure: (inout ShellConfiguration) throws -> Void = { _ in }
    ) async throws -> PushSession {
        var session = try await fixture.start(configure: configure)
        try await session.follow(.version2)
        try await session.check(.version3)
        try await session.reload()
        #expect(session.launched.isTrial)
        return session
    }

    /// Expects that version3 has failed once and version2 is shown.
    private func expectReverted(_ fixture: PushFixture, _ session: inout PushSession) async throws {
        #expect(await session.events.line() == "rolled back meteor-version3 to meteor-version2: healthFailed")
        // The event precedes the call of the bridge.
        while fixture.bridge.reloads < 3 { try await Task.sleep(for: .milliseconds(2)) }
        #expect(fixture.bridge.basePath == "\(fixture.store)/serving/meteor-version2")
        try fixture.expectPage(of: .version2)
        #expect(try await session.shell.pageWillLoad().name.description == "meteor-version2")
        #expect(await session.events.line() == "launched meteor-version2")
        #expect(await session.shell.currentVersion?.description == "meteor-version2")
        #expect(await !session.shell.isUpdateAvailable)
        let ledger = try fixture.ledger()
        #expect(ledger.pending == nil)
        #expect(ledger.lastKnownGood.description == "meteor-version2")
        #expect(ledger.records.filter { !$0.failures.isEmpty }.map(\.version.description) == ["version3"])
        #expect(ledger.records.flatMap(\.failures).map(\.cause) == [.notConfirmed])
        #expect(ledger.blocks.isEmpty)
    }

    @Test("SW-51: the startup timer pauses in the background and continues in the foreground")
    func pausesInBackground() async throws {
        let fixture = try PushFixture()
        var session = try await trial(fixture) { $0.startupTimeout = try StartupTimeout(.milliseconds(200)) }
        await fixture.clock.sleeper(until: .milliseconds(200))
        fixture.clock.advance(by: .milliseconds(50))
        await session.shell.pageDidHide(session.launched.token)
        await fixture.clock.noSleeper(until: .milliseconds(200))
        fixture.clock.advance(by: .milliseconds(350))
        #expect(await session.shell.currentVersion?.description == "meteor-version3")
        #expect(try fixture.ledger().launch?.isOpenTrial == true)
        #expect(fixture.bridge.reloads == 2)
        await session.shell.pageDidShow(session.launched.token)
        await fixture.clock.sleeper(until: .milliseconds(550))
        fixture.clock.advance(by: .milliseconds(149))
        #expect(try fixture.ledger().launch?.isOpenTrial == true)
        fixture.clock.advance(by: .milliseconds(1))
        try await expectReverted(fixture, &session)
        #expect(fixture.bridge.reloads == 3)
    }

    @Test("two checks at once report one installation once")
    func reportsInstallationOnce() async throws {
        let fixture = try PushFixture()
        var session = try await fixture.start()
        try fixture.server.serve(version: "version3")
        let shell = session.shell
        async let first: Void = shell.checkForUpdates()
        async let second: Void = shell.checkForUpdates()
        _ = try await (first, second)
        try fixture.server.serve(version: "version2")
        try await session.shell.checkForUpdates()
        for version in ["version3", "version2"] {
            #expect(await session.events.installation()?.name.description == "meteor-\(version)")
        }
    }

    @Test("reports the size of an installed push, and refuses a reload before the second trial of one that failed")
    func reportsSecondTrial() async throws {
        let fixture = try PushFixture()
        var session = try await fixture.start()
        try fixture.server.serve(version: "version3")
        try await session.shell.checkForUpdates()
        let installed = try #require(await session.events.installation())
        #expect(installed.name.description == "meteor-version3" && installed.bytes > 0 && installed.size > 0)
        #expect(await session.events.line() == "available meteor-version3")
        try await session.reload()
        await fixture.clock.sleeper(until: .seconds(10))
        fixture.clock.advance(by: .seconds(10))
        guard case .rolledBack(_, let other, let reason)? = await session.events.next() else {
            Issue.record("no rollback")
            return
        }
        #expect(other == .embedded)
        #expect(reason.message.contains(". It failed once, and is tried once more with a check after "))
        _ = try await session.shell.pageWillLoad()
        try await session.shell.checkForUpdates()
        let error = await #expect(throws: ShellError.self) { try await session.shell.reload() }
        #expect(error?.code == "noPendingVersion")
        #expect(error?.failure.message.hasPrefix("meteor-version3 failed once") == true)
    }

    @Test("SW-52, ST-09: an unconfirmed start is rolled back to the last confirmed version")
    func revertsOnTimeout() async throws {
        let fixture = try PushFixture()
        var session = try await trial(fixture)
        await fixture.clock.sleeper(until: .seconds(10))
        fixture.clock.advance(by: .seconds(10))
        try await expectReverted(fixture, &session)
        #expect(fixture.bridge.reloads == 3)
        #expect(
            fixture.bridge.calls.suffix(4) == ["base meteor-version3", "reload", "base meteor-version2", "reload"])
        // A check after a pause offers it again; a second failure is final.
        fixture.clock.advance(by: RetryRule.standardPause)
        // The version before has confirmed an earlier start, but not this one.
        #expect(await session.events.line().hasPrefix("unconfirmed meteor-version2: "))
        try await session.check(.version3)
        fixture.expectRequests(page: false, [])
        try await session.reload()
        await fixture.clock.sleeper(until: .seconds(20) + RetryRule.standardPause)
        fixture.clock.advance(by: .seconds(10))
        #expect(await session.events.line() == "rolled back meteor-version3 to meteor-version2: healthFailed")
        #expect(try fixture.ledger().blocks.map(\.version.description) == ["version3"])
        await #expect(throws: UpdateFailure.self) { try await session.shell.checkForUpdates() }
    }
}
