import BundleValues
import BundleTesting
import Glibc
import Testing

@testable import BundleFormats
@testable import BundleCore
@testable import BundleShell

/// Random walks through all events of a shell. After every event an independent model checks all guarantees.
///
/// `SHELL_WALK_EVENTS` is the total number of events; 100,000 by default.
@Suite struct ShellWalkTests {
    private static let seeds: [UInt64] = [1, 2, 3, 4]
    private static let events =
        getenv("SHELL_WALK_EVENTS").flatMap { Int(String(cString: $0)) } ?? 100_000

    @Test(arguments: seeds) func `keeps every guarantee through random events`(seed: UInt64) {
        var walk = ShellWalk(seed: seed)
        for _ in 0..<Self.events / Self.seeds.count where walk.faults.count < 3 { walk.step() }
        print("shell walk \(seed): \(walk.summary)")
        #expect(walk.faults == [])
        // A walk that does not reach all states shows nothing.
        let promised = ["launched", "on trial", "confirmed", "rolled back", "recalled", "timed out", "pending", "busy"]
        for what in promised + (walk.hasSeed ? ["for guests"] : []) {
            #expect(walk.done[what, default: 0] > 5, "\(what): \(walk.summary)")
        }
    }
}

/// The launch on the screen, derived from the guarantees alone.
private struct ScreenModel {
    var audience = ClientShell.Audience.everybody
    var token: LaunchToken?
    var name = ClientName.embedded
    /// The remaining time of the trial; nil if there is none.
    var left: Duration?
    var isVisible = false
    var silenceEnds: Duration?
    /// The moment by which a page has to follow the last visible one, which left.
    var departureEnds: Duration?
    /// The pages that reported, the youngest last. Nil is the state of a page that is gone.
    var pages: [(load: String, number: Int, isShown: Bool?, since: Duration)] = []
    /// The verdicts that the disk refused, and how often each was reported.
    var refused: [String: Int] = [:]
    var pending: (token: LaunchToken, isGood: Bool)?
    /// The moment since which each page is busy; nil if it is idle.
    var busy: [String: (number: Int, since: Duration?)] = [:]
    /// The moment since which at least one page is busy.
    var busySince: Duration?

    mutating func report(busy isBusy: Bool, _ report: PageReport, _ now: Duration) {
        let last = busy[report.load]
        if let last, last.number >= report.number { return }
        busy[report.load] = (report.number, isBusy ? last?.since ?? now : nil)
        if isBusy { busySince = busySince ?? now }
    }

    /// Applies a reading of the store, which ends the busy period unless a page is busy.
    mutating func inspect(_ now: Duration, _ limit: Duration) { if !hasBusyPage(now, limit) { busySince = nil } }

    private func hasBusyPage(_ now: Duration, _ limit: Duration) -> Bool {
        busy.values.contains { $0.since.map { now - $0 < limit } ?? false }
    }

    func isBusy(_ now: Duration, _ limit: Duration) -> Bool {
        hasBusyPage(now, limit) && busySince.map { now - $0 < limit } ?? false
    }

    /// Returns whether a busy page still delays a recall, by a minute at most.
    func keepsRecalled(_ now: Duration, _ limit: Duration) -> Bool { isBusy(now, min(limit, .seconds(60))) }

    /// Returns when the trial needs its timer.
    func wake(_ now: Duration) -> Duration? {
        guard let left else { return nil }
        let moments = [isVisible ? now + left : nil, silenceEnds, departureEnds].compactMap { $0 }
        return moments.min()
    }

    mutating func pass(_ time: Duration) { if isVisible, let left { self.left = left - time } }

    mutating func report(_ isShown: Bool, _ report: PageReport, _ now: Duration) {
        guard left != nil, let index = accept(report, now) else { return }
        if isShown || pages[index].number < 0 { (silenceEnds, departureEnds) = (nil, nil) }
        pages[index].number = report.number
        if isShown || pages[index].isShown != nil { pages[index].isShown = isShown }
        isVisible = pages.contains { $0.isShown == true }
    }

    mutating func leave(_ report: PageReport, _ now: Duration, _ timeout: Duration) {
        guard left != nil, let index = accept(report, now) else { return }
        pages[index].number = report.number
        end(index, now, timeout)
    }

    mutating func vanish(_ load: String, _ now: Duration, _ timeout: Duration) {
        guard left != nil, let index = pages.firstIndex(where: { $0.load == load }) else { return }
        if pages[index].isShown == true { end(index, now, timeout) } else { pages[index].isShown = nil }
    }

    private mutating func end(_ index: Int, _ now: Duration, _ timeout: Duration) {
        pages[index].isShown = nil
        isVisible = pages.contains { $0.isShown == true }
        let isFollowed = pages[(index + 1)...].contains { $0.isShown != nil && now < $0.since + timeout }
        if !isVisible && !isFollowed { departureEnds = now + timeout }
    }

    /// Returns the page of a report that is its newest. A page without a report has the number -1.
    private mutating func accept(_ report: PageReport, _ now: Duration) -> Int? {
        if !pages.contains(where: { $0.load == report.load }) { pages.append((report.load, -1, false, now)) }
        return pages.firstIndex { $0.load == report.load && $0.number < report.number }
    }
}

private struct ShellWalk {
    private static let timeout = StateFixture.timeout.duration

    private let seed: UInt64
    private let isReported: Bool
    private var generator: SeededGenerator
    private var fixture: StateFixture
    private var model = ScreenModel()
    /// Whether a page has reported.
    private var hasPageReported = false
    private var tokens: [LaunchToken] = []
    private var number = 0
    private var trail: [String] = []
    var done: [String: Int] = [:]
    var faults: [String] = []

    var hasSeed: Bool { fixture.world.hasSeed }

    var summary: String { done.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ") }

    init(seed: UInt64) {
        self.seed = seed
        isReported = seed % 2 == 0
        generator = SeededGenerator(seed: seed)
        fixture = StateFixture(isReported ? .reported : .assumed)
        // Every third shell has no seed.
        fixture.world.hasSeed = seed % 3 != 0
        fixture.world.busyLimit = [.seconds(600), .seconds(20), .seconds(90), .seconds(5)][Int(seed % 4)]
    }

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    private mutating func expect(_ isRight: Bool, _ what: String) {
        if !isRight {
            faults.append("seed \(seed), event \(number): \(what); \(trail.suffix(8).joined(separator: "; "))")
        }
    }

    // MARK: Steps

    mutating func step() {
        number += 1
        if chance(40) { changeWorld() }
        pass(.milliseconds(Int.random(in: 0...3_000, using: &generator)))
        let token = someToken()
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<30: load()
        case 30..<44: handle("tick", .tick(mayActivate: chance(50)))
        case 44..<45:
            let request = ActivationRequest(
                FakeWorld.name(Int.random(in: 1...6, using: &generator)), waitsForBusyPages: true)
            handle("request", .tick(mayActivate: false, request: request))
        case 45..<52: handle("inspect", .inspect(retrying: chance(50)))
        case 52..<58: handle("reload", .reload)
        case 58..<70:
            if token == model.token { hasPageReported = true }
            handle("confirm", .page(.confirm, token))
        case 70..<74: handle("fail", .page(.fail("white"), token))
        case 74..<77: busy(token)
        case 77..<78: handle("complain", .page(.error("x", isGrave: true), token))
        case 78..<88: show(token)
        case 88..<92: leave(token)
        case 92..<98: admit()
        default: handle("start", .start)
        }
    }

    private mutating func changeWorld() {
        let number = Int.random(in: 1...6, using: &generator)
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<6: fixture.world.change { $0.installed.insert(number) }
        case 6..<8:
            if fixture.state.launched?.name != FakeWorld.name(number) {
                fixture.world.change { world in
                    world.installed.remove(number)
                    world.good.remove(number)
                    world.failures[number] = nil
                }
            }
        case 8..<10:
            let running = fixture.state.launched.map { FakeWorld.number($0.name) } ?? number
            let unwanted = chance(50) && running != 0 ? running : number
            fixture.world.change { $0.blocked.insert(unwanted) }
        case 10..<14:
            let freed = chance(30) ? fixture.world.blocked : [number]
            fixture.world.change { world in
                world.blocked.subtract(freed)
                for number in freed { world.failures[number] = nil }
            }
        case 14: fixture.world.broken = chance(50) ? [number] : []
        case 15: fixture.world.isDiskFull = chance(60)
        case 16: fixture.world.isDiskFull = false
        case 17: fixture.world.isUnreadable = chance(25)
        case 18: fixture.world.refusesBase = chance(25)
        default:
            let urgent = chance(50) ? [number] : []
            fixture.world.change { $0.urgent = Set(urgent) }
        }
    }

    /// Advances the clock and fires the timer when it is due.
    private mutating func pass(_ time: Duration) {
        let end = fixture.now + time
        while let wake = fixture.wake, wake <= end {
            model.pass(max(.zero, wake - fixture.now))
            fixture.now = max(wake, fixture.now)
            if let silence = model.silenceEnds, silence <= fixture.now {
                (model.silenceEnds, model.isVisible) = (nil, hasPageReported)
            }
            let isOver =
                model.left.map { $0 <= .zero } ?? false || model.departureEnds.map { $0 <= fixture.now } ?? false
            handle("timer", .timerFired)
            let hasFallen = fixture.verdicts.contains { if case .faulty = $0.verdict { true } else { false } }
            expect(isOver == hasFallen, "over \(isOver), fallen \(hasFallen)")
            if hasFallen { done["timed out", default: 0] += 1 }
            if !faults.isEmpty { return }
        }
        model.pass(end - fixture.now)
        fixture.now = end
    }

    /// Returns a token, mostly that of the running launch.
    private mutating func someToken() -> LaunchToken {
        if chance(75), let token = fixture.state.launched?.token { return token }
        return tokens.randomElement(using: &generator) ?? LaunchToken(text: "foreign")
    }

    private mutating func load() {
        let takesNext = chance(70)
        handle("load", .load(.init(takesNext: takesNext, mayChange: chance(60))))
        guard fixture.refusal == nil else { return }
        guard let launched = fixture.state.launched else { return expect(false, "a load without a launch") }
        expect(launched.name == fixture.state.prepared?.name, "another client than was prepared")
        if launched.isTrial {
            expect(launched.isRecorded, "a trial without a record")
            expect(fixture.world.launch?.token == launched.token, "a trial that the ledger does not record")
        }
        if takesNext, model.left != nil {
            model.departureEnds = nil
            if isReported, !model.isVisible, model.silenceEnds == nil {
                model.silenceEnds = fixture.now + Self.timeout * 3
            }
        }
        // The timer of a client that is not on trial reports an unconfirmed start.
        expect(
            model.left == nil || fixture.wake == model.wake(fixture.now),
            "timer at \(fixture.wake as Any), not \(model.wake(fixture.now) as Any)")
    }

    private mutating func show(_ token: LaunchToken) {
        let load = ["a", "b", "c", "d"].randomElement(using: &generator) ?? "a"
        let report = PageReport(load: load, number: Int.random(in: 0...40, using: &generator))
        let isShown = chance(60)
        if token == model.token {
            model.report(isShown, report, fixture.now)
            hasPageReported = true
        }
        handle("show", .page(.show(isShown, report), token))
    }

    private mutating func leave(_ token: LaunchToken) {
        let load = ["a", "b", "c", "d"].randomElement(using: &generator) ?? "a"
        let report = PageReport(load: load, number: Int.random(in: 0...40, using: &generator))
        if chance(50) {
            if token == model.token { model.vanish(load, fixture.now, Self.timeout) }
            return handle("vanish", .page(.vanish(load), token))
        }
        if token == model.token {
            model.leave(report, fixture.now, Self.timeout)
            hasPageReported = true
        }
        handle("leave", .page(.leave("", report), token))
    }

    private mutating func busy(_ token: LaunchToken) {
        let load = "\(Int.random(in: 0..<12, using: &generator))"
        let report = PageReport(load: load, number: Int.random(in: 0...1_000, using: &generator))
        let isBusy = chance(60)
        if token == model.token { model.report(busy: isBusy, report, fixture.now) }
        handle("busy", .page(.busy(isBusy, report, mayActivate: chance(50)), token))
    }

    private mutating func admit() {
        if chance(30) {
            (model.busy, model.busySince) = ([:], nil)
            handle("sessionEnded", .sessionEnded)
        }
        model.audience = [.everybody, .everybody, .guests, .nobody].randomElement(using: &generator) ?? .everybody
        handle("admit \(model.audience)", .admit(model.audience))
    }

    // MARK: Guarantees

    private mutating func handle(_ what: String, _ event: ShellState<FakeWorld>.Event) {
        trail.append(what)
        let before = (launched: fixture.state.launched, next: fixture.state.next, prepared: fixture.state.prepared)
        let reloads = fixture.world.reloads
        fixture.handle(event)
        if fixture.readings > 0, !fixture.world.isUnreadable { model.inspect(fixture.now, fixture.world.busyLimit) }
        checkBusy(event, before.launched, reloads)
        done[what.split(separator: " ").first.map(String.init) ?? what, default: 0] += 1
        for report in fixture.reports { follow(report, before.launched) }
        // The launch ended for an audience that may not see it.
        if fixture.state.launched == nil {
            (model.token, model.left, model.silenceEnds, model.departureEnds) = (nil, nil, nil, nil)
        }
        checkVerdicts(event, before.launched)
        checkAudience()
        checkClients(before.next)
        if case .load = event {
        } else {
            expect(
                model.left == nil || fixture.wake == model.wake(fixture.now),
                "timer at \(fixture.wake as Any), not \(model.wake(fixture.now) as Any)")
        }
    }

    private mutating func follow(_ report: ShellEvent, _ before: FakeLaunch?) {
        switch report {
        case .launched(let name, let isTrial):
            done["launched", default: 0] += 1
            guard let launched = fixture.state.launched else { return }
            expect(launched.name == name && launched.isTrial == isTrial, "another launch was reported")
            expect(!fixture.world.isBlocked(name), "\(name) is blocked, and was launched")
            tokens.append(launched.token)
            if tokens.count > 8 { tokens.removeFirst() }
            let (audience, refused, pending) = (model.audience, model.refused, model.pending)
            model = ScreenModel(audience: audience, token: launched.token, name: name)
            (model.refused, model.pending) = (refused, pending)
            if isTrial {
                done["on trial", default: 0] += 1
                (model.left, model.isVisible) = (Self.timeout, !isReported)
            }
            if audience == .guests { done["for guests", default: 0] += 1 }
        case .confirmed:
            done["confirmed", default: 0] += 1
            (model.left, model.silenceEnds, model.departureEnds) = (nil, nil, nil)
        case .rolledBack(let name, let other, let failure):
            let world = fixture.world
            done[failure.code == .versionBlocked ? "recalled" : "rolled back", default: 0] += 1
            expect(name == before?.name, "left \(name), which was not shown")
            expect(!world.isBlocked(other), "\(name) was replaced by \(other), which is blocked")
            // A full disk may hide failures from the ledger.
            let others = world.installed.filter {
                FakeWorld.name($0) != name && world.canRun($0) && !world.broken.contains($0)
            }
            let isAlone = others.allSatisfy(world.isOnTrial) && !(world.hasSeed && name != .embedded)
            expect(
                other != name || isAlone || world.isDiskFull || model.pending != nil, "\(name) was replaced by itself")
        case .updateAvailable(let name):
            expect(name != before?.name, "\(name) is shown, and was reported as an update")
            expect(model.audience == .everybody, "an update was reported to guests: \(name)")
        case .failed(FakeWorld.diskIsFull):
            guard let token = before?.token else { return expect(false, "a pending verdict without a launch") }
            done["pending", default: 0] += 1
            model.refused[token.text, default: 0] += 1
            expect(model.refused[token.text] == 1, "a pending verdict was reported twice")
        case .blank(let name, _):
            done["blank", default: 0] += 1
            expect(name == before?.name && model.left == nil, "a blank screen of a client on trial")
        case .downloading, .installed, .failed, .checked, .complained, .unconfirmed: break
        }
    }

    private mutating func checkVerdicts(_ event: ShellState<FakeWorld>.Event, _ before: FakeLaunch?) {
        for (verdict, token) in fixture.verdicts {
            expect(token == before?.token, "a verdict on another launch")
            switch (verdict, event) {
            case (.good, .page(.confirm, let said)), (.faulty, .page(.fail, let said)):
                expect(said == token, "a foreign token")
            case (.faulty, .timerFired): break
            case (.abandoned, .admit): break
            case (.abandoned, .timerFired): expect(!hasPageReported, "silent, though pages report")
            default: expect(false, "\(verdict) without an event")
            }
            if verdict != .abandoned { (model.left, model.silenceEnds, model.departureEnds) = (nil, nil, nil) }
            if fixture.reports.contains(.failed(FakeWorld.diskIsFull)) { model.pending = (token, verdict == .good) }
        }
        // A pending verdict is written as soon as the disk accepts it.
        guard let pending = model.pending, !fixture.world.isDiskFull, fixture.readings > 0 else { return }
        if let launch = fixture.world.launch, launch.token == pending.token {
            expect(launch.verdict == (pending.isGood ? .good : .faulty), "a pending verdict was not written")
        }
        model.pending = nil
    }

    /// Checks that no client changes by itself while a page is busy.
    private mutating func checkBusy(_ event: ShellState<FakeWorld>.Event, _ before: FakeLaunch?, _ reloads: Int) {
        guard let before, before.token == model.token, model.isBusy(fixture.now, fixture.world.busyLimit) else {
            return
        }
        switch event {
        case .tick, .inspect, .load, .page(.busy, _):
            // A failed client that could not be replaced before is replaced, and so is a recalled client after a
            // while.
            let keepsRecalled = model.keepsRecalled(fixture.now, fixture.world.busyLimit)
            let isLeft = fixture.reports.contains {
                guard case .rolledBack(_, _, let failure) = $0 else { return false }
                return failure.code == .healthFailed || !keepsRecalled
            }
            done["busy", default: 0] += 1
            expect(isLeft || fixture.world.reloads == reloads, "changed while a page was busy")
        default: break
        }
    }

    private mutating func checkAudience() {
        let (launched, prepared) = (fixture.state.launched?.name, fixture.state.prepared?.name)
        for (name, forGuests) in fixture.begun {
            expect(forGuests == (model.audience == .guests), "begun for another audience")
            expect(!forGuests || name == .embedded, "\(name) for guests")
        }
        switch model.audience {
        case .everybody: break
        case .guests:
            expect(
                launched ?? .embedded == .embedded && prepared ?? .embedded == .embedded,
                "guests get \(launched as Any)")
        case .nobody:
            expect(launched == nil && prepared == nil && fixture.begun.isEmpty, "a client is shown without an audience")
        }
    }

    private mutating func checkClients(_ before: FakeClient?) {
        let (state, world) = (fixture.state, fixture.world)
        if let next = state.next {
            expect(state.launched != nil && next.name != state.launched?.name, "\(next.name) is running and next")
        }
        // After a reading of the store without errors, a recalled client is not shown if there is another one.
        guard fixture.readings > 0, !fixture.hasFailed, !model.keepsRecalled(fixture.now, world.busyLimit),
            let launched = state.launched,
            launched.name == state.prepared?.name,
            world.isBlocked(launched.name), world.choice(model.audience) != nil
        else { return }
        expect(false, "\(launched.name) must not run, and is shown")
    }
}
