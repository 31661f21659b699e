import BundleValues
import BundleTesting
import Glibc
import Testing

@testable import BundleCore
@testable import ClientShell

/// Shells that live through everything at random; after every event all promises are checked against a model of their own.
///
/// `SHELL_WALK_EVENTS` is how many events there are in all; 100,000 by default.
@Suite struct ShellWalkTests {
    private static let seeds: [UInt64] = [1, 2, 3, 4]
    private static let events =
        getenv("SHELL_WALK_EVENTS").flatMap { Int(String(cString: $0)) } ?? 100_000

    @Test(arguments: seeds) func `whatever happens to a shell, it shows what was promised`(seed: UInt64) {
        var walk = ShellWalk(seed: seed)
        for _ in 0..<Self.events / Self.seeds.count where walk.faults.count < 3 { walk.step() }
        print("shell walk \(seed): \(walk.summary)")
        #expect(walk.faults == [])
        // A walk that never gets anywhere proves nothing.
        let promised = ["launched", "on trial", "confirmed", "rolled back", "recalled", "timed out", "owed", "busy"]
        for what in promised + (walk.hasSeed ? ["for guests"] : []) {
            #expect(walk.done[what, default: 0] > 5, "\(what): \(walk.summary)")
        }
    }
}

/// What is known of the launch on the screen, by the promises alone.
private struct ScreenModel {
    var audience = ClientShell.Audience.everybody
    var token: LaunchToken?
    var name = ClientName.embedded
    /// What is left of the trial; nil where there is none.
    var left: Duration?
    var isVisible = false
    var silenceEnds: Duration?
    var wasLoaded = false
    var hasReported = false
    var youngest = ""
    var lastReport: [String: Int] = [:]
    /// Verdicts that the disk refused, and how often that was told.
    var refused: [String: Int] = [:]
    var owed: (token: LaunchToken, isGood: Bool)?
    /// Since when each page is busy; nil where it is not any more.
    var busy: [String: (number: Int, since: Duration?)] = [:]
    /// Since when there was always one.
    var busySince: Duration?

    mutating func report(busy isBusy: Bool, _ report: PageReport, _ now: Duration) {
        let last = busy[report.load]
        if let last, last.number >= report.number { return }
        busy[report.load] = (report.number, isBusy ? last?.since ?? now : nil)
        if isBusy { busySince = busySince ?? now }
    }

    /// Whoever looks at the store does what waited, unless somebody is busy.
    mutating func inspect(_ now: Duration, _ limit: Duration) { if !hasBusyPage(now, limit) { busySince = nil } }

    private func hasBusyPage(_ now: Duration, _ limit: Duration) -> Bool {
        busy.values.contains { $0.since.map { now - $0 < limit } ?? false }
    }

    func isBusy(_ now: Duration, _ limit: Duration) -> Bool {
        hasBusyPage(now, limit) && busySince.map { now - $0 < limit } ?? false
    }

    /// A client that must not run waits for a minute at most.
    func keepsRecalled(_ now: Duration, _ limit: Duration) -> Bool { isBusy(now, min(limit, .seconds(60))) }

    /// When the trial wants to be woken.
    func wake(_ now: Duration) -> Duration? {
        guard let left else { return nil }
        let moments = [isVisible ? now + left : nil, silenceEnds].compactMap { $0 }
        return moments.min()
    }

    mutating func pass(_ time: Duration) { if isVisible, let left { self.left = left - time } }

    mutating func report(_ isShown: Bool, _ report: PageReport) {
        guard left != nil else { return }
        if let last = lastReport[report.load] {
            defer { lastReport[report.load] = max(last, report.number) }
            guard report.number > last, report.load == youngest else { return }
        } else {
            (lastReport[report.load], youngest) = (report.number, report.load)
        }
        (hasReported, silenceEnds, isVisible) = (true, nil, isShown)
    }
}

private struct ShellWalk {
    private static let timeout = StateBench.timeout.duration

    private let seed: UInt64
    private let isReported: Bool
    private var generator: SeededGenerator
    private var bench: StateBench
    private var model = ScreenModel()
    /// Whether a page has reported.
    private var isHeard = false
    private var tokens: [LaunchToken] = []
    private var number = 0
    private var trail: [String] = []
    var done: [String: Int] = [:]
    var faults: [String] = []

    var hasSeed: Bool { bench.world.hasSeed }

    var summary: String { done.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ") }

    init(seed: UInt64) {
        self.seed = seed
        isReported = seed % 2 == 0
        generator = SeededGenerator(seed: seed)
        bench = StateBench(isReported ? .reported : .assumed)
        // Every third shell brings no seed.
        bench.world.hasSeed = seed % 3 != 0
        bench.world.busyLimit = [.seconds(600), .seconds(20), .seconds(90), .seconds(5)][Int(seed % 4)]
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
        case 30..<45: handle("tick", .tick(mayActivate: chance(50)))
        case 45..<52: handle("inspect", .inspect(retrying: chance(50)))
        case 52..<58: handle("reload", .reload)
        case 58..<70:
            if token == model.token { isHeard = true }
            handle("confirm", .confirm(token))
        case 70..<74: handle("fail", .fail(token, "white"))
        case 74..<77: busy(token)
        case 77..<78: handle("complain", .complain(token, "x", isGrave: true))
        case 78..<92: show(token)
        case 92..<98: admit()
        default: handle("start", .start)
        }
    }

    private mutating func changeWorld() {
        let number = Int.random(in: 1...6, using: &generator)
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<6: bench.world.change { $0.installed.insert(number) }
        case 6..<8:
            if bench.state.launched?.name != FakeWorld.name(number) {
                bench.world.change { world in
                    world.installed.remove(number)
                    world.good.remove(number)
                    world.failures[number] = nil
                }
            }
        case 8..<10:
            let running = bench.state.launched.map { FakeWorld.number($0.name) } ?? number
            let unwanted = chance(50) && running != 0 ? running : number
            bench.world.change { $0.blocked.insert(unwanted) }
        case 10..<14:
            let freed = chance(30) ? bench.world.blocked : [number]
            bench.world.change { world in
                world.blocked.subtract(freed)
                for number in freed { world.failures[number] = nil }
            }
        case 14: bench.world.broken = chance(50) ? [number] : []
        case 15: bench.world.isDiskFull = chance(60)
        case 16: bench.world.isDiskFull = false
        case 17: bench.world.isUnreadable = chance(25)
        case 18: bench.world.refusesBase = chance(25)
        default:
            let urgent = chance(50) ? [number] : []
            bench.world.change { $0.urgent = Set(urgent) }
        }
    }

    /// Time goes by, and the state is woken when it wants to be.
    private mutating func pass(_ time: Duration) {
        let end = bench.now + time
        while let wake = bench.wake, wake <= end {
            model.pass(max(.zero, wake - bench.now))
            bench.now = max(wake, bench.now)
            if let silence = model.silenceEnds, silence <= bench.now {
                (model.silenceEnds, model.isVisible) = (nil, isHeard)
            }
            let isOver = model.left.map { $0 <= .zero } ?? false
            handle("woken", .woken)
            let hasFallen = bench.verdicts.contains { if case .faulty = $0.verdict { true } else { false } }
            expect(isOver == hasFallen, "over \(isOver), fallen \(hasFallen)")
            if hasFallen { done["timed out", default: 0] += 1 }
            if !faults.isEmpty { return }
        }
        model.pass(end - bench.now)
        bench.now = end
    }

    /// Mostly that of the launch which runs.
    private mutating func someToken() -> LaunchToken {
        if chance(75), let token = bench.state.launched?.token { return token }
        return tokens.randomElement(using: &generator) ?? LaunchToken(text: "nobody's")
    }

    private mutating func load() {
        let takesNext = chance(70)
        handle("load", .load(.init(takesNext: takesNext, mayChange: chance(60))))
        guard bench.refusal == nil else { return }
        guard let launched = bench.state.launched else { return expect(false, "a load without a launch") }
        expect(launched.name == bench.state.prepared?.name, "another client than was prepared")
        if launched.isTrial {
            expect(launched.isRecorded, "a trial without a record")
            expect(bench.world.launch?.token == launched.token, "a trial that the ledger does not know")
        }
        if takesNext, isReported, model.left != nil, !model.wasLoaded {
            model.wasLoaded = true
            if !model.hasReported { model.silenceEnds = bench.now + Self.timeout * 3 }
        }
        // A client that is not on trial is woken to report a start that it does not confirm.
        expect(
            model.left == nil || bench.wake == model.wake(bench.now),
            "woken at \(bench.wake as Any), not \(model.wake(bench.now) as Any)")
    }

    private mutating func show(_ token: LaunchToken) {
        let load = ["a", "b", "c", "d"].randomElement(using: &generator) ?? "a"
        let report = PageReport(load: load, number: Int.random(in: 0...40, using: &generator))
        let isShown = chance(60)
        if token == model.token {
            model.report(isShown, report)
            isHeard = true
        }
        handle("show", .show(token, isShown, report))
    }

    private mutating func busy(_ token: LaunchToken) {
        let load = "\(Int.random(in: 0..<12, using: &generator))"
        let report = PageReport(load: load, number: Int.random(in: 0...1_000, using: &generator))
        let isBusy = chance(60)
        if token == model.token { model.report(busy: isBusy, report, bench.now) }
        handle("busy", .busy(token, isBusy, report, mayActivate: chance(50)))
    }

    private mutating func admit() {
        if chance(30) {
            (model.busy, model.busySince) = ([:], nil)
            handle("sessionEnded", .sessionEnded)
        }
        model.audience = [.everybody, .everybody, .guests, .nobody].randomElement(using: &generator) ?? .everybody
        handle("admit \(model.audience)", .admit(model.audience))
    }

    // MARK: Promises

    private mutating func handle(_ what: String, _ event: ShellState<FakeLaunch>.Event) {
        trail.append(what)
        let before = (launched: bench.state.launched, next: bench.state.next, prepared: bench.state.prepared)
        let reloads = bench.world.reloads
        bench.handle(event)
        if bench.inspections > 0, !bench.world.isUnreadable { model.inspect(bench.now, bench.world.busyLimit) }
        checkBusy(event, before.launched, reloads)
        done[what.split(separator: " ").first.map(String.init) ?? what, default: 0] += 1
        for report in bench.reports { follow(report, before.launched) }
        // Taken away from those that may not see it, or not any more.
        if bench.state.launched == nil { (model.token, model.left, model.silenceEnds) = (nil, nil, nil) }
        checkVerdicts(event, before.launched)
        checkAudience()
        checkClients(before.next)
        if case .load = event {
        } else {
            expect(
                model.left == nil || bench.wake == model.wake(bench.now),
                "woken at \(bench.wake as Any), not \(model.wake(bench.now) as Any)")
        }
    }

    private mutating func follow(_ report: ShellEvent, _ before: FakeLaunch?) {
        switch report {
        case .launched(let name, let isTrial):
            done["launched", default: 0] += 1
            guard let launched = bench.state.launched else { return }
            expect(launched.name == name && launched.isTrial == isTrial, "another launch was told")
            expect(!bench.world.isBlocked(name), "\(name) is blocked, and was launched")
            tokens.append(launched.token)
            if tokens.count > 8 { tokens.removeFirst() }
            let (audience, refused, owed) = (model.audience, model.refused, model.owed)
            model = ScreenModel(audience: audience, token: launched.token, name: name)
            (model.refused, model.owed) = (refused, owed)
            if isTrial {
                done["on trial", default: 0] += 1
                (model.left, model.isVisible) = (Self.timeout, !isReported)
            }
            if audience == .guests { done["for guests", default: 0] += 1 }
        case .confirmed:
            done["confirmed", default: 0] += 1
            model.left = nil
            model.silenceEnds = nil
        case .rolledBack(let name, let other, let failure):
            let world = bench.world
            done[failure.code == .versionBlocked ? "recalled" : "rolled back", default: 0] += 1
            expect(name == before?.name, "left \(name), which was not shown")
            expect(!world.isBlocked(other), "\(name) was left for \(other), which is blocked")
            // The disk may hide from the ledger what failed.
            let others = world.installed.filter {
                FakeWorld.name($0) != name && world.canRun($0) && !world.broken.contains($0)
            }
            let isAlone = others.allSatisfy(world.isOnTrial) && !(world.hasSeed && name != .embedded)
            expect(other != name || isAlone || world.isDiskFull || model.owed != nil, "\(name) was left for itself")
        case .updateAvailable(let name):
            expect(name != before?.name, "\(name) is shown, and was told")
            expect(model.audience == .everybody, "guests were told of \(name)")
        case .failed(FakeWorld.diskIsFull):
            guard let token = before?.token else { return expect(false, "a debt of nobody") }
            done["owed", default: 0] += 1
            model.refused[token.text, default: 0] += 1
            expect(model.refused[token.text] == 1, "told twice what is owed")
        case .failed, .checked, .complained, .unconfirmed: break
        }
    }

    private mutating func checkVerdicts(_ event: ShellState<FakeLaunch>.Event, _ before: FakeLaunch?) {
        for (verdict, token) in bench.verdicts {
            expect(token == before?.token, "a verdict on another launch")
            switch (verdict, event) {
            case (.good, .confirm(let said)), (.faulty, .fail(let said, _)): expect(said == token, "a foreign token")
            case (.faulty, .woken): break
            case (.abandoned, .admit): break
            case (.abandoned, .woken): expect(!isHeard, "passed over, though pages report")
            default: expect(false, "\(verdict) by itself")
            }
            if verdict != .abandoned { (model.left, model.silenceEnds) = (nil, nil) }
            if bench.reports.contains(.failed(FakeWorld.diskIsFull)) { model.owed = (token, verdict == .good) }
        }
        // What is owed is written as soon as the disk takes it.
        guard let owed = model.owed, !bench.world.isDiskFull, bench.inspections > 0 else { return }
        if let launch = bench.world.launch, launch.token == owed.token {
            expect(launch.verdict == (owed.isGood ? .good : .faulty), "a debt was not paid")
        }
        model.owed = nil
    }

    /// Nothing is changed by itself while a page is busy.
    private mutating func checkBusy(_ event: ShellState<FakeLaunch>.Event, _ before: FakeLaunch?, _ reloads: Int) {
        guard let before, before.token == model.token, model.isBusy(bench.now, bench.world.busyLimit) else { return }
        switch event {
        case .tick, .inspect, .load, .busy:
            // What has failed, and could not be left before, is left; and so is what must not run, after a while.
            let keepsRecalled = model.keepsRecalled(bench.now, bench.world.busyLimit)
            let isLeft = bench.reports.contains {
                guard case .rolledBack(_, _, let failure) = $0 else { return false }
                return failure.code == .healthFailed || !keepsRecalled
            }
            done["busy", default: 0] += 1
            expect(isLeft || bench.world.reloads == reloads, "changed under a person's hands")
        default: break
        }
    }

    private mutating func checkAudience() {
        let (launched, prepared) = (bench.state.launched?.name, bench.state.prepared?.name)
        for (name, forGuests) in bench.begun {
            expect(forGuests == (model.audience == .guests), "begun for others")
            expect(!forGuests || name == .embedded, "\(name) for guests")
        }
        switch model.audience {
        case .everybody: break
        case .guests:
            expect(
                launched ?? .embedded == .embedded && prepared ?? .embedded == .embedded,
                "guests get \(launched as Any)")
        case .nobody: expect(launched == nil && prepared == nil && bench.begun.isEmpty, "nobody gets something")
        }
    }

    private mutating func checkClients(_ before: FakeClient?) {
        let (state, world) = (bench.state, bench.world)
        if let next = state.next {
            expect(state.launched != nil && next.name != state.launched?.name, "\(next.name) is next to itself")
        }
        // Whoever has looked at the store, and could do what follows, shows nothing that must not run if there is anything else.
        guard bench.inspections > 0, !bench.hasFailed, !model.keepsRecalled(bench.now, world.busyLimit),
            let launched = state.launched,
            launched.name == state.prepared?.name,
            world.isBlocked(launched.name), world.choice(model.audience) != nil
        else { return }
        expect(false, "\(launched.name) must not run, and is shown")
    }
}
