import BundleCore
import BundleTestTraits
import BundleValues
import BundleDisk
import BundleTesting
import ClientShell
import MeteorTesting
import Testing

/// The Capacitor plugin's suites of injected parts (METEOR sections 8.5 and 8.6), through the shell that a program embeds: a real
/// server, a real store, a bridge that serves nobody, and a time that stands still.
@Suite("a shell that follows a Meteor server", .inTurn)
struct HotCodePushTests {
    // MARK: Serving the seed

    @Test("ST-01, ST-04: a start hands a serving folder to the bridge that is there, once")
    func handsFolderOver() async throws {
        let bench = try PushBench()
        let shell = try bench.shell()
        #expect(bench.bridge.calls == [])
        try await shell.start()
        #expect(bench.bridge.calls == ["base embedded"])
        #expect(bench.bridge.basePath.hasPrefix("\(bench.store)/serving/"))
        #expect(File.exists("\(bench.bridge.basePath)/index.html"))
    }

    @Test("ST-02, ST-03, ST-05: page and assets are there by their URLs, and nothing else")
    func servesSeed() async throws {
        let bench = try PushBench()
        _ = try await bench.start()
        let page = String(decoding: try #require(try bench.bridge.served("/")), as: UTF8.self)
        #expect(page.contains("<title>mobileapp</title>"))
        #expect(page.contains("WebAppLocalServer"))
        try bench.expectPage(of: .version1)
        for url in ["/not-in-manifest", "/app/some-file", "/some-other-file", "/head.html", "/program.json"] {
            #expect(try bench.bridge.served(url) == nil, "\(url)")
        }
    }

    @Test("ST-06, ST-08, ST-11: the seed's version is known, and nothing is available")
    func knowsVersion() async throws {
        let bench = try PushBench()
        let session = try await bench.start()
        #expect(await session.shell.currentVersion == .embedded)
        #expect(await !session.shell.isUpdateAvailable)
        let ledger = try bench.ledger()
        #expect(ledger.seedFacts?.version.description == "version1")
        #expect(try await session.shell.meteorAppId() == CordovaBundles.appId)
        #expect(bench.server.allRequests.isEmpty, "no check without being asked")
        #expect(bench.warningLines == [])
    }

    @Test("ST-07, ST-10: shells of two stores know nothing of each other; a second one of a store is refused")
    func sharesNothing() async throws {
        let (one, other) = (try PushBench(), try PushBench())
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

    @Test("SW-49: a bundle that is downloaded is next, and told once")
    func tellsOfBundle() async throws {
        let bench = try PushBench()
        var session = try await bench.start()
        try await session.check(.version2)
        let name = try #require(await session.shell.availableVersion)
        #expect(name.description == "meteor-version2")
        #expect(await session.shell.isUpdateAvailable)
        let ledger = try bench.ledger()
        #expect(ledger.pending == name)
        #expect(ledger.offered == name)
        #expect(await session.shell.currentVersion == .embedded)
        #expect(bench.bridge.calls == ["base embedded"])
        try bench.expectPage(of: .version1)
        // A second check finds what is there, and tells nothing.
        try await session.shell.checkForUpdates()
        bench.server.fault("/manifest.json", .status(500))
        await #expect(throws: UpdateFailure.self) { try await session.shell.checkForUpdates() }
        #expect(await session.events.line() == "error httpStatus")
        #expect(await session.shell.availableVersion == name)
    }

    @Test("SW-50: a reload switches to it, and the bridge serves it")
    func switchesOnReload() async throws {
        let bench = try PushBench()
        var session = try await bench.start()
        try await session.check(.version2)
        try await session.reload()
        let name = try #require(await session.shell.currentVersion)
        #expect(name.description == "meteor-version2")
        #expect(await !session.shell.isUpdateAvailable)
        #expect(try bench.ledger().current == name)
        #expect(try bench.ledger().pending == nil)
        #expect(bench.bridge.calls == ["base embedded", "base meteor-version2", "reload"])
        #expect(bench.bridge.basePath == "\(bench.store)/serving/meteor-version2")
        #expect(File.exists("\(bench.bridge.basePath)/index.html"))
        await #expect(throws: ShellError.noPendingVersion) { try await session.shell.reload() }
        #expect(bench.bridge.reloads == 1)
    }

    @Test("ST-12, ST-13, ST-14: only changes come, the rest answers, and a restart remembers")
    func followsFromSeed() async throws {
        let bench = try PushBench()
        do {
            var session = try await bench.start()
            try await session.check(.version2)
            bench.expectRequests(page: true, bench.template(of: .version2) + ["/some-file", "/some-other-file"])
            try bench.expectPage(of: .version1)
            try await session.reload()
            try bench.expectPage(of: .version2)
            try await session.confirm()
        }
        let again = try await bench.start()
        #expect(again.launched.name.description == "meteor-version2")
        #expect(!again.launched.isTrial)
        try bench.expectPage(of: .version2)
    }

    @Test("ST-15, ST-16, ST-17, ST-19: so it is from one bundle to the next")
    func followsFromBundle() async throws {
        let bench = try PushBench()
        do {
            var session = try await bench.start()
            try await session.follow(.version2)
            try await session.check(.version3)
            // Another file of version2 is that of version3, too.
            bench.expectRequests(page: true, bench.template(of: .version3) + ["/some-file"])
            #expect(await session.shell.currentVersion?.description == "meteor-version2")
            try bench.expectPage(of: .version2)
            try await session.reload()
            try bench.expectPage(of: .version3)
            try await session.confirm()
        }
        #expect(try await bench.start().launched.name.description == "meteor-version3")
        try bench.expectPage(of: .version3)
    }

    @Test(
        "ST-18: a bundle that another one has overtaken goes when that one has started; the one that ran before stays")
    func removesOvertaken() async throws {
        let bench = try PushBench()
        var session = try await bench.start { $0.keep = 1 }
        try await session.follow(.version3)
        try await session.check(.version2)
        try await session.reload()
        #expect(try bench.versionsOnDisk() == ["version2", "version3"])
        try await session.confirm()
        // The peers remove it here; it is the way back without a network.
        #expect(try bench.versionsOnDisk() == ["version2", "version3"])

        let other = try PushBench()
        var second = try await other.start { $0.keep = 1 }
        try await second.check(.version2)
        try await second.check(.version3)
        try await second.reload()
        try await second.confirm()
        #expect(try other.versionsOnDisk() == ["version3"])
        try other.expectPage(of: .version3)
    }

    // MARK: Back to the seed

    @Test("ST-20, ST-21, ST-22, ST-24, ST-25: where the server goes back to the seed's version, so does the device")
    func goesBackToSeed() async throws {
        let bench = try PushBench()
        do {
            var session = try await bench.start { $0.keep = 1 }
            try await session.follow(.version2)
            try await session.check(.version1, as: "embedded")
            bench.expectRequests(page: false, [])
            try bench.expectPage(of: .version2)
            try await session.reload()
            #expect(await session.shell.currentVersion == .embedded)
            try bench.expectPage(of: .version1)
            try await session.confirm()
            // The peers remove version2 here; it is what ran before, and stays.
            #expect(try bench.versionsOnDisk() == ["version2"])
        }
        #expect(try await bench.start().launched.name == .embedded)
        try bench.expectPage(of: .version1)
    }

    @Test("ST-23, ST-26, ST-27: the version that runs costs one request, and nothing is told")
    func staysCurrent() async throws {
        let bench = try PushBench()
        var session = try await bench.start()
        for version in [CordovaVersion.version1, .version2] {
            if version == .version2 { try await session.follow(version) }
            try bench.server.serve(version: version.rawValue)
            try await session.shell.checkForUpdates()
            bench.expectRequests(page: false, [])
            #expect(await !session.shell.isUpdateAvailable)
            // The next event is another one.
            bench.server.fault("/manifest.json", .status(500), times: 1)
            await #expect(throws: UpdateFailure.self) { try await session.shell.checkForUpdates() }
            #expect(await session.events.line() == "error httpStatus")
        }
    }

    // MARK: Starts that fail

    /// A shell on which version2 is good and version3 has just been shown.
    private func trial(
        _ bench: PushBench, configure: (inout ShellConfiguration) throws -> Void = { _ in }
    ) async throws -> PushSession {
        var session = try await bench.start(configure: configure)
        try await session.follow(.version2)
        try await session.check(.version3)
        try await session.reload()
        #expect(session.launched.isTrial)
        return session
    }

    /// Expects that version3 has failed once and version2 is shown.
    private func expectReverted(_ bench: PushBench, _ session: inout PushSession) async throws {
        #expect(await session.events.line() == "rolled back meteor-version3 to meteor-version2: healthFailed")
        // It is told before the bridge is.
        while bench.bridge.reloads < 3 { try await Task.sleep(for: .milliseconds(2)) }
        #expect(bench.bridge.basePath == "\(bench.store)/serving/meteor-version2")
        try bench.expectPage(of: .version2)
        #expect(try await session.shell.pageWillLoad().name.description == "meteor-version2")
        #expect(await session.events.line() == "launched meteor-version2")
        #expect(await session.shell.currentVersion?.description == "meteor-version2")
        #expect(await !session.shell.isUpdateAvailable)
        let ledger = try bench.ledger()
        #expect(ledger.pending == nil)
        #expect(ledger.lastKnownGood.description == "meteor-version2")
        #expect(ledger.records.filter { !$0.failures.isEmpty }.map(\.version.description) == ["version3"])
        #expect(ledger.records.flatMap(\.failures).map(\.cause) == [.notConfirmed])
        #expect(ledger.blocks.isEmpty)
    }

    @Test("SW-51: the startup timer stands still in the background and goes on in the foreground")
    func pausesInBackground() async throws {
        let bench = try PushBench()
        var session = try await trial(bench) { $0.startupTimeout = try StartupTimeout(.milliseconds(200)) }
        await bench.clock.sleeper(until: .milliseconds(200))
        bench.clock.advance(by: .milliseconds(50))
        await session.shell.pageDidHide(session.launched.token)
        await bench.clock.noSleeper(until: .milliseconds(200))
        bench.clock.advance(by: .milliseconds(350))
        #expect(await session.shell.currentVersion?.description == "meteor-version3")
        #expect(try bench.ledger().launch?.isOpenTrial == true)
        #expect(bench.bridge.reloads == 2)
        await session.shell.pageDidShow(session.launched.token)
        await bench.clock.sleeper(until: .milliseconds(550))
        bench.clock.advance(by: .milliseconds(149))
        #expect(try bench.ledger().launch?.isOpenTrial == true)
        bench.clock.advance(by: .milliseconds(1))
        try await expectReverted(bench, &session)
        #expect(bench.bridge.reloads == 3)
    }

    @Test("SW-52, ST-09: a start that is not confirmed in time goes back to the last known good version")
    func revertsOnTimeout() async throws {
        let bench = try PushBench()
        var session = try await trial(bench)
        await bench.clock.sleeper(until: .seconds(10))
        bench.clock.advance(by: .seconds(10))
        try await expectReverted(bench, &session)
        #expect(bench.bridge.reloads == 3)
        #expect(
            bench.bridge.calls.suffix(4) == ["base meteor-version3", "reload", "base meteor-version2", "reload"])
        // It is retried after a pause: a check offers what is here, a second failure is the last.
        bench.clock.advance(by: RetryRule.standardPause)
        // Nothing confirmed the start of the version before, which has been confirmed earlier.
        #expect(await session.events.line().hasPrefix("unconfirmed meteor-version2: "))
        try await session.check(.version3)
        bench.expectRequests(page: false, [])
        try await session.reload()
        await bench.clock.sleeper(until: .seconds(20) + RetryRule.standardPause)
        bench.clock.advance(by: .seconds(10))
        #expect(await session.events.line() == "rolled back meteor-version3 to meteor-version2: healthFailed")
        #expect(try bench.ledger().blocks.map(\.version.description) == ["version3"])
        await #expect(throws: UpdateFailure.self) { try await session.shell.checkForUpdates() }
    }
}
