import BundleTesting

@testable import BundleFormats
@testable import BundleCore
import BundleValues
@testable import BundleShell

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

/// A store, a disk and a web view as one value.
struct FakeWorld: ShellDisk {
    typealias Launch = FakeLaunch

    struct Trouble: Error, Equatable {
        let what: String
    }

    struct Start {
        let name: ClientName
        let token: LaunchToken
        var isTrial: Bool
        var verdict: BundleCore.Launch.Verdict?
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
    var reloads = 0
    /// What the state did since `Calls` were reset.
    var calls = Calls()

    struct Calls {
        var verdicts: [(verdict: LaunchVerdict, token: LaunchToken)] = []
        var begun: [(name: ClientName, forGuests: Bool)] = []
        var readings = 0
        /// Whether a call failed.
        var hasFailed = false
    }

    /// The launches whose first report was recorded.
    private(set) var reported: [LaunchToken] = []

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

    // MARK: The disk of a state

    mutating func settle(_ verdict: LaunchVerdict, _ launch: FakeLaunch) -> Bool {
        if case .refused = attempt(verdict, launch) { false } else { true }
    }

    mutating func record(again launch: FakeLaunch) -> FakeLaunch {
        guard !isDiskFull, let recorded = record(launch.name, launch.token) else { return launch }
        return FakeLaunch(name: recorded.name, token: recorded.token, isTrial: launch.isTrial, isRecorded: true)
    }

    mutating func recordReport(_ launch: FakeLaunch) { reported.append(launch.token) }

    mutating func read(
        for audience: ClientShell.Audience, running: ClientName?, without silent: Set<ClientName>
    ) throws -> StoreReading {
        calls.readings += 1
        try failing { world in if world.isUnreadable { throw Trouble(what: "unreadable") } }
        var ledger = Ledger()
        ledger.appId = "\(changes)"
        let choice = choice(audience, without: Set(silent.map(Self.number))) ?? choice(audience)
        return StoreReading(
            ledger: ledger, choice: choice,
            isUrgent: choice.map { urgent.contains(Self.number($0.name)) } ?? false, busyLimit: busyLimit,
            missingShell: missingShell, recall: running.flatMap { isBlocked($0) ? "it is blocked" : nil })
    }

    mutating func prepare(
        forGuests: Bool, without silent: Set<ClientName>, for use: PreparedUse
    ) throws -> ReadyForPage<FakeClient> {
        try failing { world in
            let client: FakeClient
            do {
                client = try world.chosen(forGuests: forGuests, without: Set(silent.map(Self.number)))
            } catch  where use != .otherThanSilent {
                client = try world.chosen(forGuests: forGuests, without: [])
            }
            if use != .next { try world.setBase(client) }
            return ReadyForPage(client: client, missingShell: world.missingShell)
        }
    }

    mutating func show(_ client: FakeClient) throws { try failing { try $0.setBase(client) } }

    private mutating func failing<Value>(_ body: (inout FakeWorld) throws -> Value) throws -> Value {
        do {
            return try body(&self)
        } catch {
            calls.hasFailed = true
            throw error
        }
    }

    private mutating func setBase(_ client: FakeClient) throws {
        if refusesBase { throw Trouble(what: "base path") }
        base = client.name
    }

    mutating func begin(_ client: FakeClient, forGuests: Bool) -> FakeLaunch? {
        calls.begun.append((client.name, forGuests))
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

    mutating func write(_ verdict: LaunchVerdict, _ launched: FakeLaunch) -> VerdictWriting {
        calls.verdicts.append((verdict, launched.token))
        return attempt(verdict, launched)
    }

    private mutating func attempt(_ verdict: LaunchVerdict, _ launched: FakeLaunch) -> VerdictWriting {
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
        apply(verdict, to: launch)
        return .done(wasKnown: false)
    }

    private mutating func apply(_ verdict: LaunchVerdict, to launch: Start) {
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

/// A state whose effects are carried out, as `ClientShell` does.
struct StateFixture {
    static let timeout = StartupTimeout.standard

    var state: ShellState<FakeWorld>
    var now = Duration.zero
    /// The time of the requested timer.
    private(set) var wake: Duration?
    /// The results of the last event.
    private(set) var reports: [ShellEvent] = []
    private(set) var refusal: (any Error)?
    /// The launches whose health is to be checked.
    private(set) var checked: [LaunchToken] = []

    init(
        _ visibility: ShellConfiguration.Visibility = .assumed, checksHealth: Bool = false,
        blankScreens: BlankScreens = .fail
    ) {
        state = ShellState(
            FakeWorld(), timeout: Self.timeout, visibility: visibility, checksHealth: checksHealth,
            blankScreens: blankScreens)
    }

    var world: FakeWorld {
        get { state.disk }
        set { state.disk = newValue }
    }

    var verdicts: [(verdict: LaunchVerdict, token: LaunchToken)] { world.calls.verdicts }
    var begun: [(name: ClientName, forGuests: Bool)] { world.calls.begun }
    var readings: Int { world.calls.readings }
    var hasFailed: Bool { world.calls.hasFailed }
    var reported: [LaunchToken] { world.reported }

    mutating func handle(_ event: ShellState<FakeWorld>.Event) {
        (reports, world.calls) = ([], FakeWorld.Calls())
        let response = state.handle(event, at: now, time: Timestamp(clamping: 0))
        refusal = response.refusal
        for effect in response.effects {
            switch effect {
            case .retain: break
            case .report(let event): reports.append(event)
            case .reload: world.reloads += 1
            case .setTimer(let moment): wake = moment
            case .checkHealth(let launch): checked.append(launch.token)
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
