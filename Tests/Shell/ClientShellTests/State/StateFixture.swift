import BundleTesting

@testable import BundleFormats
@testable import BundleCore
import BundleValues
@testable import ClientShell

/// A client without files.
struct FakeClient: ReadyLaunch, Equatable {
    let name: ClientName
}

/// A boot attempt without a ledger.
struct FakeLaunch: BootAttempt {
    typealias Prepared = FakeClient

    let name: ClientName
    let token: LaunchToken
    let isTrial: Bool
    let isRecorded: Bool
    var wasReportedFailed = false
    var requiresEndpoints = false
}

/// A store, a disk and a web view as one value, on which the actions of a state are carried out.
struct FakeWorld {
    struct Trouble: Error, Equatable {
        let what: String
    }

    struct Start {
        let name: ClientName
        let token: LaunchToken
        var isTrial: Bool
        var verdict: Launch.Verdict?
    }

    static let diskIsFull = UpdateFailure(.diskFull, subject: "verdict", "The disk is full.")

    var hasSeed = true
    /// The numbers of the installed clients.
    var installed: Set<Int> = []
    var blocked: Set<Int> = []
    var good: Set<Int> = []
    var failures: [Int: Int] = [:]
    /// Clients that a page reported as failed.
    var reportedFailed: Set<Int> = []
    /// Clients that ignore activation windows.
    var urgent: Set<Int> = []
    var busyLimit = Duration.seconds(600)
    /// Clients that cannot be prepared.
    var broken: Set<Int> = []
    var lastKnownGood = ClientName.embedded
    var launch: Start?
    /// The client that failed last, if nothing has been launched since.
    var heldBack: ClientName?
    var missingShell: SemanticVersion?
    /// Whether writes fail. A launcher refuses trials until it could record a launch; this one accepts them at once.
    var isDiskFull = false { didSet { if !isDiskFull { refusesTrials = false } } }
    var isUnreadable = false
    var refusesBase = false
    private var refusesTrials = false
    /// The number of changes of the ledger.
    private(set) var changes = 0
    private var lastToken = 0
    private(set) var base: ClientName?
    private(set) var reloads = 0

    private static let names = [.embedded] + (1...6).compactMap { ClientName("v1.\($0).0") }

    static func name(_ number: Int) -> ClientName { names[number] }

    static func number(_ name: ClientName) -> Int { names.firstIndex(of: name) ?? 0 }

    mutating func change(_ body: (inout FakeWorld) -> Void) {
        body(&self)
        changes += 1
    }

    func isBlocked(_ name: ClientName) -> Bool { blocked.contains(Self.number(name)) }

    func canRun(_ number: Int) -> Bool {
        number == 0 ? hasSeed : installed.contains(number) && !blocked.contains(number)
    }

    func isOnTrial(_ number: Int) -> Bool { number != 0 && !good.contains(number) }

    // MARK: Selection

    func choice(_ audience: ClientShell.Audience, without excluded: Set<Int> = []) -> SelectionRule.Choice? {
        let can = { (number: Int) in canRun(number) && !excluded.contains(number) }
        switch audience {
        case .nobody: return nil
        case .guests: return can(0) ? .init(name: .embedded, reason: .onlyOne) : nil
        case .everybody: break
        }
        let newestFirst = installed.filter(can).sorted(by: >)
        if let heldBack {
            let others = [Self.number(lastKnownGood), 0] + newestFirst
            if let other = others.first(where: { Self.name($0) != heldBack && can($0) }) {
                return .init(name: Self.name(other), reason: .fallback(failed: heldBack))
            }
            return can(Self.number(heldBack)) ? .init(name: heldBack, reason: .onlyOne) : nil
        }
        guard let best = newestFirst.first else { return can(0) ? .init(name: .embedded, reason: .onlyOne) : nil }
        if failures[best, default: 0] > 0, !good.contains(best) {
            let failure = StartFailure(.reported, detail: "", at: Timestamp(clamping: 0))
            return .init(name: Self.name(best), reason: .retry(failure))
        }
        return .init(name: Self.name(best), reason: .newest)
    }

    private func chosen(forGuests: Bool, without silent: Set<Int>) throws -> FakeClient {
        let onTrial = refusesTrials ? installed.filter(isOnTrial) : []
        let unfit = broken.union(onTrial).union(silent)
        guard let choice = choice(forGuests ? .guests : .everybody, without: unfit) else {
            throw Trouble(what: "nothing to launch")
        }
        return FakeClient(name: choice.name)
    }

    // MARK: Actions

    mutating func reload() { reloads += 1 }

    mutating func inspect(_ request: ShellState<FakeLaunch>.ReadingRequest) -> ShellState<FakeLaunch>.Inspection {
        var isSettled = false
        if let pending = request.pending {
            if case .refused = write(pending.verdict, pending.launch) {} else { isSettled = true }
        }
        let recorded = request.unrecorded.map { launch in
            guard !isDiskFull, let recorded = record(launch.name, launch.token) else { return launch }
            return FakeLaunch(name: recorded.name, token: recorded.token, isTrial: launch.isTrial, isRecorded: true)
        }
        if isUnreadable {
            return .init(isSettled: isSettled, recorded: recorded, store: .failure(Trouble(what: "unreadable")))
        }
        var ledger = Ledger()
        ledger.appId = "\(changes)"
        let silent = Set(request.silent.map(Self.number))
        let choice = choice(request.audience, without: silent) ?? choice(request.audience)
        let store = ShellState<FakeLaunch>.Store(
            ledger: ledger, choice: choice,
            isUrgent: choice.map { urgent.contains(Self.number($0.name)) } ?? false, busyLimit: busyLimit,
            missingShell: missingShell,
            recall: request.running.flatMap { isBlocked($0) ? "it is blocked" : nil })
        return .init(isSettled: isSettled, recorded: recorded, store: .success(store))
    }

    mutating func prepare(
        _ goal: ShellState<FakeLaunch>.Goal, forGuests: Bool, without silent: Set<ClientName>
    ) -> ShellState<FakeLaunch>.Event {
        do {
            if case .change(let client, _) = goal {
                try setBase(client)
                return .ready(.init(client: client, missingShell: nil), goal)
            }
            let client = try chosen(for: goal, forGuests: forGuests, without: Set(silent.map(Self.number)))
            if case .next = goal {} else { try setBase(client) }
            return .ready(.init(client: client, missingShell: missingShell), goal)
        } catch {
            return .notReady(error, goal)
        }
    }

    private func chosen(
        for goal: ShellState<FakeLaunch>.Goal, forGuests: Bool, without silent: Set<Int>
    ) throws -> FakeClient {
        do {
            return try chosen(forGuests: forGuests, without: silent)
        } catch {
            if case .leave(.silent, _) = goal { throw error }
            return try chosen(forGuests: forGuests, without: [])
        }
    }

    private mutating func setBase(_ client: FakeClient) throws {
        if refusesBase { throw Trouble(what: "base path") }
        base = client.name
    }

    mutating func begin(_ client: FakeClient, forGuests: Bool) -> FakeLaunch? {
        lastToken += 1
        let token = LaunchToken(text: "\(lastToken)")
        if forGuests { return FakeLaunch(name: client.name, token: token, isTrial: false, isRecorded: false) }
        if isDiskFull {
            refusesTrials = true
            let number = Self.number(client.name)
            if !canRun(number) || isOnTrial(number) { return nil }
            return FakeLaunch(name: client.name, token: token, isTrial: false, isRecorded: false)
        }
        return record(client.name, token).map {
            FakeLaunch(
                name: $0.name, token: token, isTrial: $0.isTrial, isRecorded: true,
                wasReportedFailed: reportedFailed.contains(Self.number($0.name)))
        }
    }

    private mutating func record(_ name: ClientName, _ token: LaunchToken) -> Start? {
        let number = Self.number(name)
        guard canRun(number) else { return nil }
        let start = Start(name: name, token: token, isTrial: isOnTrial(number), verdict: nil)
        change { world in
            world.launch = start
            world.heldBack = nil
            world.refusesTrials = false
        }
        return start
    }

    mutating func write(
        _ verdict: ShellState<FakeLaunch>.Verdict, _ launched: FakeLaunch
    ) -> ShellState<FakeLaunch>.Writing {
        guard let launch, launch.token == launched.token else { return .failed(Trouble(what: "another launch")) }
        switch (verdict, launch.verdict) {
        case (.good, .good?): return .done(wasKnown: true)
        case (.good, .faulty?), (.faulty, .good?): return .failed(Trouble(what: "too late"))
        case (.faulty, .faulty?), (.abandoned, .some): return .done(wasKnown: false)
        case (_, nil): break
        }
        if isDiskFull {
            refusesTrials = true
            return .refused(
                verdict == .abandoned ? UpdateFailure(.diskFull, subject: "abandon", "Full.") : Self.diskIsFull)
        }
        settle(verdict, launch)
        return .done(wasKnown: false)
    }

    private mutating func settle(_ verdict: ShellState<FakeLaunch>.Verdict, _ launch: Start) {
        let number = Self.number(launch.name)
        switch verdict {
        case .good:
            change { world in
                world.launch?.verdict = .good
                world.lastKnownGood = launch.name
                world.failures[number] = nil
                if number != 0 { world.good.insert(number) }
            }
        case .faulty:
            change { world in
                world.launch?.verdict = .faulty
                world.heldBack = launch.name
                world.good.remove(number)
                if world.lastKnownGood == launch.name { world.lastKnownGood = .embedded }
                guard number != 0 else { return }
                world.failures[number, default: 0] += 1
                if world.failures[number, default: 0] > 1 { world.blocked.insert(number) }
            }
        case .abandoned: change { $0.launch?.isTrial = false }
        }
    }
}

/// A state whose actions are carried out on a world, as `ClientShell` does.
struct StateFixture {
    static let timeout = StartupTimeout.standard

    var state: ShellState<FakeLaunch>
    var world = FakeWorld()
    var now = Duration.zero
    /// The time of the requested timer.
    private(set) var wake: Duration?
    /// The results of the last event.
    private(set) var reports: [ShellEvent] = []
    private(set) var verdicts: [(verdict: ShellState<FakeLaunch>.Verdict, token: LaunchToken)] = []
    private(set) var reported: [LaunchToken] = []
    private(set) var begun: [(name: ClientName, forGuests: Bool)] = []
    private(set) var refusal: (any Error)?
    private(set) var inspections = 0
    /// Whether an action of the last event failed.
    private(set) var hasFailed = false

    /// The launches whose health is to be checked.
    private(set) var checked: [LaunchToken] = []

    init(
        _ visibility: ShellConfiguration.Visibility = .assumed, checksHealth: Bool = false,
        blankScreens: BlankScreens = .fail
    ) {
        state = ShellState(
            timeout: Self.timeout, visibility: visibility, checksHealth: checksHealth, blankScreens: blankScreens)
    }

    mutating func handle(_ event: ShellState<FakeLaunch>.Event) {
        (reports, verdicts, begun, refusal, inspections, hasFailed) = ([], [], [], nil, 0, false)
        carryOut(event)
    }

    private mutating func carryOut(_ event: ShellState<FakeLaunch>.Event) {
        if case .notReady = event { hasFailed = true }
        for action in state.handle(event, at: now, time: Timestamp(clamping: 0)) {
            switch action {
            case .refuse(let error): refusal = error
            case .retain: break
            case .report(let event): reports.append(event)
            case .reload: world.reload()
            case .setTimer(let moment): wake = moment
            case .inspect(let request, let sequel):
                inspections += 1
                let inspection = world.inspect(request)
                if case .failure = inspection.store { hasFailed = true }
                carryOut(.inspected(inspection, sequel))
            case .prepare(let goal, let forGuests, let silent):
                carryOut(world.prepare(goal, forGuests: forGuests, without: silent))
            case .checkHealth(let launch): checked.append(launch.token)
            case .recordReport(let launch): reported.append(launch.token)
            case .begin(let client, let forGuests, let load):
                begun.append((client.name, forGuests))
                carryOut(.began(world.begin(client, forGuests: forGuests), load))
            case .write(let verdict, let launch):
                verdicts.append((verdict, launch.token))
                carryOut(.written(verdict, launch, world.write(verdict, launch)))
            }
        }
    }

    mutating func load(takesNext: Bool = false, mayChange: Bool = true) -> FakeLaunch? {
        handle(.load(.init(takesNext: takesNext, mayChange: mayChange)))
        return refusal == nil ? state.launched : nil
    }

    mutating func install(_ numbers: Int...) { world.change { $0.installed.formUnion(numbers) } }

    /// Installs a client, launches it and confirms its start.
    mutating func runGood(_ number: Int) {
        install(number)
        handle(.start)
        if let launch = load() { handle(.page(.confirm, launch.token)) }
    }
}
