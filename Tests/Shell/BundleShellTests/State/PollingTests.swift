import BundleCore
import BundleTestTraits
import BundleValues
import BundleTesting
import BundleShell
import Testing

// The fixture's random numbers are the middle of each range.
@Suite(.inTurn) struct PollingTests {
    private static let interval = Duration.seconds(100)

    private struct Running {
        let fixture: ShellFixture
        let shell: ClientShell
        var events: EventReader
        let run: Task<Void, Never>

        init(yields: Bool = true, jitter: Duration = .zero) async throws {
            fixture = try await ShellFixture()
            shell = try fixture.shell { configuration in
                configuration.polling = .init(PollPace(every: PollingTests.interval, jitter: jitter), yields: yields)
                // Keeps readings of the store apart from the checks.
                configuration.storeInterval = .seconds(1_000_000)
            }
            try await shell.start()
            events = EventReader(shell)
            run = Task { [shell] in await shell.run() }
        }

        /// Advances the clock to the next check, at `moment`, and returns its event.
        mutating func check(at moment: Duration) async -> (failure: UpdateFailure?, next: Duration?)? {
            await fixture.clock.sleeper(until: moment)
            fixture.clock.advance(by: moment - fixture.clock.now.sinceStart)
            return await events.check()
        }
    }

    @Test func `plans the first check within a minute and the others one interval apart`() async throws {
        var running = try await Running(jitter: .seconds(20))
        defer { running.run.cancel() }
        let first = await running.check(at: .seconds(30))
        #expect(first?.failure == nil && first?.next == .seconds(110))
        #expect(await running.check(at: .seconds(140))?.next == .seconds(110))
        running.fixture.offer("1.1.0")
        _ = await running.check(at: .seconds(250))
        #expect(await running.shell.nextLaunch == (try running.fixture.name("1.1.0")))
    }

    @Test func `retries an unreachable network soon, then at growing intervals`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.fixture.breakUpdates()
        var moment = Duration.seconds(30)
        for wait in [45, 90, 180, 300, 300] {
            let check = await running.check(at: moment)
            #expect(check?.failure?.code == .networkUnavailable)
            #expect(check?.next == .seconds(wait))
            moment += .seconds(wait)
        }
        running.fixture.mendUpdates()
        #expect(await running.check(at: moment)?.next == Self.interval)
    }

    @Test func `obeys Retry-After up to four intervals`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        let url = try FetchURL(parsing: "http://127.0.0.1/manifest.json")
        running.fixture.breakUpdates(FetchError.httpStatus(503, url, retryAfter: .seconds(7200)))
        let check = await running.check(at: .seconds(30))
        #expect(check?.failure?.code == .httpStatus)
        #expect(check?.next == Self.interval * 4)
    }

    @Test func `a notification does not advance a check that Retry-After delays`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        let url = try FetchURL(parsing: "http://127.0.0.1/manifest.json")
        running.fixture.breakUpdates(FetchError.httpStatus(503, url, retryAfter: .seconds(7200)))
        #expect(await running.check(at: .seconds(30))?.next == Self.interval * 4)
        await running.shell.checkSoon()
        #expect(await running.check(at: .seconds(30) + Self.interval * 4)?.next == Self.interval * 4)
    }

    @Test(arguments: [FailureCode.incompatibleShell, .versionBlocked])
    func `a device that the newest release excludes polls at the usual interval`(code: FailureCode) async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.fixture.ask(PollPace(every: .seconds(30), jitter: .zero))
        running.fixture.breakUpdates(UpdateFailure(code, subject: "x", "No."))
        for moment in [30, 60, 90] {
            let check = await running.check(at: .seconds(moment))
            #expect(check != nil && check?.failure == nil)
            #expect(check?.next == .seconds(30))
        }
    }

    @Test func `one failed source does not change the interval of the others`() async throws {
        let url = try FetchURL(parsing: "http://127.0.0.1/manifest.json")
        let broken = await CheckResult { throw FetchError.httpStatus(503, url, retryAfter: .seconds(7200)) }
        let fast = await CheckResult(pace: { PollPace(every: .seconds(20)) }) {}
        let slow = await CheckResult(pace: { PollPace(every: .seconds(30)) }) {}
        let mixed = CheckResult(joining: [broken, slow, fast])
        #expect(mixed.hasResponse && mixed.failures.count == 1 && mixed.pace == PollPace(every: .seconds(20)))
        let all = CheckResult(joining: [broken, broken])
        #expect(!all.hasResponse && all.failures.count == 2 && all.pace == nil)
    }

    @Test func `a rejected update does not shorten the interval`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.fixture.breakUpdates(UpdateFailure(.signatureInvalid, subject: "x", "No."))
        #expect(await running.check(at: .seconds(30))?.next == .seconds(100))
        #expect(await running.check(at: .seconds(130))?.next == .seconds(200))
    }

    @Test func `applies the pace of a channel from its first response until the channel removes it`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.fixture.ask(PollPace(every: .seconds(30), jitter: .seconds(4)))
        #expect(await running.check(at: .seconds(30))?.next == .seconds(32))
        // A failure does not end it.
        running.fixture.breakUpdates(UpdateFailure(.signatureInvalid, subject: "x", "No."))
        #expect(await running.check(at: .seconds(62))?.next == .seconds(32))
        running.fixture.mendUpdates()
        running.fixture.ask(nil)
        #expect(await running.check(at: .seconds(94))?.next == Self.interval)
    }

    @Test func `ignores the pace of a channel if the operator has set one`() async throws {
        var running = try await Running(yields: false)
        defer { running.run.cancel() }
        running.fixture.ask(PollPace(every: .seconds(30), jitter: .zero))
        #expect(await running.check(at: .seconds(30))?.next == Self.interval)
    }

    @Test func `a device without a client checks at once and reports that it waits for its first client`()
        async throws
    {
        let fixture = try await ShellFixture()
        let shell = try fixture.shell(hasSeed: false) { configuration in
            configuration.polling = .init(PollPace(every: Self.interval), yields: true)
            configuration.storeInterval = .seconds(1_000_000)
        }
        await #expect(throws: UpdateFailure.self) { try await shell.admit(.everybody) }
        #expect(await shell.waitsForFirstClient)
        fixture.offer("1.0.0")
        var events = EventReader(shell)
        let run = Task { await shell.run() }
        defer { run.cancel() }
        #expect(await events.check()?.failure == nil)
        #expect(fixture.clock.now.sinceStart == .zero)
        #expect(await !shell.waitsForFirstClient)
        #expect(await shell.nextLaunch == (try fixture.name("1.0.0")))
    }

    // MARK: News

    @Test func `a notification without jitter leads to a check at once`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        await running.fixture.clock.sleeper(until: .seconds(30))
        running.fixture.offer("1.1.0")
        await running.shell.checkSoon()
        let check = try #require(await running.events.check())
        #expect(check.failure == nil && check.next == Self.interval)
        #expect(await running.shell.nextLaunch == (try running.fixture.name("1.1.0")))
        #expect(running.fixture.clock.now.sinceStart == .zero)
    }

    @Test func `a notification leads to a check within the jitter of the channel`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.fixture.ask(PollPace(every: .seconds(100), jitter: .seconds(10)))
        #expect(await running.check(at: .seconds(30))?.next == .seconds(105))
        await running.fixture.clock.sleeper(until: .seconds(135))
        await running.shell.checkSoon()
        // A second notification neither delays the check nor chooses another moment.
        await running.fixture.clock.sleeper(until: .seconds(35))
        running.fixture.clock.advance(by: .seconds(2))
        await running.shell.checkSoon()
        #expect(await running.check(at: .seconds(35))?.next == .seconds(105))
    }

    @Test func `a notification with its own delay leads to a check within that delay`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        await running.fixture.clock.sleeper(until: .seconds(30))
        await running.shell.checkSoon(within: .seconds(8))
        _ = await running.check(at: .seconds(4))
        // A notification with a late limit does not delay the planned check.
        await running.fixture.clock.sleeper(until: .seconds(104))
        await running.shell.checkSoon(within: .seconds(1000))
        _ = await running.check(at: .seconds(104))
    }

    @Test func `a shell without polling ignores notifications`() async throws {
        let fixture = try await ShellFixture()
        let shell = try fixture.shell { $0.storeInterval = .seconds(1) }
        try await shell.start()
        let run = Task { await shell.run() }
        defer { run.cancel() }
        fixture.offer("1.1.0")
        await fixture.clock.sleeper(until: .seconds(1))
        await shell.checkSoon()
        fixture.clock.advance(by: .seconds(1))
        await fixture.clock.sleeper(until: .seconds(2))
        #expect(await shell.nextLaunch == .embedded)
    }

    @Test func `cancelling the shell cancels its planned check`() async throws {
        let running = try await Running()
        await running.fixture.clock.sleeper(until: .seconds(30))
        running.run.cancel()
        await running.run.value
        await running.fixture.clock.noSleeper(until: .seconds(30))
    }
}
