import BundleTesting
import Testing

@testable import BundleCore
import BundleValues
@testable import ClientShell

/// What a shell does about each event, without a disk and without waiting.
@Suite struct ShellStateTests {
    private static let timeout = StateBench.timeout.duration

    @Test func `a boot attempt is written before the page has its launch`() throws {
        var bench = StateBench()
        bench.install(1)
        bench.handle(.start)
        #expect(bench.begun.isEmpty && bench.world.base == FakeWorld.name(1))
        let loaded = bench.load()
        let launch = try #require(loaded)
        #expect(bench.world.launch?.token == launch.token)
        #expect(launch.isTrial && bench.wake == Self.timeout)
        #expect(bench.reports == [.launched(FakeWorld.name(1), isTrial: true)])
    }

    @Test func `a page on trial that leaves has to be followed by one of ours`() throws {
        for isFollowed in [true, false] {
            var bench = StateBench()
            bench.runGood(1)
            bench.install(2)
            let loaded = bench.load(takesNext: true)
            let launch = try #require(loaded)
            bench.handle(.show(launch.token, true, PageReport(load: "a", number: 1)))
            bench.handle(.leave(launch.token, "https://h/", PageReport(load: "a", number: 2)))
            bench.handle(.show(launch.token, false, PageReport(load: "a", number: 3)))
            if isFollowed { bench.handle(.show(launch.token, false, PageReport(load: "b", number: 1))) }
            bench.now = Self.timeout
            bench.handle(.woken)
            #expect(bench.verdicts.count == (isFollowed ? 0 : 1))
            guard case .faulty(let failure)? = bench.verdicts.first?.verdict else { continue }
            #expect(failure.cause == .reported && failure.detail.contains("its page left for https://h/"))
        }
    }

    @Test func `a page fails its own start on trial, and not afterwards`() throws {
        var bench = StateBench()
        bench.runGood(1)
        let good = try #require(bench.state.launched)
        bench.handle(.failTrial(good.token, "x"))
        #expect(bench.verdicts.isEmpty)
        bench.install(2)
        let loaded = bench.load(takesNext: true)
        let launch = try #require(loaded)
        bench.handle(.failTrial(good.token, "x"))
        #expect(bench.verdicts.isEmpty)
        bench.handle(.failTrial(launch.token, "no printer"))
        guard case .faulty(let failure)? = bench.verdicts.first?.verdict else {
            Issue.record("no fall")
            return
        }
        #expect(failure.cause == .reported && failure.detail == "the page said: no printer")
    }

    @Test func `a trial in time is woken no more, and one that is late falls`() throws {
        var bench = StateBench()
        bench.runGood(1)
        #expect(bench.wake == nil)
        bench.install(2)
        let loaded = bench.load(takesNext: true)
        let launch = try #require(loaded)
        #expect(launch.name == FakeWorld.name(2))
        bench.handle(.complain(launch.token, "TypeError: x", isGrave: true))
        bench.now = Self.timeout - .milliseconds(1)
        bench.handle(.woken)
        #expect(bench.verdicts.isEmpty && bench.wake == Self.timeout)
        bench.now = Self.timeout
        bench.handle(.woken)
        #expect(bench.verdicts.map(\.token) == [launch.token])
        guard case .faulty(let failure)? = bench.verdicts.first?.verdict else {
            Issue.record("no fall")
            return
        }
        #expect(failure.cause == .notConfirmed && failure.detail.hasSuffix("; the page said: TypeError: x"))
        #expect(bench.state.launched == nil && bench.world.base == FakeWorld.name(1) && bench.wake == nil)
        let follower = bench.load()
        #expect(follower?.name == FakeWorld.name(1))
    }

    @Test func `where pages report, a start's time begins with the first report or after a long silence`() throws {
        var bench = StateBench(.reported)
        bench.install(1)
        bench.handle(.start)
        // A probe shows the page to nobody.
        let loaded = bench.load()
        let launch = try #require(loaded)
        #expect(bench.wake == nil)
        _ = bench.load(takesNext: true)
        #expect(bench.wake == Self.timeout * 3)
        bench.now = .seconds(1)
        _ = bench.load(takesNext: true)
        #expect(bench.wake == Self.timeout * 3)
        bench.handle(.show(launch.token, false, PageReport(load: "a", number: 0)))
        #expect(bench.wake == nil)
        bench.handle(.show(launch.token, true, PageReport(load: "b", number: 0)))
        #expect(bench.wake == bench.now + Self.timeout)
        // The load before says farewell late, and an old report overtakes nobody.
        bench.handle(.show(launch.token, false, PageReport(load: "a", number: 1)))
        bench.handle(.show(launch.token, false, PageReport(load: "b", number: 0)))
        #expect(bench.wake == bench.now + Self.timeout)
    }

    @Test func `a page that reports nothing has its time after the silence, where pages have reported before`() throws {
        var bench = StateBench(.reported)
        bench.runGood(1)
        bench.install(2)
        bench.handle(.inspect(retrying: false))
        _ = bench.load(takesNext: true)
        bench.now = Self.timeout * 3
        bench.handle(.woken)
        #expect(bench.verdicts.isEmpty && bench.wake == Self.timeout * 4)
        bench.now = Self.timeout * 4
        bench.handle(.woken)
        #expect(bench.verdicts.count == 1)
    }

    @Test func `a client whose page reports nothing is passed over without a verdict until a page reports`() throws {
        for isLost in [false, true] {
            var bench = StateBench(.reported)
            bench.install(1)
            bench.handle(.start)
            let loaded = bench.load(takesNext: true)
            let silent = try #require(loaded)
            bench.now = Self.timeout * 3
            bench.handle(isLost ? .lose(silent.token, "hung") : .woken)
            #expect(bench.verdicts.map(\.verdict) == [.abandoned] && bench.wake == nil)
            guard case .rolledBack(silent.name, to: .embedded, let failure)? = bench.reports.first else {
                Issue.record("\(bench.reports)")
                return
            }
            #expect(failure.message.contains("without a verdict"))
            #expect(bench.world.failures.isEmpty)
            // Nothing brings it back by itself.
            bench.handle(.inspect(retrying: true))
            let fallback = bench.load(takesNext: true)
            #expect(fallback?.name == .embedded)
            // A page that reports shows that pages are shown.
            let token = try #require(fallback?.token)
            bench.handle(.show(token, true, PageReport(load: "a", number: 0)))
            bench.handle(.tick(mayActivate: false))
            #expect(bench.state.next?.name == silent.name)
            _ = bench.load(takesNext: true)
            bench.now += Self.timeout * 3
            bench.handle(.woken)
            bench.now += Self.timeout
            bench.handle(.woken)
            #expect(bench.world.failures == [1: 1])
        }
    }

    @Test func `a client that alone can be shown stays, though its page reports nothing`() throws {
        var bench = StateBench(.reported)
        bench.world.hasSeed = false
        bench.install(1)
        bench.handle(.start)
        let loaded = bench.load(takesNext: true)
        bench.now = Self.timeout * 3
        bench.handle(.woken)
        #expect(bench.state.launched?.token == loaded?.token)
        bench.handle(.admit(.nobody))
        bench.handle(.admit(.everybody))
        #expect(bench.load(takesNext: true)?.name == FakeWorld.name(1))
    }

    @Test func `the time in which the process stood still does not count`() throws {
        var bench = StateBench(.reported)
        bench.install(1)
        bench.handle(.start)
        let loaded = bench.load(takesNext: true)
        let token = try #require(loaded?.token)
        bench.now = .seconds(10)
        bench.handle(.stoodStill(.seconds(10)))
        #expect(bench.wake == Self.timeout * 3 + .seconds(10))
        bench.handle(.show(token, true, PageReport(load: "a", number: 0)))
        bench.now += .seconds(40)
        bench.handle(.stoodStill(.seconds(38)))
        bench.handle(.woken)
        #expect(bench.verdicts.isEmpty && bench.wake == bench.now + Self.timeout - .seconds(2))
        bench.handle(.leave(token, "", PageReport(load: "a", number: 1)))
        bench.now += .seconds(60)
        bench.handle(.stoodStill(.seconds(59)))
        #expect(bench.wake == bench.now + Self.timeout - .seconds(1))
    }

    @Test func `a start that is confirmed after an error of its page is good, with a complaint`() throws {
        for (complaint, isGrave) in [("TypeError: x", true), ("<img> could not load /a.png", false)] {
            var bench = StateBench(.reported)
            bench.install(1)
            bench.handle(.start)
            let loaded = bench.load(takesNext: true)
            let token = try #require(loaded?.token)
            bench.handle(.complain(token, complaint, isGrave: isGrave))
            bench.handle(.confirm(token))
            let name = FakeWorld.name(1)
            let warning = ShellEvent.complained(
                name, "it confirmed its start, though its page had reported: \(complaint)")
            #expect(bench.reports == [.confirmed(name)] + (isGrave ? [warning] : []))
        }
    }

    @Test func `the first report of a trial's page is written down, once`() throws {
        for visibility in [ShellConfiguration.Visibility.reported, .assumed] {
            var bench = StateBench(visibility)
            bench.install(1)
            bench.handle(.start)
            let loaded = bench.load(takesNext: true)
            let token = try #require(loaded?.token)
            for number in 0..<3 { bench.handle(.show(token, true, PageReport(load: "a", number: number))) }
            bench.handle(.confirm(token))
            #expect(bench.heard == (visibility == .reported ? [token] : []))
        }
    }

    @Test func `the word of a page fails one start of a client, and its second trial is decided by its time`() throws {
        var bench = StateBench(.reported)
        bench.install(1)
        bench.world.reportedFailed = [1]
        bench.handle(.start)
        let loaded = bench.load(takesNext: true)
        let token = try #require(loaded?.token)
        bench.handle(.show(token, true, PageReport(load: "a", number: 0)))
        bench.handle(.failTrial(token, "white"))
        #expect(bench.refusal == nil && bench.verdicts.isEmpty)
        #expect(bench.reports == [.complained(FakeWorld.name(1), "white")])
        bench.handle(.leave(token, "https://h", PageReport(load: "b", number: 0)))
        #expect(bench.wake == Self.timeout)
        bench.now = Self.timeout
        bench.handle(.woken)
        guard case .faulty(let failure)? = bench.verdicts.first?.verdict else {
            Issue.record("\(bench.verdicts)")
            return
        }
        #expect(failure.cause == .notConfirmed && failure.detail.hasSuffix("; the page said: white"))
    }

    @Test func `a verdict that the disk refuses counts at once, is told once, and is written later`() throws {
        for isGood in [true, false] {
            var bench = StateBench()
            bench.runGood(1)
            bench.install(2)
            let loaded = bench.load(takesNext: true)
            let launch = try #require(loaded)
            bench.world.isDiskFull = true
            let event: ShellState<FakeLaunch>.Event = isGood ? .confirm(launch.token) : .fail(launch.token, "white")
            bench.handle(event)
            #expect(bench.reports.first == .failed(FakeWorld.diskIsFull))
            #expect(bench.reports.count == 2 && bench.wake == nil)
            bench.handle(event)
            #expect(!bench.reports.contains(.failed(FakeWorld.diskIsFull)) && bench.verdicts.isEmpty)
            bench.handle(.inspect(retrying: false))
            #expect(!bench.reports.contains(.failed(FakeWorld.diskIsFull)))
            bench.world.isDiskFull = false
            bench.handle(.inspect(retrying: false))
            #expect(bench.world.launch?.verdict == (isGood ? .good : .faulty))
        }
    }

    @Test func `what is owed is written before another launch is`() throws {
        var bench = StateBench()
        bench.runGood(1)
        bench.install(2)
        let loaded = bench.load(takesNext: true)
        let launch = try #require(loaded)
        bench.world.isDiskFull = true
        bench.handle(.confirm(launch.token))
        bench.world.change { $0.blocked = [2] }
        bench.handle(.tick(mayActivate: false))
        #expect(bench.state.prepared?.name == FakeWorld.name(1))
        bench.world.isDiskFull = false
        let other = bench.load()
        #expect(other?.name == FakeWorld.name(1) && bench.world.good.contains(2))
    }

    @Test func `what is owed is written before the launch of a client that was changed to`() throws {
        var bench = StateBench()
        bench.runGood(1)
        bench.install(2)
        let loaded = bench.load(takesNext: true)
        let launch = try #require(loaded)
        bench.install(3)
        bench.handle(.reload)
        bench.world.isDiskFull = true
        bench.handle(.confirm(launch.token))
        bench.world.isDiskFull = false
        let other = bench.load()
        #expect(other?.name == FakeWorld.name(3) && bench.world.good.contains(2))
    }

    @Test func `a fall that nothing can follow is tried again, and its verdict is not`() throws {
        var bench = StateBench()
        bench.runGood(1)
        bench.install(2)
        let loaded = bench.load(takesNext: true)
        let launch = try #require(loaded)
        bench.world.refusesBase = true
        bench.handle(.fail(launch.token, "white"))
        #expect(bench.reports.count == 1 && bench.state.launched?.token == launch.token)
        bench.handle(.tick(mayActivate: false))
        #expect(bench.reports.isEmpty)
        bench.handle(.confirm(launch.token))
        #expect((bench.refusal as? UpdateFailure)?.code == .healthFailed)
        bench.world.refusesBase = false
        bench.handle(.tick(mayActivate: false))
        guard case .rolledBack(_, let other, let failure)? = bench.reports.first else {
            Issue.record("no fall: \(bench.reports)")
            return
        }
        #expect(other == FakeWorld.name(1) && failure.code == .healthFailed)
        #expect(bench.verdicts.isEmpty && bench.world.failures[2] == 1)
    }

    @Test func `a client that cannot be shown by itself is trouble that is told once`() {
        var bench = StateBench()
        bench.runGood(1)
        bench.install(2)
        bench.handle(.tick(mayActivate: false))
        #expect(bench.reports == [.updateAvailable(FakeWorld.name(2))])
        bench.world.refusesBase = true
        bench.handle(.tick(mayActivate: true))
        #expect(bench.reports.count == 1)
        bench.handle(.tick(mayActivate: true))
        #expect(bench.reports.isEmpty && bench.state.next?.name == FakeWorld.name(2))
        bench.world.refusesBase = false
        bench.handle(.tick(mayActivate: true))
        #expect(bench.world.base == FakeWorld.name(2) && bench.world.reloads == 1)
    }

    @Test func `what is urgent is shown as soon as it is ready, whatever the time`() throws {
        for isUrgent in [true, false] {
            var bench = StateBench()
            bench.runGood(1)
            bench.install(2)
            bench.world.urgent = isUrgent ? [2] : []
            bench.handle(.tick(mayActivate: false))
            #expect(bench.reports == [.updateAvailable(FakeWorld.name(2))])
            #expect(bench.world.reloads == (isUrgent ? 1 : 0))
            let loaded = bench.load(takesNext: true, mayChange: false)
            #expect(try #require(loaded).name == FakeWorld.name(isUrgent ? 2 : 1))
        }
    }

    @Test func `what is urgent waits for a client on trial`() throws {
        var bench = StateBench()
        bench.runGood(1)
        bench.install(2)
        let loaded = bench.load(takesNext: true)
        let launch = try #require(loaded)
        bench.install(3)
        bench.world.urgent = [3]
        bench.handle(.tick(mayActivate: false))
        #expect(bench.world.reloads == 0 && bench.state.next?.name == FakeWorld.name(3))
        bench.handle(.confirm(launch.token))
        bench.handle(.tick(mayActivate: false))
        #expect(bench.world.reloads == 1 && bench.state.prepared?.name == FakeWorld.name(3))
    }

    @Test func `a load takes what is urgent, and leaves the rest, outside of its time`() throws {
        var bench = StateBench()
        bench.runGood(1)
        bench.install(2, 3)
        bench.world.urgent = [2]
        bench.handle(.tick(mayActivate: false))
        let stays = bench.load(takesNext: true, mayChange: false)
        #expect(try #require(stays).name == FakeWorld.name(1), "2 is urgent, and 3 is next")
    }

    private func busy(_ isBusy: Bool, _ number: Int, _ token: LaunchToken) -> ShellState<FakeLaunch>.Event {
        .busy(token, isBusy, PageReport(load: "a", number: number), mayActivate: true)
    }

    /// 1 runs, and its page is busy.
    private func busyBench() throws -> (StateBench, LaunchToken) {
        var bench = StateBench()
        bench.runGood(1)
        let token = try #require(bench.state.launched).token
        bench.handle(busy(true, 1, token))
        return (bench, token)
    }

    @Test(arguments: [true, false])
    func `nothing is shown by itself while a page is busy, urgent or not`(isUrgent: Bool) throws {
        var (bench, token) = try busyBench()
        bench.install(2)
        bench.world.urgent = isUrgent ? [2] : []
        bench.handle(.tick(mayActivate: true))
        #expect(bench.reports == [.updateAvailable(FakeWorld.name(2))])
        #expect(bench.world.reloads == 0)
        // Another window comes along with nothing.
        let other = bench.load(takesNext: true)
        #expect(other?.name == FakeWorld.name(1))
        bench.handle(busy(false, 2, LaunchToken(text: "another's")))
        #expect(bench.world.reloads == 0)
        bench.handle(busy(false, 2, token))
        #expect(bench.world.reloads == 1 && bench.state.prepared?.name == FakeWorld.name(2))
    }

    @Test func `when a session has ended no page is busy any more, and the launch goes on`() throws {
        var (bench, token) = try busyBench()
        bench.install(2)
        for event in [ShellState<FakeLaunch>.Event.admit(.everybody), .sessionEnded] {
            let before = bench.world.reloads
            bench.handle(event)
            #expect(bench.state.launched?.token == token && before == 0)
            bench.handle(.tick(mayActivate: true))
        }
        #expect(bench.world.reloads == 1)
    }

    @Test func `a page is busy for so long at most, as its channel says`() throws {
        for limit in [Duration.seconds(600), .seconds(5), .zero] {
            var (bench, _) = try busyBench()
            bench.world.busyLimit = limit
            bench.install(2)
            if limit > .zero {
                bench.now = limit - .milliseconds(1)
                bench.handle(.tick(mayActivate: true))
                #expect(bench.world.reloads == 0)
            }
            bench.now = limit
            bench.handle(.tick(mayActivate: true))
            #expect(bench.world.reloads == 1)
        }
    }

    @Test func `a recalled client is left when its page is done, or its time is over`() throws {
        var (bench, token) = try busyBench()
        bench.world.change { $0.blocked = [1] }
        for _ in 0..<3 {
            bench.handle(.tick(mayActivate: false))
            #expect(bench.reports.isEmpty && bench.state.launched?.name == FakeWorld.name(1))
        }
        bench.handle(busy(false, 2, token))
        #expect(bench.state.launched == nil && bench.state.prepared?.name == .embedded)

        (bench, _) = try busyBench()
        bench.world.change { $0.blocked = [1] }
        bench.handle(.tick(mayActivate: false))
        bench.now = .seconds(60)
        bench.handle(.tick(mayActivate: false))
        #expect(bench.state.launched == nil && bench.state.prepared?.name == .embedded)
    }

    @Test func `a page that calls itself otherwise with each word keeps a recalled client no longer`() throws {
        var (bench, token) = try busyBench()
        bench.world.busyLimit = .seconds(5)
        bench.world.change { $0.blocked = [1] }
        for number in 0..<10 {
            bench.now = .seconds(2 * number)
            bench.handle(.busy(token, true, PageReport(load: "p\(number)", number: 0), mayActivate: true))
            bench.handle(.tick(mayActivate: false))
            if bench.state.launched == nil { break }
        }
        #expect(bench.now == .seconds(6) && bench.state.prepared?.name == .embedded)
    }

    @Test func `a page that asks for another client is not busy for that, and one that left is not`() throws {
        var (bench, token) = try busyBench()
        bench.install(2)
        bench.handle(.tick(mayActivate: true))
        bench.handle(.reload)
        #expect(bench.refusal == nil && bench.world.reloads == 1)

        (bench, token) = try busyBench()
        bench.install(2)
        bench.handle(.leave(token, "", PageReport(load: "a", number: 2)))
        bench.handle(.tick(mayActivate: true))
        #expect(bench.world.reloads == 1)
    }

    @Test func `a page that has failed is not busy`() throws {
        var bench = StateBench()
        bench.runGood(1)
        bench.install(2)
        let loaded = bench.load(takesNext: true)
        let launch = try #require(loaded)
        bench.handle(busy(true, 1, launch.token))
        bench.handle(.fail(launch.token, "white"))
        #expect(bench.state.prepared?.name == FakeWorld.name(1) && bench.world.reloads == 1)
    }

    @Test func `a token of another launch gives no verdict`() throws {
        var bench = StateBench()
        bench.install(1)
        bench.handle(.start)
        _ = bench.load()
        for event in [ShellState<FakeLaunch>.Event.confirm(LaunchToken(text: "x")), .fail(LaunchToken(text: "x"), "")] {
            bench.handle(event)
            #expect(bench.verdicts.isEmpty)
        }
    }

    @Test func `outside of its time a load changes nothing, unless nothing runs`() throws {
        var bench = StateBench()
        bench.runGood(1)
        bench.install(2)
        let same = bench.load(takesNext: true, mayChange: false)
        #expect(same?.name == FakeWorld.name(1))
        #expect(bench.inspections == 0)
        bench.world.change { $0.blocked = [1] }
        bench.handle(.tick(mayActivate: false))
        let other = bench.load(takesNext: true, mayChange: false)
        #expect(other?.name == FakeWorld.name(2))
    }
}

@Suite struct `The pulse of a process` {
    @Test func `misses beats where the process stood still, and not where it is busy`() {
        var pulse = Pulse(every: .seconds(1), from: .zero)
        #expect(pulse.beat(at: .seconds(1)) == nil)
        #expect(pulse.beat(at: .seconds(4)) == nil)
        #expect(pulse.beat(at: .seconds(35)) == .seconds(30))
        #expect(pulse.beat(at: .seconds(36)) == nil)
    }
}
