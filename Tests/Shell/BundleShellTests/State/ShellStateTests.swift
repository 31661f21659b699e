import BundleTesting
import Testing

@testable import BundleCore
import BundleValues
@testable import BundleShell

@Suite struct ShellStateTests {
    private static let timeout = StateFixture.timeout.duration

    @Test func `records the boot attempt before the page receives its launch`() throws {
        var fixture = StateFixture()
        fixture.install(1)
        fixture.handle(.start)
        #expect(fixture.begun.isEmpty && fixture.world.base == FakeWorld.name(1))
        let loaded = fixture.load()
        let launch = try #require(loaded)
        #expect(fixture.world.launch?.token == launch.token)
        #expect(launch.isTrial && fixture.wake == Self.timeout)
        #expect(fixture.reports == [.launched(FakeWorld.name(1), isTrial: true)])
    }

    @Test func `fails a trial whose page leaves and is not followed by a page of the client`() throws {
        for isFollowed in [true, false] {
            var fixture = StateFixture()
            fixture.runGood(1)
            fixture.install(2)
            let loaded = fixture.load(takesNext: true)
            let launch = try #require(loaded)
            fixture.handle(.page(.show(true, PageReport(load: "a", number: 1)), launch.token))
            fixture.handle(.page(.leave("https://h/", PageReport(load: "a", number: 2)), launch.token))
            fixture.handle(.page(.show(false, PageReport(load: "a", number: 3)), launch.token))
            if isFollowed { fixture.handle(.page(.show(false, PageReport(load: "b", number: 1)), launch.token)) }
            fixture.now = Self.timeout
            fixture.handle(.timerFired)
            #expect(fixture.verdicts.count == (isFollowed ? 0 : 1))
            guard case .faulty(let failure)? = fixture.verdicts.first?.verdict else { continue }
            #expect(failure.cause == .reported && failure.detail.contains("its page left for https://h/"))
        }
    }

    @Test func `a page can fail its own start on trial only`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        let good = try #require(fixture.state.launched)
        fixture.handle(.page(.failTrial("x"), good.token))
        #expect(fixture.verdicts.isEmpty)
        fixture.install(2)
        let loaded = fixture.load(takesNext: true)
        let launch = try #require(loaded)
        fixture.handle(.page(.failTrial("x"), good.token))
        #expect(fixture.verdicts.isEmpty)
        fixture.handle(.page(.failTrial("no printer"), launch.token))
        guard case .faulty(let failure)? = fixture.verdicts.first?.verdict else {
            Issue.record("the client has not failed")
            return
        }
        #expect(failure.cause == .reported && failure.detail == "the page said: no printer")
    }

    @Test func `fails a trial when its timeout passes, and not before`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        #expect(fixture.wake == nil)
        fixture.install(2)
        let loaded = fixture.load(takesNext: true)
        let launch = try #require(loaded)
        #expect(launch.name == FakeWorld.name(2))
        fixture.handle(.page(.error("TypeError: x", isGrave: true), launch.token))
        fixture.now = Self.timeout - .milliseconds(1)
        fixture.handle(.timerFired)
        #expect(fixture.verdicts.isEmpty && fixture.wake == Self.timeout)
        fixture.now = Self.timeout
        fixture.handle(.timerFired)
        #expect(fixture.verdicts.map(\.token) == [launch.token])
        guard case .faulty(let failure)? = fixture.verdicts.first?.verdict else {
            Issue.record("the client has not failed")
            return
        }
        #expect(failure.cause == .notConfirmed && failure.detail.hasSuffix("; the page said: TypeError: x"))
        #expect(fixture.state.launched == nil && fixture.world.base == FakeWorld.name(1) && fixture.wake == nil)
        let follower = fixture.load()
        #expect(follower?.name == FakeWorld.name(1))
    }

    @Test func `starts the timeout with the first report of a page, or after a long silence`() throws {
        var fixture = StateFixture(.reported)
        fixture.install(1)
        fixture.handle(.start)
        // A probe loads the page without showing it.
        let loaded = fixture.load()
        let launch = try #require(loaded)
        #expect(fixture.wake == nil)
        _ = fixture.load(takesNext: true)
        #expect(fixture.wake == Self.timeout * 3)
        fixture.now = .seconds(1)
        _ = fixture.load(takesNext: true)
        #expect(fixture.wake == Self.timeout * 3)
        fixture.handle(.page(.show(false, PageReport(load: "a", number: 0)), launch.token))
        #expect(fixture.wake == nil)
        fixture.handle(.page(.show(true, PageReport(load: "b", number: 0)), launch.token))
        #expect(fixture.wake == fixture.now + Self.timeout)
        // The unload of the former load arrives late, and an old report is ignored.
        fixture.handle(.page(.show(false, PageReport(load: "a", number: 1)), launch.token))
        fixture.handle(.page(.show(false, PageReport(load: "b", number: 0)), launch.token))
        #expect(fixture.wake == fixture.now + Self.timeout)
    }

    /// The last report of a page, and whether the trial fails after it.
    private struct Case: CustomTestStringConvertible {
        let testDescription: String
        let steps: [(String, Int, Step)]
        let fails: Bool

        enum Step { case shown, hidden, left, vanished, loaded, later }

        init(_ name: String, fails: Bool, _ steps: [(String, Int, Step)]) {
            (testDescription, self.steps, self.fails) = (name, steps, fails)
        }
    }

    private static let cases = [
        Case("the younger window closes", fails: true, [("a", 1, .shown), ("b", 1, .shown), ("b", 2, .hidden)]),
        Case(
            "the younger window closes, and its connection ends", fails: true,
            [("a", 1, .shown), ("b", 1, .shown), ("b", 2, .hidden), ("b", 0, .vanished)]),
        Case("the older window closes", fails: true, [("a", 1, .shown), ("b", 1, .shown), ("a", 2, .hidden)]),
        Case(
            "a second tab opens and closes", fails: true,
            [("a", 1, .shown), ("a", 2, .hidden), ("b", 1, .shown), ("b", 2, .hidden), ("a", 3, .shown)]),
        Case(
            "a second tab is opened in the background", fails: true,
            [("a", 1, .shown), ("b", 1, .hidden), ("b", 2, .hidden)]),
        Case(
            "both windows are hidden", fails: false,
            [("a", 1, .shown), ("b", 1, .shown), ("a", 2, .hidden), ("b", 2, .hidden)]),
        Case(
            "an older page returns from the cache of the browser", fails: true,
            [("a", 1, .shown), ("a", 2, .left), ("b", 1, .shown), ("b", 2, .hidden), ("a", 3, .shown)]),
        Case(
            "the unload of a reloaded page arrives late", fails: false,
            [("a", 1, .shown), ("b", 1, .hidden), ("a", 2, .left)]),
        Case(
            "a visible page leaves long after a hidden one was opened", fails: true,
            [
                ("a", 1, .shown), ("b", 1, .hidden), ("a", 2, .hidden), ("", 0, .later), ("a", 3, .shown),
                ("a", 4, .left),
            ]),
        Case("a visible page ends", fails: true, [("a", 1, .shown), ("a", 0, .vanished)]),
        Case(
            "a visible page ends, and a hidden one follows", fails: false,
            [("a", 1, .shown), ("a", 0, .vanished), ("b", 1, .hidden)]),
        Case("a hidden page ends", fails: false, [("a", 1, .shown), ("a", 2, .hidden), ("a", 0, .vanished)]),
        Case(
            "a page is loaded after all were closed, and never reports", fails: true,
            [("a", 1, .shown), ("a", 2, .hidden), ("a", 0, .vanished), ("", 0, .loaded)]),
        Case(
            "a page is loaded after all were closed, and is hidden", fails: false,
            [("a", 1, .shown), ("a", 2, .hidden), ("", 0, .loaded), ("b", 1, .hidden)]),
        Case(
            "one of many windows stays open", fails: true,
            [("a", 1, .shown)] + (0..<40).flatMap { [("w\($0)", 1, .shown), ("w\($0)", 2, .hidden)] }),
    ]

    @Test(arguments: cases)
    private func `pauses a trial only while all its pages are hidden or gone`(row: Case) throws {
        for isTrial in [true, false] {
            var fixture = StateFixture(.reported)
            fixture.runGood(1)
            fixture.install(2)
            let loaded = fixture.load(takesNext: true)
            var launch = try #require(loaded)
            if !isTrial {
                fixture.handle(.page(.confirm, launch.token))
                fixture.handle(.admit(.nobody))
                fixture.handle(.admit(.everybody))
                let again = fixture.load(takesNext: true)
                launch = try #require(again)
                #expect(!launch.isTrial)
            }
            for (load, number, step) in row.steps {
                let report = PageReport(load: load, number: number)
                switch step {
                case .shown: fixture.handle(.page(.show(true, report), launch.token))
                case .hidden: fixture.handle(.page(.show(false, report), launch.token))
                case .left: fixture.handle(.page(.leave("", report), launch.token))
                case .vanished: fixture.handle(.page(.vanish(load), launch.token))
                case .loaded: _ = fixture.load(takesNext: true)
                case .later: fixture.now += Self.timeout * 2
                }
            }
            var hasFailed = false
            for _ in 0..<6 {
                fixture.now += Self.timeout
                fixture.handle(.timerFired)
                hasFailed =
                    hasFailed || !fixture.verdicts.isEmpty
                    || fixture.reports.contains { if case .unconfirmed = $0 { true } else { false } }
            }
            #expect(hasFailed == row.fails, "on trial \(isTrial)")
        }
    }

    @Test func `a closed window is not busy`() throws {
        var (fixture, token) = try busyFixture()
        fixture.install(2)
        fixture.handle(.page(.vanish("a"), token))
        fixture.handle(.tick(mayActivate: true))
        #expect(fixture.world.reloads == 1)
    }

    @Test func `starts the timeout of a silent page if pages of other clients have reported`() throws {
        var fixture = StateFixture(.reported)
        fixture.runGood(1)
        fixture.install(2)
        fixture.handle(.inspect(retrying: false))
        _ = fixture.load(takesNext: true)
        fixture.now = Self.timeout * 3
        fixture.handle(.timerFired)
        #expect(fixture.verdicts.isEmpty && fixture.wake == Self.timeout * 4)
        fixture.now = Self.timeout * 4
        fixture.handle(.timerFired)
        #expect(fixture.verdicts.count == 1)
    }

    @Test func `replaces a silent client without a verdict until a page reports`() throws {
        for isLost in [false, true] {
            var fixture = StateFixture(.reported)
            fixture.install(1)
            fixture.handle(.start)
            let loaded = fixture.load(takesNext: true)
            let silent = try #require(loaded)
            fixture.now = Self.timeout * 3
            fixture.handle(isLost ? .page(.lose("hung"), silent.token) : .timerFired)
            #expect(fixture.verdicts.map(\.verdict) == [.abandoned] && fixture.wake == nil)
            guard case .rolledBack(silent.name, to: .embedded, let failure)? = fixture.reports.first else {
                Issue.record("\(fixture.reports)")
                return
            }
            #expect(failure.message.contains("without a verdict"))
            #expect(fixture.world.failures.isEmpty)
            // It does not come back by itself.
            fixture.handle(.inspect(retrying: true))
            let fallback = fixture.load(takesNext: true)
            #expect(fallback?.name == .embedded)
            // A page that reports shows that a browser runs the pages.
            let token = try #require(fallback?.token)
            fixture.handle(.page(.show(true, PageReport(load: "a", number: 0)), token))
            fixture.handle(.tick(mayActivate: false))
            #expect(fixture.state.next?.name == silent.name)
            _ = fixture.load(takesNext: true)
            fixture.now += Self.timeout * 3
            fixture.handle(.timerFired)
            fixture.now += Self.timeout
            fixture.handle(.timerFired)
            #expect(fixture.world.failures == [1: 1])
        }
    }

    @Test func `keeps a silent client if nothing else can be shown`() throws {
        var fixture = StateFixture(.reported)
        fixture.world.hasSeed = false
        fixture.install(1)
        fixture.handle(.start)
        let loaded = fixture.load(takesNext: true)
        fixture.now = Self.timeout * 3
        fixture.handle(.timerFired)
        #expect(fixture.state.launched?.token == loaded?.token)
        fixture.handle(.admit(.nobody))
        fixture.handle(.admit(.everybody))
        #expect(fixture.load(takesNext: true)?.name == FakeWorld.name(1))
    }

    @Test func `excludes the time for which the process was suspended`() throws {
        var fixture = StateFixture(.reported)
        fixture.install(1)
        fixture.handle(.start)
        let loaded = fixture.load(takesNext: true)
        let token = try #require(loaded?.token)
        fixture.now = .seconds(10)
        fixture.handle(.stalled(.seconds(10)))
        #expect(fixture.wake == Self.timeout * 3 + .seconds(10))
        fixture.handle(.page(.show(true, PageReport(load: "a", number: 0)), token))
        fixture.now += .seconds(40)
        fixture.handle(.stalled(.seconds(38)))
        fixture.handle(.timerFired)
        #expect(fixture.verdicts.isEmpty && fixture.wake == fixture.now + Self.timeout - .seconds(2))
        fixture.handle(.page(.leave("", PageReport(load: "a", number: 1)), token))
        fixture.now += .seconds(60)
        fixture.handle(.stalled(.seconds(59)))
        #expect(fixture.wake == fixture.now + Self.timeout - .seconds(1))
    }

    @Test func `confirms a start after a page error with a warning`() throws {
        for (complaint, isGrave) in [("TypeError: x", true), ("<img> could not load /a.png", false)] {
            var fixture = StateFixture(.reported)
            fixture.install(1)
            fixture.handle(.start)
            let loaded = fixture.load(takesNext: true)
            let token = try #require(loaded?.token)
            fixture.handle(.page(.error(complaint, isGrave: isGrave), token))
            fixture.handle(.page(.confirm, token))
            let name = FakeWorld.name(1)
            let warning = ShellEvent.complained(name, "it confirmed its start after it had reported 1 error")
            #expect(fixture.reports == [.confirmed(name)] + (isGrave ? [warning] : []))
        }
    }

    @Test func `records the first report of a trial's page once`() throws {
        for visibility in [ShellConfiguration.Visibility.reported, .assumed] {
            var fixture = StateFixture(visibility)
            fixture.install(1)
            fixture.handle(.start)
            let loaded = fixture.load(takesNext: true)
            let token = try #require(loaded?.token)
            for number in 0..<3 { fixture.handle(.page(.show(true, PageReport(load: "a", number: number)), token)) }
            fixture.handle(.page(.confirm, token))
            #expect(fixture.reported == (visibility == .reported ? [token] : []))
        }
    }

    @Test func `a page can fail only one start of its client, and the timeout decides the second`() throws {
        var fixture = StateFixture(.reported)
        fixture.install(1)
        fixture.world.reportedFailed = [1]
        fixture.handle(.start)
        let loaded = fixture.load(takesNext: true)
        let token = try #require(loaded?.token)
        fixture.handle(.page(.show(true, PageReport(load: "a", number: 0)), token))
        fixture.handle(.page(.failTrial("white"), token))
        #expect(fixture.refusal == nil && fixture.verdicts.isEmpty)
        #expect(fixture.reports == [.complained(FakeWorld.name(1), "white")])
        fixture.handle(.page(.leave("https://h", PageReport(load: "b", number: 0)), token))
        #expect(fixture.wake == Self.timeout)
        fixture.now = Self.timeout
        fixture.handle(.timerFired)
        guard case .faulty(let failure)? = fixture.verdicts.first?.verdict else {
            Issue.record("\(fixture.verdicts)")
            return
        }
        #expect(failure.cause == .notConfirmed && failure.detail.hasSuffix("; the page said: white"))
    }

    @Test func `applies a verdict that the disk refuses at once, reports it once, and writes it later`() throws {
        for isGood in [true, false] {
            var fixture = StateFixture()
            fixture.runGood(1)
            fixture.install(2)
            let loaded = fixture.load(takesNext: true)
            let launch = try #require(loaded)
            fixture.world.isDiskFull = true
            let event: ShellState<FakeWorld>.Event =
                isGood ? .page(.confirm, launch.token) : .page(.fail("white"), launch.token)
            fixture.handle(event)
            #expect(fixture.reports.first == .failed(FakeWorld.diskIsFull))
            #expect(fixture.reports.count == 2 && fixture.wake == nil)
            fixture.handle(event)
            #expect(!fixture.reports.contains(.failed(FakeWorld.diskIsFull)) && fixture.verdicts.isEmpty)
            fixture.handle(.inspect(retrying: false))
            #expect(!fixture.reports.contains(.failed(FakeWorld.diskIsFull)))
            fixture.world.isDiskFull = false
            fixture.handle(.inspect(retrying: false))
            #expect(fixture.world.launch?.verdict == (isGood ? .good : .faulty))
        }
    }

    @Test func `writes a pending verdict before the next launch`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        let loaded = fixture.load(takesNext: true)
        let launch = try #require(loaded)
        fixture.world.isDiskFull = true
        fixture.handle(.page(.confirm, launch.token))
        fixture.world.change { $0.blocked = [2] }
        fixture.handle(.tick(mayActivate: false))
        #expect(fixture.state.prepared?.name == FakeWorld.name(1))
        fixture.world.isDiskFull = false
        let other = fixture.load()
        #expect(other?.name == FakeWorld.name(1) && fixture.world.good.contains(2))
    }

    @Test func `writes a pending verdict before the launch of a reloaded client`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        let loaded = fixture.load(takesNext: true)
        let launch = try #require(loaded)
        fixture.install(3)
        fixture.handle(.reload)
        fixture.world.isDiskFull = true
        fixture.handle(.page(.confirm, launch.token))
        fixture.world.isDiskFull = false
        let other = fixture.load()
        #expect(other?.name == FakeWorld.name(3) && fixture.world.good.contains(2))
    }

    @Test func `retries the replacement of a failed client without repeating its verdict`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        let loaded = fixture.load(takesNext: true)
        let launch = try #require(loaded)
        fixture.world.refusesBase = true
        fixture.handle(.page(.fail("white"), launch.token))
        #expect(fixture.reports.count == 1 && fixture.state.launched?.token == launch.token)
        fixture.handle(.tick(mayActivate: false))
        #expect(fixture.reports.isEmpty)
        fixture.handle(.page(.confirm, launch.token))
        #expect((fixture.refusal as? UpdateFailure)?.code == .healthFailed)
        fixture.world.refusesBase = false
        fixture.handle(.tick(mayActivate: false))
        guard case .rolledBack(_, let other, let failure)? = fixture.reports.first else {
            Issue.record("no rollback: \(fixture.reports)")
            return
        }
        #expect(other == FakeWorld.name(1) && failure.code == .healthFailed)
        #expect(fixture.verdicts.isEmpty && fixture.world.failures[2] == 1)
    }

    @Test func `reports once that the bridge rejects a ready client`() {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        fixture.handle(.tick(mayActivate: false))
        #expect(fixture.reports == [.updateAvailable(FakeWorld.name(2))])
        fixture.world.refusesBase = true
        fixture.handle(.tick(mayActivate: true))
        #expect(fixture.reports.count == 1)
        fixture.handle(.tick(mayActivate: true))
        #expect(fixture.reports.isEmpty && fixture.state.next?.name == FakeWorld.name(2))
        fixture.world.refusesBase = false
        fixture.handle(.tick(mayActivate: true))
        #expect(fixture.world.base == FakeWorld.name(2) && fixture.world.reloads == 1)
    }

    @Test func `shows an urgent client as soon as it is ready`() throws {
        for isUrgent in [true, false] {
            var fixture = StateFixture()
            fixture.runGood(1)
            fixture.install(2)
            fixture.world.urgent = isUrgent ? [2] : []
            fixture.handle(.tick(mayActivate: false))
            #expect(fixture.reports == [.updateAvailable(FakeWorld.name(2))])
            #expect(fixture.world.reloads == (isUrgent ? 1 : 0))
            let loaded = fixture.load(takesNext: true, mayChange: false)
            #expect(try #require(loaded).name == FakeWorld.name(isUrgent ? 2 : 1))
        }
    }

    @Test func `delays an urgent client until the trial ends`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        let loaded = fixture.load(takesNext: true)
        let launch = try #require(loaded)
        fixture.install(3)
        fixture.world.urgent = [3]
        fixture.handle(.tick(mayActivate: false))
        #expect(fixture.world.reloads == 0 && fixture.state.next?.name == FakeWorld.name(3))
        fixture.handle(.page(.confirm, launch.token))
        fixture.handle(.tick(mayActivate: false))
        #expect(fixture.world.reloads == 1 && fixture.state.prepared?.name == FakeWorld.name(3))
    }

    @Test func `a page load outside the activation windows ignores a client that is not urgent`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2, 3)
        fixture.world.urgent = [2]
        fixture.handle(.tick(mayActivate: false))
        let stays = fixture.load(takesNext: true, mayChange: false)
        #expect(try #require(stays).name == FakeWorld.name(1), "2 is urgent, and 3 is next")
    }

    private func busy(_ isBusy: Bool, _ number: Int, _ token: LaunchToken) -> ShellState<FakeWorld>.Event {
        .page(.busy(isBusy, PageReport(load: "a", number: number), mayActivate: true), token)
    }

    /// Returns a state on which 1 runs and its page is busy.
    private func busyFixture() throws -> (StateFixture, LaunchToken) {
        var fixture = StateFixture()
        fixture.runGood(1)
        let token = try #require(fixture.state.launched).token
        fixture.handle(busy(true, 1, token))
        return (fixture, token)
    }

    @Test(arguments: [true, false])
    func `a busy page delays every automatic change`(isUrgent: Bool) throws {
        var (fixture, token) = try busyFixture()
        fixture.install(2)
        fixture.world.urgent = isUrgent ? [2] : []
        fixture.handle(.tick(mayActivate: true))
        #expect(fixture.reports == [.updateAvailable(FakeWorld.name(2))])
        #expect(fixture.world.reloads == 0)
        // A load by another window changes nothing.
        let other = fixture.load(takesNext: true)
        #expect(other?.name == FakeWorld.name(1))
        fixture.handle(busy(false, 2, LaunchToken(text: "another's")))
        #expect(fixture.world.reloads == 0)
        fixture.handle(busy(false, 2, token))
        #expect(fixture.world.reloads == 1 && fixture.state.prepared?.name == FakeWorld.name(2))
    }

    @Test(arguments: [HealthResult.passed, .failed("no printer")])
    func `a health check decides a trial after the page has confirmed its start`(result: HealthResult) throws {
        var fixture = StateFixture(checksHealth: true)
        fixture.install(1)
        fixture.handle(.start)
        let loaded = fixture.load()
        let token = try #require(loaded).token
        fixture.handle(.page(.confirm, token))
        fixture.handle(.page(.confirm, token))
        #expect(fixture.checked == [token] && fixture.verdicts.isEmpty && fixture.wake == nil)
        // Neither the startup timeout nor a newer client ends the trial now.
        fixture.install(2)
        fixture.now = Self.timeout * 2
        fixture.handle(.timerFired)
        fixture.handle(.tick(mayActivate: true))
        fixture.handle(.healthChecked(.failed("another launch"), LaunchToken(text: "x")))
        #expect(fixture.verdicts.isEmpty && fixture.state.launched?.token == token)
        fixture.handle(.healthChecked(result, token))
        switch (result, fixture.verdicts.first?.verdict) {
        case (.passed, .good?): #expect(fixture.reports == [.confirmed(FakeWorld.name(1))])
        case (.failed, .faulty(let failure)?): #expect(failure.detail == "no printer")
        default: Issue.record("\(fixture.verdicts)")
        }
        #expect(fixture.verdicts.count == 1)
        fixture.handle(.healthChecked(result, token))
        #expect(fixture.verdicts.isEmpty)
    }

    @Test func `a confirmed client needs no health check on its next start`() throws {
        var fixture = StateFixture(checksHealth: true)
        fixture.install(1)
        fixture.world.good = [1]
        fixture.handle(.start)
        let loaded = fixture.load()
        fixture.handle(.page(.confirm, try #require(loaded).token))
        #expect(fixture.checked.isEmpty && fixture.verdicts.count == 1)
    }

    private func request(_ number: Int, waits: Bool = true) -> ShellState<FakeWorld>.Event {
        .tick(mayActivate: false, request: ActivationRequest(FakeWorld.name(number), waitsForBusyPages: waits))
    }

    @Test func `an operator's request shows the client that it names outside the activation windows`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        fixture.handle(request(3))
        #expect(fixture.state.next?.name == FakeWorld.name(2) && fixture.world.reloads == 0)
        fixture.handle(request(2))
        #expect(fixture.state.prepared?.name == FakeWorld.name(2) && fixture.world.reloads == 1)
        fixture.handle(request(2))
        let loaded = fixture.load()
        let launch = try #require(loaded)
        #expect(launch.name == FakeWorld.name(2) && launch.isTrial)
        // A request during a trial changes nothing.
        fixture.install(3)
        fixture.handle(request(3))
        #expect(fixture.state.launched?.token == launch.token && fixture.world.reloads == 1)
    }

    @Test(arguments: [true, false])
    func `an operator's request can ignore a busy page`(waits: Bool) throws {
        var (fixture, token) = try busyFixture()
        fixture.install(2)
        fixture.handle(request(2, waits: waits))
        #expect(fixture.world.reloads == (waits ? 0 : 1))
        fixture.handle(busy(false, 2, token))
        fixture.handle(request(2, waits: waits))
        #expect(fixture.world.reloads == 1)
    }

    @Test func `an operator's request retries a failed client without a pause`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        fixture.handle(request(2))
        let loaded = fixture.load()
        fixture.handle(.page(.fail("white"), try #require(loaded).token))
        let back = fixture.load()
        #expect(back?.name == FakeWorld.name(1))
        fixture.handle(.tick(mayActivate: true))
        #expect(fixture.state.next == nil)
        fixture.handle(request(2))
        #expect(fixture.state.prepared?.name == FakeWorld.name(2))
    }

    @Test func `the end of a session makes pages idle and keeps the launch`() throws {
        var (fixture, token) = try busyFixture()
        fixture.install(2)
        for event in [ShellState<FakeWorld>.Event.admit(.everybody), .sessionEnded] {
            let before = fixture.world.reloads
            fixture.handle(event)
            #expect(fixture.state.launched?.token == token && before == 0)
            fixture.handle(.tick(mayActivate: true))
        }
        #expect(fixture.world.reloads == 1)
    }

    @Test func `a busy page delays a change up to the limit of its channel`() throws {
        for limit in [Duration.seconds(600), .seconds(5), .zero] {
            var (fixture, _) = try busyFixture()
            fixture.world.busyLimit = limit
            fixture.install(2)
            if limit > .zero {
                fixture.now = limit - .milliseconds(1)
                fixture.handle(.tick(mayActivate: true))
                #expect(fixture.world.reloads == 0)
            }
            fixture.now = limit
            fixture.handle(.tick(mayActivate: true))
            #expect(fixture.world.reloads == 1)
        }
    }

    @Test func `replaces a recalled client when its page is idle or the limit has passed`() throws {
        var (fixture, token) = try busyFixture()
        fixture.world.change { $0.blocked = [1] }
        for _ in 0..<3 {
            fixture.handle(.tick(mayActivate: false))
            #expect(fixture.reports.isEmpty && fixture.state.launched?.name == FakeWorld.name(1))
        }
        fixture.handle(busy(false, 2, token))
        #expect(fixture.state.launched == nil && fixture.state.prepared?.name == .embedded)

        (fixture, _) = try busyFixture()
        fixture.world.change { $0.blocked = [1] }
        fixture.handle(.tick(mayActivate: false))
        fixture.now = .seconds(60)
        fixture.handle(.tick(mayActivate: false))
        #expect(fixture.state.launched == nil && fixture.state.prepared?.name == .embedded)
    }

    @Test func `a page that changes its load name with each report does not extend the busy limit`() throws {
        var (fixture, token) = try busyFixture()
        fixture.world.busyLimit = .seconds(5)
        fixture.world.change { $0.blocked = [1] }
        for number in 0..<10 {
            fixture.now = .seconds(2 * number)
            fixture.handle(.page(.busy(true, PageReport(load: "p\(number)", number: 0), mayActivate: true), token))
            fixture.handle(.tick(mayActivate: false))
            if fixture.state.launched == nil { break }
        }
        #expect(fixture.now == .seconds(6) && fixture.state.prepared?.name == .embedded)
    }

    @Test func `a page that requests another client or leaves is not busy`() throws {
        var (fixture, token) = try busyFixture()
        fixture.install(2)
        fixture.handle(.tick(mayActivate: true))
        fixture.handle(.reload)
        #expect(fixture.refusal == nil && fixture.world.reloads == 1)

        (fixture, token) = try busyFixture()
        fixture.install(2)
        fixture.handle(.page(.leave("", PageReport(load: "a", number: 2)), token))
        fixture.handle(.tick(mayActivate: true))
        #expect(fixture.world.reloads == 1)
    }

    @Test func `a failed page is not busy`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        let loaded = fixture.load(takesNext: true)
        let launch = try #require(loaded)
        fixture.handle(busy(true, 1, launch.token))
        fixture.handle(.page(.fail("white"), launch.token))
        #expect(fixture.state.prepared?.name == FakeWorld.name(1) && fixture.world.reloads == 1)
    }

    @Test func `rejects a verdict with the token of another launch`() throws {
        var fixture = StateFixture()
        fixture.install(1)
        fixture.handle(.start)
        _ = fixture.load()
        for event in [
            ShellState<FakeWorld>.Event.page(.confirm, LaunchToken(text: "x")),
            .page(.fail(""), LaunchToken(text: "x")),
        ] {
            fixture.handle(event)
            #expect(fixture.verdicts.isEmpty)
        }
    }

    @Test func `a page load outside the activation windows changes nothing unless nothing runs`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        fixture.install(2)
        let same = fixture.load(takesNext: true, mayChange: false)
        #expect(same?.name == FakeWorld.name(1))
        #expect(fixture.readings == 0)
        fixture.world.change { $0.blocked = [1] }
        fixture.handle(.tick(mayActivate: false))
        let other = fixture.load(takesNext: true, mayChange: false)
        #expect(other?.name == FakeWorld.name(2))
    }
}

@Suite struct StallDetectorTests {
    @Test func `reports a suspended process, and not a busy one`() {
        var stalls = StallDetector(every: .seconds(1), from: .zero)
        #expect(stalls.tick(at: .seconds(1)) == nil)
        #expect(stalls.tick(at: .seconds(4)) == nil)
        #expect(stalls.tick(at: .seconds(35)) == .seconds(30))
        #expect(stalls.tick(at: .seconds(36)) == nil)
    }
}
