import BundleCore
import BundleTestTraits
import BundleValues
import BundleTesting
import ClientShell
import Testing

/// When a shell checks by itself. The bench draws the middle of every range.
@Suite(.inTurn) struct PollingTests {
    private static let interval = Duration.seconds(100)

    private struct Running {
        let bench: ShellBench
        let shell: ClientShell
        var events: EventReader
        let run: Task<Void, Never>

        init(yields: Bool = true, jitter: Duration = .zero) async throws {
            bench = try await ShellBench()
            shell = try bench.shell { configuration in
                configuration.polling = .init(PollPace(every: PollingTests.interval, jitter: jitter), yields: yields)
                // Out of the way of the checks.
                configuration.storeInterval = .seconds(1_000_000)
            }
            try await shell.start()
            events = EventReader(shell)
            run = Task { [shell] in await shell.run() }
        }

        /// Moves the time to the next check, at `moment`, and returns what it told.
        mutating func check(at moment: Duration) async -> (failure: UpdateFailure?, next: Duration?)? {
            await bench.clock.sleeper(until: moment)
            bench.clock.advance(by: moment - bench.clock.now.sinceStart)
            return await events.check()
        }
    }

    @Test func `the first check is in the middle of the first minute, the next ones follow it`() async throws {
        var running = try await Running(jitter: .seconds(20))
        defer { running.run.cancel() }
        let first = await running.check(at: .seconds(30))
        #expect(first?.failure == nil && first?.next == .seconds(110))
        #expect(await running.check(at: .seconds(140))?.next == .seconds(110))
        running.bench.offer("1.1.0")
        _ = await running.check(at: .seconds(250))
        #expect(await running.shell.nextLaunch == (try running.bench.name("1.1.0")))
    }

    @Test func `a network that is away is asked again soon, then less and less`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.bench.breakUpdates()
        var moment = Duration.seconds(30)
        for wait in [45, 90, 180, 300, 300] {
            let check = await running.check(at: moment)
            #expect(check?.failure?.code == .networkUnavailable)
            #expect(check?.next == .seconds(wait))
            moment += .seconds(wait)
        }
        running.bench.mendUpdates()
        #expect(await running.check(at: moment)?.next == Self.interval)
    }

    @Test func `a server's Retry-After is kept up to four intervals`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        let url = try FetchURL(parsing: "http://127.0.0.1/manifest.json")
        running.bench.breakUpdates(FetchError.httpStatus(503, url, retryAfter: .seconds(7200)))
        let check = await running.check(at: .seconds(30))
        #expect(check?.failure?.code == .httpStatus)
        #expect(check?.next == Self.interval * 4)
    }

    @Test func `news do not bring a check forward that the server put off`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        let url = try FetchURL(parsing: "http://127.0.0.1/manifest.json")
        running.bench.breakUpdates(FetchError.httpStatus(503, url, retryAfter: .seconds(7200)))
        #expect(await running.check(at: .seconds(30))?.next == Self.interval * 4)
        await running.shell.checkSoon()
        #expect(await running.check(at: .seconds(30) + Self.interval * 4)?.next == Self.interval * 4)
    }

    @Test(arguments: [FailureCode.incompatibleShell, .versionBlocked])
    func `a device that the newest release is not for asks as often as others`(code: FailureCode) async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.bench.ask(PollPace(every: .seconds(30), jitter: .zero))
        running.bench.breakUpdates(UpdateFailure(code, subject: "x", "No."))
        for moment in [30, 60, 90] {
            let check = await running.check(at: .seconds(moment))
            #expect(check != nil && check?.failure == nil)
            #expect(check?.next == .seconds(30))
        }
    }

    @Test func `one channel in trouble does not keep a device from asking the others`() async throws {
        let url = try FetchURL(parsing: "http://127.0.0.1/manifest.json")
        let broken: UpdateStep = {
            await .of { throw FetchError.httpStatus(503, url, retryAfter: .seconds(7200)) }
        }
        let fast: UpdateStep = { await .of(pace: { PollPace(every: .seconds(20)) }) {} }
        let slow: UpdateStep = { await .of(pace: { PollPace(every: .seconds(30)) }) {} }
        let mixed = await allOf([broken, slow, fast])()
        #expect(mixed.hasResponse && mixed.failures.count == 1 && mixed.pace == PollPace(every: .seconds(20)))
        let all = await allOf([broken, broken])()
        #expect(!all.hasResponse && all.failures.count == 2 && all.pace == nil)
    }

    @Test func `what is refused is not asked for more often`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.bench.breakUpdates(UpdateFailure(.signatureInvalid, subject: "x", "No."))
        #expect(await running.check(at: .seconds(30))?.next == .seconds(100))
        #expect(await running.check(at: .seconds(130))?.next == .seconds(200))
    }

    @Test func `a channel's own pace counts from its first answer on, until it no longer asks`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.bench.ask(PollPace(every: .seconds(30), jitter: .seconds(4)))
        #expect(await running.check(at: .seconds(30))?.next == .seconds(32))
        // A failure does not end it.
        running.bench.breakUpdates(UpdateFailure(.signatureInvalid, subject: "x", "No."))
        #expect(await running.check(at: .seconds(62))?.next == .seconds(32))
        running.bench.mendUpdates()
        running.bench.ask(nil)
        #expect(await running.check(at: .seconds(94))?.next == Self.interval)
    }

    @Test func `a pace that the owner has set stays`() async throws {
        var running = try await Running(yields: false)
        defer { running.run.cancel() }
        running.bench.ask(PollPace(every: .seconds(30), jitter: .zero))
        #expect(await running.check(at: .seconds(30))?.next == Self.interval)
    }

    @Test func `a device with nothing to show checks at once, and reports that it waits for its first client`()
        async throws
    {
        let bench = try await ShellBench()
        let shell = try bench.shell(hasSeed: false) { configuration in
            configuration.polling = .init(PollPace(every: Self.interval), yields: true)
            configuration.storeInterval = .seconds(1_000_000)
        }
        await #expect(throws: UpdateFailure.self) { try await shell.admit(.everybody) }
        #expect(await shell.waitsForFirstClient)
        bench.offer("1.0.0")
        var events = EventReader(shell)
        let run = Task { await shell.run() }
        defer { run.cancel() }
        #expect(await events.check()?.failure == nil)
        #expect(bench.clock.now.sinceStart == .zero)
        #expect(await !shell.waitsForFirstClient)
        #expect(await shell.nextLaunch == (try bench.name("1.0.0")))
    }

    // MARK: News

    @Test func `news are checked at once where the channel asks for no delay`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        await running.bench.clock.sleeper(until: .seconds(30))
        running.bench.offer("1.1.0")
        await running.shell.checkSoon()
        let check = try #require(await running.events.check())
        #expect(check.failure == nil && check.next == Self.interval)
        #expect(await running.shell.nextLaunch == (try running.bench.name("1.1.0")))
        #expect(running.bench.clock.now.sinceStart == .zero)
    }

    @Test func `news are checked within the jitter that the channel asks for`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.bench.ask(PollPace(every: .seconds(100), jitter: .seconds(10)))
        #expect(await running.check(at: .seconds(30))?.next == .seconds(105))
        await running.bench.clock.sleeper(until: .seconds(135))
        await running.shell.checkSoon()
        // A second word neither puts it off nor draws again.
        await running.bench.clock.sleeper(until: .seconds(35))
        running.bench.clock.advance(by: .seconds(2))
        await running.shell.checkSoon()
        #expect(await running.check(at: .seconds(35))?.next == .seconds(105))
    }

    @Test func `news within a limit of its own`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        await running.bench.clock.sleeper(until: .seconds(30))
        await running.shell.checkSoon(within: .seconds(8))
        _ = await running.check(at: .seconds(4))
        // What is late anyway does not put off the check that is due.
        await running.bench.clock.sleeper(until: .seconds(104))
        await running.shell.checkSoon(within: .seconds(1000))
        _ = await running.check(at: .seconds(104))
    }

    @Test func `a shell that does not poll does not check`() async throws {
        let bench = try await ShellBench()
        let shell = try bench.shell { $0.storeInterval = .seconds(1) }
        try await shell.start()
        let run = Task { await shell.run() }
        defer { run.cancel() }
        bench.offer("1.1.0")
        await bench.clock.sleeper(until: .seconds(1))
        await shell.checkSoon()
        bench.clock.advance(by: .seconds(1))
        await bench.clock.sleeper(until: .seconds(2))
        #expect(await shell.nextLaunch == .embedded)
    }

    @Test func `a shell that ends leaves no check behind`() async throws {
        let running = try await Running()
        await running.bench.clock.sleeper(until: .seconds(30))
        running.run.cancel()
        await running.run.value
        await running.bench.clock.noSleeper(until: .seconds(30))
    }
}
