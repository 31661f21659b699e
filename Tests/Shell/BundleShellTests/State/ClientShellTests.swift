import BundleCore
import BundleTestTraits
import BundleValues
import BundleTesting
import BundleShell
import Testing

@Suite(.inTurn) struct ClientShellTests {
    /// Returns a shell whose page is loaded, and its events from then on.
    private static func running(_ fixture: ShellFixture, hasSeed: Bool = true) async throws -> (
        ClientShell, Launched, EventReader
    ) {
        let shell = try await fixture.nextShell(hasSeed: hasSeed)
        try await shell.start()
        let launched = try await shell.pageWillLoad()
        var events = EventReader(shell)
        _ = await events.next()
        return (shell, launched, events)
    }

    private static func good(_ versions: String...) async throws -> ShellFixture {
        let fixture = try await ShellFixture()
        for version in versions {
            try await fixture.install(version)
            let launched = try Launcher(
                .init(store: fixture.store, shell: fixture.version("1.0.0"), seed: nil, verifies: false),
                environment: Environment()
            ).launch()
            _ = try fixture.verdicts().confirm(launched.name, launched.token)
        }
        return fixture
    }

    // MARK: Launching

    @Test
    func `start passes the serving root to the bridge, and the first page load records the boot attempt`() async throws
    {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let shell = try fixture.shell()
        try await shell.start()
        #expect(fixture.bridge.calls == ["base v1.0.0"])
        #expect(fixture.bridge.pages.first?.contains("client 1.0.0") == true)
        #expect(await shell.nextLaunch == (try fixture.name("1.0.0")))
        #expect(await shell.currentVersion == nil)
        #expect(try fixture.ledger().launch == nil)
        let launched = try await shell.pageWillLoad()
        #expect(launched.isTrial)
        #expect(try fixture.ledger().launch?.isOpenTrial == true)
        #expect(await shell.currentVersion == (try fixture.name("1.0.0")))
        #expect(await shell.isCurrent(launched.token))
        #expect(await !shell.isCurrent(try .random()))
        var events = EventReader(shell)
        #expect(await events.line() == "launched v1.0.0 on trial")
    }

    @Test func `rolls back by hand, names the device's clients, and unblocks`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0", "2.0.0"])
        let shell = try fixture.shell()
        try await shell.start()
        try await shell.startupDidComplete(shell.pageWillLoad().token)
        #expect(try await shell.rollBack() == fixture.name("1.0.0"))
        #expect(fixture.bridge.calls.suffix(2) == ["base v1.0.0", "reload"])
        _ = try await shell.pageWillLoad()
        let status = try await shell.deviceStatus()
        #expect(status.running?.name == (try fixture.name("1.0.0")) && status.running?.facts?.size ?? 0 > 0)
        #expect(status.installed.first { $0.state == .blocked }?.name == (try fixture.name("2.0.0")))
        #expect(status.ready == nil && status.lastFailure == nil && !status.isRolledBack)
        #expect(try await shell.unblock(fixture.client("2.0.0")))
        #expect(try await !shell.unblock(fixture.client("2.0.0")))
        #expect(await shell.availableVersion == (try fixture.name("2.0.0")))
    }

    @Test func `refuses a rollback by hand without a lower client`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let shell = try fixture.shell(hasSeed: false)
        try await shell.start()
        let failure = await #expect(throws: UpdateFailure.self) { try await shell.rollBack() }
        #expect(failure?.code == .usage, "\(failure?.message ?? "")")
    }

    @Test func `a bridge calls a web view on the main thread in order`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let view = RecordingView()
        let shell = try fixture.shell(of: MainActorBridge(view))
        try await shell.start()
        let launched = try await shell.pageWillLoad()
        await shell.startupDidFail(launched.token, reason: "seen")
        let expected = ["base v1.0.0", "now v1.0.0", "base embedded", "now nothing", "reload"]
        while await view.calls.count < expected.count { await Task.yield() }
        #expect(await view.calls == expected)
    }

    @Test func `a reloaded page belongs to the same launch and keeps its remaining time`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(fixture)
        await fixture.clock.sleeper(until: .seconds(10))
        fixture.clock.advance(by: .seconds(9))
        #expect(try await shell.pageWillLoad().token == launched.token)
        fixture.clock.advance(by: .seconds(1))
        #expect(await events.line() == "rolled back v1.0.0 to embedded: healthFailed")
    }

    @Test func `the first page shows a client that was installed after start`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let shell = try fixture.shell()
        try await shell.start()
        try await fixture.install("1.1.0")
        #expect(try await shell.pageWillLoad().name == (try fixture.name("1.1.0")))
        #expect(fixture.bridge.calls == ["base v1.0.0", "base v1.1.0"])
    }

    @Test func `rejects a second shell on the same store`() async throws {
        let fixture = try await ShellFixture()
        let shell = try fixture.shell()
        let failure = #expect(throws: UpdateFailure.self) { try fixture.shell() }
        #expect(failure?.code == .storeLocked)
        try await shell.start()
    }

    // MARK: Verdicts

    @Test func `stops the startup timer when the client confirms`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(fixture)
        await fixture.clock.sleeper(until: .seconds(10))
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        #expect(await events.line() == "confirmed v1.0.0")
        await fixture.clock.noSleeper(until: .seconds(10))
        fixture.clock.advance(by: .seconds(100))
        // A second confirmation changes nothing; a failure would be the next event.
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        fixture.breakUpdates()
        await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(await events.line() == "error networkUnavailable")
        #expect(fixture.bridge.calls == ["base v1.0.0"])
        #expect(try fixture.ledger().lastKnownGood == (try fixture.name("1.0.0")))
    }

    @Test func `starts no startup timer for a confirmed client`() async throws {
        let fixture = try await Self.good("1.0.0")
        let shell = try fixture.shell()
        try await shell.start()
        #expect(try await !shell.pageWillLoad().isTrial)
        var events = EventReader(shell)
        #expect(await events.line() == "launched v1.0.0")
        fixture.clock.advance(by: .seconds(1000))
        #expect(await shell.currentVersion == (try fixture.name("1.0.0")))
        #expect(fixture.bridge.calls == ["base v1.0.0"])
    }

    @Test func `rolls an unconfirmed client back to the last confirmed one in the same window`() async throws {
        let fixture = try await Self.good("1.0.0")
        try await fixture.install("1.1.0")
        var (shell, launched, events) = try await Self.running(fixture)
        await fixture.clock.sleeper(until: .seconds(10))
        await shell.pageDidReport(launched.token, error: "TypeError: x")
        for complaint in ["TypeError: x", "a later one", "a third", "a fourth"] {
            await shell.pageDidReport(launched.token, error: complaint)
        }
        await shell.pageDidReport(launched.token, error: "no picture", isGrave: false)
        await shell.pageDidReport(try .random(), error: "another page's")
        for complaint in ["TypeError: x", "a later one", "a third", "a fourth", "no picture"] {
            #expect(await events.line() == "v1.1.0 complains: \(complaint)")
        }
        fixture.clock.advance(by: .seconds(10))
        guard case .rolledBack(_, let to, let failure) = await events.next() else {
            Issue.record("no fall")
            return
        }
        #expect(to == (try fixture.name("1.0.0")))
        #expect(failure.code == .healthFailed)
        #expect(
            failure.message.contains(
                "the page did not call startupDidComplete() within 10s; the page said: TypeError: x; a later one; a third."
            ))
        // The ledger is written first, so a shell that ends now starts the other client.
        #expect(try fixture.ledger().launch?.verdict == .faulty)
        #expect(try fixture.ledger().record(of: fixture.client("1.1.0"))?.failures.map(\.cause) == [.notConfirmed])
        let next = try await shell.pageWillLoad()
        #expect(next.name == to)
        #expect(!next.isTrial)
        #expect(await events.line() == "launched v1.0.0")
        #expect(fixture.bridge.calls == ["base v1.1.0", "base v1.0.0", "reload"])
        // The outgoing page has no effect on the incoming one.
        let late = await #expect(throws: UpdateFailure.self) { try await shell.startupDidComplete(launched.token) }
        #expect(late?.code == .versionMismatch)
        await shell.startupDidFail(launched.token, reason: "late")
        #expect(await shell.currentVersion == to)
    }

    @Test func `rejects a confirmation with the token of the outgoing page`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (shell, old, events) = try await Self.running(fixture)
        try await fixture.install("1.1.0")
        try await shell.reload()
        let new = try await shell.pageWillLoad()
        #expect(new.name == (try fixture.name("1.1.0")))
        let failure = await #expect(throws: UpdateFailure.self) { try await shell.startupDidComplete(old.token) }
        #expect(failure?.code == .versionMismatch)
        await shell.startupDidFail(old.token, reason: "late")
        await shell.pageDidHide(old.token)
        #expect(try fixture.ledger().launch?.isOpenTrial == true)
        // A page that requested the change did not fail.
        #expect(try fixture.ledger().record(of: fixture.client("1.0.0")) == nil)
        #expect(await events.line() == "available v1.1.0")
        #expect(await events.line() == "launched v1.1.0 on trial")
        // The time of the new client passes, whatever the old page does.
        await fixture.clock.sleeper(until: .seconds(10))
        fixture.clock.advance(by: .seconds(10))
        #expect(await events.line() == "rolled back v1.1.0 to v1.0.0: healthFailed")
    }

    @Test func `pauses the startup timer while the page is hidden`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(fixture)
        await fixture.clock.sleeper(until: .seconds(10))
        fixture.clock.advance(by: .seconds(4))
        await shell.pageDidHide(launched.token)
        await fixture.clock.noSleeper(until: .seconds(10))
        fixture.clock.advance(by: .seconds(3600))
        await shell.pageDidShow(launched.token)
        await fixture.clock.sleeper(until: .seconds(3610))
        fixture.clock.advance(by: .seconds(6))
        #expect(await events.line() == "rolled back v1.0.0 to embedded: healthFailed")
    }

    @Test func `accepts a confirmation of a hidden page`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(fixture)
        await shell.pageDidHide(launched.token)
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        #expect(await events.line() == "confirmed v1.0.0")
        await shell.pageDidShow(launched.token)
        fixture.clock.advance(by: .seconds(100))
        #expect(await shell.currentVersion == launched.name)
    }

    @Test func `fails a client on trial that the shell reports as failed`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(fixture)
        await shell.startupDidFail(try .random(), reason: "not mine")
        await shell.startupDidFail(launched.token, reason: "white screen")
        #expect(await events.line() == "rolled back v1.0.0 to embedded: healthFailed")
        let failure = try #require(try fixture.ledger().record(of: fixture.client("1.0.0"))?.failures.first)
        #expect(failure.cause == .reported)
        #expect(failure.detail == "white screen")
    }

    @Test func `does not repeat a verdict that another process wrote`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (_, launched, events) = try await Self.running(fixture)
        await fixture.clock.sleeper(until: .seconds(10))
        let failure = StartFailure(.reported, detail: "by hand", at: .now)
        _ = try fixture.verdicts().fail(launched.name, launched.token, failure)
        fixture.clock.advance(by: .seconds(10))
        #expect(await events.line() == "rolled back v1.0.0 to embedded: healthFailed")
        #expect(try fixture.ledger().record(of: fixture.client("1.0.0"))?.failures.count == 1)
    }

    @Test func `removes older clients after a confirmed start`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0", "1.1.0", "1.2.0", "1.3.0"])
        let shell = try fixture.shell { $0.keep = 2 }
        try await shell.start()
        let launched = try await shell.pageWillLoad()
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        await shell.stop()
        #expect(try await shell.clientNames().map(\.description) == ["embedded", "v1.2.0", "v1.3.0"])
    }

    @Test func `stopping the shell does not fail a client on trial`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        for _ in 0..<3 {
            let (shell, launched, _) = try await Self.running(fixture)
            #expect(launched.name == (try fixture.name("1.0.0")))
            #expect(launched.isTrial)
            await shell.stop()
            await #expect(throws: ShellError.notStarted) { try await shell.pageWillLoad() }
        }
        #expect(try fixture.ledger().record(of: fixture.client("1.0.0")) == nil)
    }

    @Test(arguments: [FailureCode.versionBlocked, .incompatibleShell])
    func `reports an offer that the device rejects once, and does not fail the check`(
        code: FailureCode
    ) async throws {
        let fixture = try await Self.good("1.0.0")
        var (shell, _, events) = try await Self.running(fixture)
        func refuse(_ version: String) throws {
            fixture.breakUpdates(
                UpdateFailure(
                    code, subject: version, "\(version) is not for this device.",
                    neededShell: code == .incompatibleShell ? try fixture.version("9.0.0") : nil))
        }
        try refuse("2.0.0")
        // A caller of the check receives the failure.
        for _ in 0..<3 { await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() } }
        let needed = code == .incompatibleShell ? "9.0.0" : nil
        #expect(await shell.missingShell?.description == needed)
        #expect(try await shell.admit(.everybody)?.description == needed)
        #expect(await events.line() == "error \(code)")
        try refuse("3.0.0")
        await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(await events.line() == "error \(code)")
        fixture.mendUpdates()
        try await shell.checkForUpdates()
        #expect(await shell.missingShell == nil)
        fixture.breakUpdates()
        await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(await events.line() == "error networkUnavailable")
    }

    @Test func `shows the clients of a store that replaced the former one`() async throws {
        let fixture = try await Self.good("1.0.0")
        let (shell, _, _) = try await Self.running(fixture)
        let run = Task { await shell.run() }
        defer { run.cancel() }
        await fixture.clock.sleeper(until: .milliseconds(500))
        try fixture.replaceStore()
        try await fixture.install("3.0.0")
        fixture.clock.advance(by: .milliseconds(500))
        await fixture.clock.sleeper(until: .milliseconds(1000))
        #expect(try await shell.pageWillLoad().name == (try fixture.name("3.0.0")))
        #expect(fixture.bridge.pages.last?.contains("client 3.0.0") == true)
        #expect(fixture.bridge.calls.suffix(2) == ["base v3.0.0", "reload"])
    }

    // MARK: Changing

    @Test func `rejects a reload without another client`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let (shell, launched, _) = try await Self.running(fixture)
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        #expect(await !shell.isUpdateAvailable)
        #expect(fixture.bridge.calls == ["base v1.0.0"])
        #expect(try await shell.pageWillLoad().token == launched.token)
    }

    @Test func `reports a client that another process installs once`() async throws {
        let fixture = try await Self.good("1.0.0")
        var (shell, launched, events) = try await Self.running(fixture)
        let run = Task { await shell.run() }
        defer { run.cancel() }
        var now = Duration.zero
        func readStore() async {
            now += .milliseconds(500)
            await fixture.clock.sleeper(until: now)
            fixture.clock.advance(by: .milliseconds(500))
        }
        await readStore()
        try await fixture.install("1.1.0")
        await readStore()
        #expect(await events.line() == "available v1.1.0")
        #expect(await shell.isUpdateAvailable)
        #expect(await shell.availableVersion == (try fixture.name("1.1.0")))
        #expect(fixture.bridge.calls == ["base v1.0.0"], "a page that is shown keeps its files")
        // Other changes of the ledger are not reported as an update.
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        #expect(await events.line() == "confirmed v1.0.0")
        for _ in 0..<3 { await readStore() }
        try await fixture.install("1.2.0")
        await readStore()
        #expect(await events.line() == "available v1.2.0")
        try await shell.reload()
        #expect(fixture.bridge.calls == ["base v1.0.0", "base v1.2.0", "reload"])
        #expect(await !shell.isUpdateAvailable)
        #expect(await shell.currentVersion == (try fixture.name("1.0.0")), "until the page loads")
        await readStore()
        #expect(try await shell.pageWillLoad().name == (try fixture.name("1.2.0")))
        #expect(await events.line() == "launched v1.2.0 on trial")
    }

    @Test func `does not show a client that was blocked before it was shown`() async throws {
        let fixture = try await Self.good("1.0.0")
        var (shell, _, events) = try await Self.running(fixture)
        fixture.offer("1.1.0")
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
        _ = try fixture.verdicts().rollBack(to: nil)
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        try await fixture.install("1.2.0")
        try await shell.reload()
        _ = try fixture.verdicts().rollBack(to: nil)
        #expect(try await shell.pageWillLoad().name == (try fixture.name("1.0.0")))
    }

    @Test func `offers a failed client again with a check after the pause, and blocks it at the second failure`()
        async throws
    {
        let fixture = try await Self.good("1.0.0")
        var (shell, _, events) = try await Self.running(fixture)
        fixture.offer("1.1.0")
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
        try await shell.reload()
        await shell.startupDidFail(try await shell.pageWillLoad().token, reason: "white")
        #expect(await events.line() == "launched v1.1.0 on trial")
        #expect(await events.line() == "rolled back v1.1.0 to v1.0.0: healthFailed")
        try await shell.startupDidComplete(try await shell.pageWillLoad().token)
        #expect(await events.line() == "launched v1.0.0")
        #expect(await events.line() == "confirmed v1.0.0")
        // The client is the newest, but a page that reloads must not run it again without a request.
        await #expect(throws: ShellError.self) { try await shell.reload() }
        // A service of the client may be away for a while; a page in a loop must not use up its second trial.
        try await shell.checkForUpdates()
        #expect(await !shell.isUpdateAvailable)
        fixture.clock.advance(by: .seconds(900))
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
        try await shell.reload()
        let second = try await shell.pageWillLoad()
        #expect(await events.line() == "launched v1.1.0 on trial")
        await shell.startupDidFail(second.token, reason: "white again")
        #expect(await events.line() == "rolled back v1.1.0 to v1.0.0: healthFailed")
        #expect(try fixture.ledger().block(on: fixture.client("1.1.0"))?.cause == .failedStarts)
        _ = try await shell.pageWillLoad()
        #expect(await events.line() == "launched v1.0.0")
        let failure = await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(failure?.code == .versionBlocked)
        #expect(await events.line() == "error versionBlocked")
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        #expect(try await shell.client(named: fixture.name("1.1.0")) == nil)
    }

    @Test func `reports when the second trial of a failed archive starts, and that a second failure blocks it`()
        async throws
    {
        let fixture = try await Self.good("1.0.0")
        var (shell, _, events) = try await Self.running(fixture)
        fixture.offer("1.1.0")
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
        for time in 1...2 {
            try await shell.reload()
            await shell.startupDidFail(try await shell.pageWillLoad().token, reason: "white")
            #expect(await events.line() == "launched v1.1.0 on trial")
            guard case .rolledBack(_, _, let reason)? = await events.next() else {
                Issue.record("no rollback")
                return
            }
            try await shell.startupDidComplete(try await shell.pageWillLoad().token)
            let ledger = try fixture.ledger()
            if time == 2 {
                let consequence = "It is blocked after 2 failed starts; `clientctl unblock` lets it run again."
                #expect(reason.message.hasSuffix(". \(consequence)"), "\(reason.message)")
                await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
                continue
            }
            let failure = try #require(ledger.failureBeforeRetry(of: fixture.name("1.1.0")))
            let retry = try #require(failure.retryAt)
            #expect(retry.secondsSinceEpoch - failure.at.secondsSinceEpoch == 900)
            let sequel =
                "failed once, and is tried once more with a check after \(retry) or the next start of the shell."
            #expect(reason.message.hasSuffix(". It \(sequel)"), "\(reason.message)")
            await #expect(throws: ShellError.awaitsSecondTrial("v1.1.0 \(sequel)")) { try await shell.reload() }
            fixture.clock.advance(by: .seconds(900))
            #expect(await events.line() == "launched v1.0.0")
            #expect(await events.line() == "confirmed v1.0.0")
            try await shell.checkForUpdates()
            #expect(await events.line() == "available v1.1.0")
        }
    }

    @Test func `delays a retry until the replacement has confirmed its start`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0", "1.1.0"])
        var (shell, launched, events) = try await Self.running(fixture, hasSeed: false)
        await shell.startupDidFail(launched.token, reason: "white")
        #expect(await events.line() == "rolled back v1.1.0 to v1.0.0: healthFailed")
        let follower = try await shell.pageWillLoad()
        #expect(await events.line() == "launched v1.0.0 on trial")
        try await shell.checkForUpdates()
        #expect(await !shell.isUpdateAvailable)
        try await shell.startupDidComplete(follower.token)
        await shell.removed()
        #expect(await events.line() == "confirmed v1.0.0")
        fixture.clock.advance(by: .seconds(900))
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
    }

    @Test func `reports a confirmed client that does not confirm a later start once, and keeps it`() async throws {
        let fixture = try await Self.good("1.0.0")
        var (shell, launched, events) = try await Self.running(fixture)
        #expect(!launched.isTrial)
        await fixture.clock.sleeper(until: .seconds(10))
        fixture.clock.advance(by: .seconds(10))
        let line = await events.line()
        #expect(line.hasPrefix("unconfirmed v1.0.0: "), "\(line)")
        #expect(await shell.isCurrent(launched.token))
        try await shell.startupDidComplete(launched.token)
        #expect(await events.line() == "confirmed v1.0.0")
        #expect(try fixture.ledger().lastKnownGood == (try fixture.name("1.0.0")))
    }

    @Test func `reports a failed check and keeps the client`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(fixture)
        fixture.breakUpdates()
        await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(await events.line() == "error networkUnavailable")
        #expect(await shell.isCurrent(launched.token))
        #expect(fixture.bridge.calls == ["base v1.0.0"])
    }

    @Test func `reports a failed start without another client to show`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(fixture, hasSeed: false)
        await shell.startupDidFail(launched.token, reason: "white")
        #expect(await events.line() == "rolled back v1.0.0 to v1.0.0: healthFailed")
        let again = try await shell.pageWillLoad()
        #expect(again.isTrial)
        #expect(await events.line() == "launched v1.0.0 on trial")
        await shell.startupDidFail(again.token, reason: "white")
        #expect(await events.line() == "error versionBlocked")
    }

    @Test func `keeps the shown client when the bridge rejects another one`() async throws {
        let fixture = try await Self.good("1.0.0")
        let (shell, launched, _) = try await Self.running(fixture)
        try await fixture.install("1.1.0")
        fixture.bridge.refuse()
        await #expect(throws: RecordingBridge.Refusal.self) { try await shell.reload() }
        #expect(await shell.isUpdateAvailable)
        // A load by a user shows the running client.
        #expect(try await shell.pageWillLoad(takesNext: true).token == launched.token)
        #expect(try await shell.pageWillLoad().token == launched.token)
    }
}
