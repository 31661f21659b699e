import BundleCore
import BundleTestTraits
import BundleValues
import BundleTesting
import ClientShell
import Testing

@Suite(.inTurn) struct ClientShellTests {
    /// A shell whose page is loaded, and the events after that.
    private static func running(_ bench: ShellBench, hasSeed: Bool = true) async throws -> (
        ClientShell, Launched, EventReader
    ) {
        let shell = try await bench.nextShell(hasSeed: hasSeed)
        try await shell.start()
        let launched = try await shell.pageWillLoad()
        var events = EventReader(shell)
        _ = await events.next()
        return (shell, launched, events)
    }

    private static func good(_ versions: String...) async throws -> ShellBench {
        let bench = try await ShellBench()
        for version in versions {
            try await bench.install(version)
            let launched = try Launcher(
                .init(store: bench.store, shell: bench.version("1.0.0"), seed: nil, verifies: false), warn: { _ in }
            ).launch()
            _ = try bench.verdicts().confirm(launched.name, launched.token)
        }
        return bench
    }

    // MARK: Launching

    @Test func `a start hands over the files and writes no boot attempt; the first page does`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        let shell = try bench.shell()
        try await shell.start()
        #expect(bench.bridge.calls == ["base v1.0.0"])
        #expect(bench.bridge.pages.first?.contains("client 1.0.0") == true)
        #expect(await shell.nextLaunch == (try bench.name("1.0.0")))
        #expect(await shell.currentVersion == nil)
        #expect(try bench.ledger().launch == nil)
        let launched = try await shell.pageWillLoad()
        #expect(launched.isTrial)
        #expect(try bench.ledger().launch?.isOpenTrial == true)
        #expect(await shell.currentVersion == (try bench.name("1.0.0")))
        #expect(await shell.isCurrent(launched.token))
        #expect(await !shell.isCurrent(try .random()))
        var events = EventReader(shell)
        #expect(await events.line() == "launched v1.0.0 on trial")
    }

    @Test func `a web view of the main thread is told there, in order`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        let view = RecordingView()
        let shell = try bench.shell(of: MainActorBridge(view))
        try await shell.start()
        let launched = try await shell.pageWillLoad()
        await shell.startupDidFail(launched.token, "seen")
        let expected = ["base v1.0.0", "now v1.0.0", "base embedded", "now nothing", "reload"]
        while await view.calls.count < expected.count { await Task.yield() }
        #expect(await view.calls == expected)
    }

    @Test func `a page that is loaded again belongs to the same launch, and its time goes on`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(bench)
        await bench.clock.sleeper(until: .seconds(10))
        bench.clock.advance(by: .seconds(9))
        #expect(try await shell.pageWillLoad().token == launched.token)
        bench.clock.advance(by: .seconds(1))
        #expect(await events.line() == "rolled back v1.0.0 to embedded: healthFailed")
    }

    @Test func `what is installed between the start and the first page is what that page shows`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        let shell = try bench.shell()
        try await shell.start()
        try await bench.install("1.1.0")
        #expect(try await shell.pageWillLoad().name == (try bench.name("1.1.0")))
        #expect(bench.bridge.calls == ["base v1.0.0", "base v1.1.0"])
    }

    @Test func `a second shell is refused`() async throws {
        let bench = try await ShellBench()
        let shell = try bench.shell()
        let failure = #expect(throws: UpdateFailure.self) { try bench.shell() }
        #expect(failure?.code == .storeLocked)
        try await shell.start()
    }

    // MARK: Verdicts

    @Test func `a confirmed client is watched no more`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(bench)
        await bench.clock.sleeper(until: .seconds(10))
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        #expect(await events.line() == "confirmed v1.0.0")
        await bench.clock.noSleeper(until: .seconds(10))
        bench.clock.advance(by: .seconds(100))
        // Again is nothing new, and whatever fell would be the next event.
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        bench.breakUpdates()
        await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(await events.line() == "error networkUnavailable")
        #expect(bench.bridge.calls == ["base v1.0.0"])
        #expect(try bench.ledger().lastKnownGood == (try bench.name("1.0.0")))
    }

    @Test func `a good client is not watched at all`() async throws {
        let bench = try await Self.good("1.0.0")
        let shell = try bench.shell()
        try await shell.start()
        #expect(try await !shell.pageWillLoad().isTrial)
        var events = EventReader(shell)
        #expect(await events.line() == "launched v1.0.0")
        bench.clock.advance(by: .seconds(1000))
        #expect(await shell.currentVersion == (try bench.name("1.0.0")))
        #expect(bench.bridge.calls == ["base v1.0.0"])
    }

    @Test func `a client that does not confirm is followed by the last good one, in the same window`() async throws {
        let bench = try await Self.good("1.0.0")
        try await bench.install("1.1.0")
        var (shell, launched, events) = try await Self.running(bench)
        await bench.clock.sleeper(until: .seconds(10))
        await shell.pageDidReport(launched.token, "TypeError: x")
        for complaint in ["TypeError: x", "a later one", "a third", "a fourth"] {
            await shell.pageDidReport(launched.token, complaint)
        }
        await shell.pageDidReport(launched.token, "no picture", isGrave: false)
        await shell.pageDidReport(try .random(), "another page's")
        for complaint in ["TypeError: x", "a later one", "a third", "a fourth", "no picture"] {
            #expect(await events.line() == "v1.1.0 complains: \(complaint)")
        }
        bench.clock.advance(by: .seconds(10))
        guard case .rolledBack(_, let to, let failure) = await events.next() else {
            Issue.record("no fall")
            return
        }
        #expect(to == (try bench.name("1.0.0")))
        #expect(failure.code == .healthFailed)
        #expect(
            failure.message.contains(
                "the page did not call startupDidComplete() within 10s; the page said: TypeError: x; a later one; a third."
            ))
        // The ledger first: even a shell that ends now starts the other one.
        #expect(try bench.ledger().launch?.verdict == .faulty)
        #expect(try bench.ledger().record(of: bench.client("1.1.0"))?.failures.map(\.cause) == [.notConfirmed])
        let next = try await shell.pageWillLoad()
        #expect(next.name == to)
        #expect(!next.isTrial)
        #expect(await events.line() == "launched v1.0.0")
        #expect(bench.bridge.calls == ["base v1.1.0", "base v1.0.0", "reload"])
        // The page on its way out cannot speak for the one that comes.
        let late = await #expect(throws: UpdateFailure.self) { try await shell.startupDidComplete(launched.token) }
        #expect(late?.code == .versionMismatch)
        await shell.startupDidFail(launched.token, "late")
        #expect(await shell.currentVersion == to)
    }

    @Test func `the outgoing page's token confirms nothing`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (shell, old, events) = try await Self.running(bench)
        try await bench.install("1.1.0")
        try await shell.reload()
        let new = try await shell.pageWillLoad()
        #expect(new.name == (try bench.name("1.1.0")))
        let failure = await #expect(throws: UpdateFailure.self) { try await shell.startupDidComplete(old.token) }
        #expect(failure?.code == .versionMismatch)
        await shell.startupDidFail(old.token, "late")
        await shell.pageDidHide(old.token)
        #expect(try bench.ledger().launch?.isOpenTrial == true)
        // A page that asked for the change did not fail.
        #expect(try bench.ledger().record(of: bench.client("1.0.0")) == nil)
        #expect(await events.line() == "available v1.1.0")
        #expect(await events.line() == "launched v1.1.0 on trial")
        // Its time runs, whatever the old page says.
        await bench.clock.sleeper(until: .seconds(10))
        bench.clock.advance(by: .seconds(10))
        #expect(await events.line() == "rolled back v1.1.0 to v1.0.0: healthFailed")
    }

    @Test func `a client in the background has all the time of the world`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(bench)
        await bench.clock.sleeper(until: .seconds(10))
        bench.clock.advance(by: .seconds(4))
        await shell.pageDidHide(launched.token)
        await bench.clock.noSleeper(until: .seconds(10))
        bench.clock.advance(by: .seconds(3600))
        await shell.pageDidShow(launched.token)
        await bench.clock.sleeper(until: .seconds(3610))
        bench.clock.advance(by: .seconds(6))
        #expect(await events.line() == "rolled back v1.0.0 to embedded: healthFailed")
    }

    @Test func `a client may confirm from the background`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(bench)
        await shell.pageDidHide(launched.token)
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        #expect(await events.line() == "confirmed v1.0.0")
        await shell.pageDidShow(launched.token)
        bench.clock.advance(by: .seconds(100))
        #expect(await shell.currentVersion == launched.name)
    }

    @Test func `a shell that sees the client fail says so`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(bench)
        await shell.startupDidFail(try .random(), "not mine")
        await shell.startupDidFail(launched.token, "white screen")
        #expect(await events.line() == "rolled back v1.0.0 to embedded: healthFailed")
        let failure = try #require(try bench.ledger().record(of: bench.client("1.0.0"))?.failures.first)
        #expect(failure.cause == .reported)
        #expect(failure.detail == "white screen")
    }

    @Test func `a verdict that another process gave is not given again`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (_, launched, events) = try await Self.running(bench)
        await bench.clock.sleeper(until: .seconds(10))
        let failure = StartFailure(.reported, detail: "by hand", at: .now)
        _ = try bench.verdicts().fail(launched.name, launched.token, failure)
        bench.clock.advance(by: .seconds(10))
        #expect(await events.line() == "rolled back v1.0.0 to embedded: healthFailed")
        #expect(try bench.ledger().record(of: bench.client("1.0.0"))?.failures.count == 1)
    }

    @Test func `after a good start older clients go`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0", "1.1.0", "1.2.0", "1.3.0"])
        let shell = try bench.shell { $0.keep = 2 }
        try await shell.start()
        let launched = try await shell.pageWillLoad()
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        await shell.stop()
        #expect(try await shell.clientNames().map(\.description) == ["embedded", "v1.2.0", "v1.3.0"])
    }

    @Test func `a shell that ends in good order has not seen its client fail`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        for _ in 0..<3 {
            let (shell, launched, _) = try await Self.running(bench)
            #expect(launched.name == (try bench.name("1.0.0")))
            #expect(launched.isTrial)
            await shell.stop()
            await #expect(throws: ShellError.notStarted) { try await shell.pageWillLoad() }
        }
        #expect(try bench.ledger().record(of: bench.client("1.0.0")) == nil)
    }

    @Test(arguments: [FailureCode.versionBlocked, .incompatibleShell])
    func `an offer that this device cannot take is told once, and the check is none that failed`(
        code: FailureCode
    ) async throws {
        let bench = try await Self.good("1.0.0")
        var (shell, _, events) = try await Self.running(bench)
        func refuse(_ version: String) throws {
            bench.breakUpdates(
                UpdateFailure(
                    code, subject: version, "\(version) is not for this device.",
                    neededShell: code == .incompatibleShell ? try bench.version("9.0.0") : nil))
        }
        try refuse("2.0.0")
        // Whoever asks is told.
        for _ in 0..<3 { await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() } }
        let needed = code == .incompatibleShell ? "9.0.0" : nil
        #expect(await shell.missingShell?.description == needed)
        #expect(try await shell.admit(.everybody)?.description == needed)
        #expect(await events.line() == "error \(code)")
        try refuse("3.0.0")
        await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(await events.line() == "error \(code)")
        bench.mendUpdates()
        try await shell.checkForUpdates()
        #expect(await shell.missingShell == nil)
        bench.breakUpdates()
        await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(await events.line() == "error networkUnavailable")
    }

    @Test func `a store that was removed and made anew is shown without a new start`() async throws {
        let bench = try await Self.good("1.0.0")
        let (shell, _, _) = try await Self.running(bench)
        let run = Task { await shell.run() }
        defer { run.cancel() }
        await bench.clock.sleeper(until: .milliseconds(500))
        try bench.replaceStore()
        try await bench.install("3.0.0")
        bench.clock.advance(by: .milliseconds(500))
        await bench.clock.sleeper(until: .milliseconds(1000))
        #expect(try await shell.pageWillLoad().name == (try bench.name("3.0.0")))
        #expect(bench.bridge.pages.last?.contains("client 3.0.0") == true)
        #expect(bench.bridge.calls.suffix(2) == ["base v3.0.0", "reload"])
    }

    // MARK: Changing

    @Test func `there is nothing to reload to without another client`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        let (shell, launched, _) = try await Self.running(bench)
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        #expect(await !shell.isUpdateAvailable)
        #expect(bench.bridge.calls == ["base v1.0.0"])
        #expect(try await shell.pageWillLoad().token == launched.token)
    }

    @Test func `what another process installs is noticed and told once`() async throws {
        let bench = try await Self.good("1.0.0")
        var (shell, launched, events) = try await Self.running(bench)
        let run = Task { await shell.run() }
        defer { run.cancel() }
        var now = Duration.zero
        func look() async {
            now += .milliseconds(500)
            await bench.clock.sleeper(until: now)
            bench.clock.advance(by: .milliseconds(500))
        }
        await look()
        try await bench.install("1.1.0")
        await look()
        #expect(await events.line() == "available v1.1.0")
        #expect(await shell.isUpdateAvailable)
        #expect(await shell.availableVersion == (try bench.name("1.1.0")))
        #expect(bench.bridge.calls == ["base v1.0.0"], "a page that is shown keeps its files")
        // Other news in the ledger are no news of it.
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        #expect(await events.line() == "confirmed v1.0.0")
        for _ in 0..<3 { await look() }
        try await bench.install("1.2.0")
        await look()
        #expect(await events.line() == "available v1.2.0")
        try await shell.reload()
        #expect(bench.bridge.calls == ["base v1.0.0", "base v1.2.0", "reload"])
        #expect(await !shell.isUpdateAvailable)
        #expect(await shell.currentVersion == (try bench.name("1.0.0")), "until the page loads")
        await look()
        #expect(try await shell.pageWillLoad().name == (try bench.name("1.2.0")))
        #expect(await events.line() == "launched v1.2.0 on trial")
    }

    @Test func `what is blocked before it was shown is not shown`() async throws {
        let bench = try await Self.good("1.0.0")
        var (shell, _, events) = try await Self.running(bench)
        bench.offer("1.1.0")
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
        _ = try bench.verdicts().rollBack(to: nil)
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        try await bench.install("1.2.0")
        try await shell.reload()
        _ = try bench.verdicts().rollBack(to: nil)
        #expect(try await shell.pageWillLoad().name == (try bench.name("1.0.0")))
    }

    @Test func `a client that failed comes back with a check after the pause, and the second failure is the last`()
        async throws
    {
        let bench = try await Self.good("1.0.0")
        var (shell, _, events) = try await Self.running(bench)
        bench.offer("1.1.0")
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
        try await shell.reload()
        await shell.startupDidFail(try await shell.pageWillLoad().token, "white")
        #expect(await events.line() == "launched v1.1.0 on trial")
        #expect(await events.line() == "rolled back v1.1.0 to v1.0.0: healthFailed")
        try await shell.startupDidComplete(try await shell.pageWillLoad().token)
        #expect(await events.line() == "launched v1.0.0")
        #expect(await events.line() == "confirmed v1.0.0")
        // It is the newest, but nobody asked for it: a page that reloads must not fall into it again.
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        // What the client needs may be away for a while, and a page in a loop must not use up its second trial meanwhile.
        try await shell.checkForUpdates()
        #expect(await !shell.isUpdateAvailable)
        bench.clock.advance(by: .seconds(900))
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
        try await shell.reload()
        let second = try await shell.pageWillLoad()
        #expect(await events.line() == "launched v1.1.0 on trial")
        await shell.startupDidFail(second.token, "white again")
        #expect(await events.line() == "rolled back v1.1.0 to v1.0.0: healthFailed")
        #expect(try bench.ledger().block(on: bench.client("1.1.0"))?.cause == .failedStarts)
        _ = try await shell.pageWillLoad()
        #expect(await events.line() == "launched v1.0.0")
        let failure = await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(failure?.code == .versionBlocked)
        #expect(await events.line() == "error versionBlocked")
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        #expect(try await shell.client(named: bench.name("1.1.0")) == nil)
    }

    @Test func `a retry waits until what follows the failure has confirmed its own start`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0", "1.1.0"])
        var (shell, launched, events) = try await Self.running(bench, hasSeed: false)
        await shell.startupDidFail(launched.token, "white")
        #expect(await events.line() == "rolled back v1.1.0 to v1.0.0: healthFailed")
        let follower = try await shell.pageWillLoad()
        #expect(await events.line() == "launched v1.0.0 on trial")
        try await shell.checkForUpdates()
        #expect(await !shell.isUpdateAvailable)
        try await shell.startupDidComplete(follower.token)
        await shell.removed()
        #expect(await events.line() == "confirmed v1.0.0")
        bench.clock.advance(by: .seconds(900))
        try await shell.checkForUpdates()
        #expect(await events.line() == "available v1.1.0")
    }

    @Test func `a good client that does not confirm a later start is reported once, and stays`() async throws {
        let bench = try await Self.good("1.0.0")
        var (shell, launched, events) = try await Self.running(bench)
        #expect(!launched.isTrial)
        await bench.clock.sleeper(until: .seconds(10))
        bench.clock.advance(by: .seconds(10))
        let line = await events.line()
        #expect(line.hasPrefix("unconfirmed v1.0.0: "), "\(line)")
        #expect(await shell.isCurrent(launched.token))
        try await shell.startupDidComplete(launched.token)
        #expect(await events.line() == "confirmed v1.0.0")
        #expect(try bench.ledger().lastKnownGood == (try bench.name("1.0.0")))
    }

    @Test func `a check that fails is an event, and the client runs on`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(bench)
        bench.breakUpdates()
        await #expect(throws: UpdateFailure.self) { try await shell.checkForUpdates() }
        #expect(await events.line() == "error networkUnavailable")
        #expect(await shell.isCurrent(launched.token))
        #expect(bench.bridge.calls == ["base v1.0.0"])
    }

    @Test func `without anything to fall back to the failure is told`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        var (shell, launched, events) = try await Self.running(bench, hasSeed: false)
        await shell.startupDidFail(launched.token, "white")
        #expect(await events.line() == "rolled back v1.0.0 to v1.0.0: healthFailed")
        let again = try await shell.pageWillLoad()
        #expect(again.isTrial)
        #expect(await events.line() == "launched v1.0.0 on trial")
        await shell.startupDidFail(again.token, "white")
        #expect(await events.line() == "error configInvalid")
    }

    @Test func `a base path that is refused leaves what is shown`() async throws {
        let bench = try await Self.good("1.0.0")
        let (shell, launched, _) = try await Self.running(bench)
        try await bench.install("1.1.0")
        bench.bridge.refuse()
        await #expect(throws: RecordingBridge.Refusal.self) { try await shell.reload() }
        #expect(await shell.isUpdateAvailable)
        // Whoever loads the page to see it sees what runs.
        #expect(try await shell.pageWillLoad(takesNext: true).token == launched.token)
        #expect(try await shell.pageWillLoad().token == launched.token)
    }
}
