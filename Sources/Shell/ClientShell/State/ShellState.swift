import BundleCore
import BundleValues

/// The decisions of a shell: events in, actions out. It accesses no disk, no clock and no web view.
///
/// The caller passes one event at a time and carries out the returned actions in order. The result of an action is the next
/// event, before the next action.
struct ShellState<Launch: BootAttempt> {
    typealias Prepared = Launch.Prepared
    typealias Audience = ClientShell.Audience

    let timeout: StartupTimeout
    let visibility: ShellConfiguration.Visibility
    let retryPause: Duration
    /// Whether a client on trial also has to pass a health check.
    let checksHealth: Bool
    static var mostPageErrors: Int { 50 }

    var audience = Audience.everybody
    /// The client of the next page load. It differs from `launched` between a reload and its page.
    var prepared: Prepared?
    var launched: Launch?
    /// The client that could replace the running one.
    var next: Prepared?
    /// The client that is shown as soon as it is ready.
    var urgent: ClientName?
    var busy = BusyPages()
    var busyLimit = BusyPages.standard
    /// The shell version that the best client needs, if this shell is older.
    var missingShell: SemanticVersion?
    var trial: Trial?
    /// The start of a client that is not on trial. Its timeout is reported and is not a failure.
    var expected: Trial?
    /// The page errors of the running launch, each once.
    var pageErrors: Set<String> = []
    /// The reason why the running client has failed, while no other client could be shown.
    var failure: StartFailure?
    /// Whether a page has reported to this shell, so a browser runs its pages.
    var hasPageReported = false
    /// Clients whose pages were loaded and never reported, before any page did. Others come first until a page reports.
    var silent: Set<ClientName> = []
    /// The client whose start failed last, when, and the consequence in the ledger.
    var failed: (name: ClientName, at: Duration, consequence: Consequence?)?
    /// The client that is shown next, after its retry pause.
    private var retry: WaitingClient?
    /// The verdict that the disk has refused so far.
    var pending: PendingVerdict?
    /// The reason why there is nothing to show for the audience. With `failure`, the running client is not shown any more.
    var unprepared: UpdateFailure?
    /// The error of the last reading of the store.
    var trouble: UpdateFailure?
    /// The ledger of the last reading; nil if the next reading has to be acted on even without a change.
    var ledger: Ledger?
    private var wake: Duration?

    init(
        timeout: StartupTimeout, visibility: ShellConfiguration.Visibility,
        retryPause: Duration = RetryRule.standardPause, checksHealth: Bool = false
    ) {
        self.checksHealth = checksHealth
        self.timeout = timeout
        self.visibility = visibility
        self.retryPause = retryPause
    }

    /// Applies `event` at the clock's reading `now`. Records carry `time`.
    mutating func handle(_ event: Event, at now: Duration, time: Timestamp) -> [Action] {
        let actions = apply(event, at: now, time: time)
        let next = [trial?.wake, expected?.wake].compactMap(\.self).min()
        if next == wake { return actions }
        wake = next
        return [.setTimer(at: wake)] + actions
    }

    private mutating func apply(_ event: Event, at now: Duration, time: Timestamp) -> [Action] {
        switch event {
        case .start: return audience == .nobody ? [.refuse(ShellError.notStarted)] : prepare(.start(.caller))
        case .admit(let audience): return admit(audience)
        case .sessionEnded: busy = BusyPages()
        case .load(let load):
            // A pending verdict is written before the ledger records another launch.
            let isUnsettled = launched == nil || failure != nil || pending != nil
            return isUnsettled || load.takesNext && mayChange(load) ? inspect(then: .load(load)) : open(load, at: now)
        case .inspect(let retrying):
            if retrying { ledger = nil }
            return inspect(then: retrying ? .retry : .nothing)
        case .tick(_, let request?):
            // A client that failed is not offered again until the store changes, except to an operator.
            if request.client != next?.name { ledger = nil }
            return inspect(then: .request(request))
        case .tick(let mayActivate, nil): return inspect(then: mayActivate ? .activate : .nothing)
        case .reload: return inspect(then: .reload)
        case .stalled(let time): trial?.exclude(time, at: now)
        case .timerFired: return timerFired(at: now, time: time)
        case .healthChecked(let result, let token): return healthChecked(result, token, at: now, time: time)
        case .page(let event, let token): return apply(event, of: token, at: now, time: time)
        case .inspected(let inspection, let sequel): return inspected(inspection, sequel, at: now)
        case .ready(let ready, let goal): return clientIsReady(ready, for: goal, at: now)
        case .notReady(let error, let goal): return preparationFailed(error, for: goal, at: now)
        case .began(let launch, let load): return began(launch, load, at: now)
        case .notBegun(let error): return [.refuse(error)]
        case .written(let verdict, let launch, let writing): return written(verdict, launch, writing)
        }
        return []
    }

    /// The client that failed once and is not offered yet; nil if there is none, or if another client is ready.
    var waiting: WaitingClient? { next == nil ? retry : nil }

    /// Stores which client waits for its second trial, by the choice of the last reading of the store.
    mutating func noteRetry(_ choice: SelectionRule.Choice?) {
        retry = nil
        guard let choice, case .retry(let failure) = choice.reason, choice.name != launched?.name else { return }
        retry = WaitingClient(choice.name, failure)
    }

    // MARK: Audience

    /// Changes the audience. The launch of the former audience ends without a verdict.
    private mutating func admit(_ audience: Audience) -> [Action] {
        guard self.audience != audience else {
            if failure != nil, let unprepared { return [.refuse(unprepared)] }
            if prepared != nil || audience == .nobody { return [] }
            // Each change of the store starts another attempt.
            return unprepared.map { [.refuse($0)] } ?? prepare(.start(.audience))
        }
        let left = launched
        self.audience = audience
        replace(by: nil)
        ledger = nil
        var actions: [Action] = []
        if let left, left.isTrial, left.isRecorded { actions.append(.write(.abandoned, left)) }
        return audience == .nobody ? actions : actions + prepare(.start(.audience))
    }

    /// Forgets the running launch. The next page shows `client`.
    mutating func replace(by client: Prepared?) {
        (launched, trial, expected, failure, next, retry) = (nil, nil, nil, nil, nil, nil)
        unprepared = nil
        (prepared, busy) = (client, BusyPages())
    }

    // MARK: Page loads

    /// Opens the page of the running or the prepared client.
    mutating func open(_ load: PageLoad, at now: Duration) -> [Action] {
        if let launched, launched.name == prepared?.name {
            if load.takesNext {
                trial?.isLoaded(at: now)
                expected?.isLoaded(at: now)
            }
            return []
        }
        guard audience != .nobody, let prepared else { return [.refuse(ShellError.notStarted)] }
        // Guests see the seed only, whatever was prepared for users.
        if audience == .guests, prepared.name != .embedded { return prepare(.start(.page(load))) }
        return [.begin(prepared, forGuests: audience == .guests, load)]
    }

    private mutating func began(_ launch: Launch?, _ load: PageLoad, at now: Duration) -> [Action] {
        guard let launch else { return prepare(.start(.page(load))) }
        (launched, failure, pageErrors, busy) = (launch, nil, [], BusyPages())
        if next?.name == launch.name { next = nil }
        let start = Trial(timeout, visibility, at: now)
        trial = launch.isTrial ? start : nil
        expected = launch.isTrial || launch.name == .embedded ? nil : start
        return [.report(.launched(launch.name, isTrial: launch.isTrial))] + open(load, at: now)
    }

    // MARK: Other clients

    func prepare(_ goal: Goal) -> [Action] {
        [.prepare(goal, forGuests: audience == .guests, without: silent)]
    }

    private mutating func clientIsReady(_ ready: Ready, for goal: Goal, at now: Duration) -> [Action] {
        let client = ready.client
        switch goal {
        case .start(let start):
            (prepared, unprepared, missingShell) = (client, nil, ready.missingShell)
            switch start {
            case .caller, .audience: return []
            case .page(let load): return open(load, at: now)
            case .inspection(let sequel): return proceed(with: sequel, at: now)
            }
        case .next(let sequel):
            if client.name == launched?.name { return proceed(with: sequel, at: now) }
            next = client
            return [.report(.updateAvailable(client.name))] + proceed(with: sequel, at: now)
        case .change(_, let sequel):
            (prepared, next, retry, trouble) = (client, nil, nil, nil)
            guard case .load(let load) = sequel else { return [.reload] }
            return open(load, at: now)
        case .leave(let departure, let sequel):
            guard let name = launched?.name else { return [] }
            replace(by: client)
            let reason = reason(departure, leaving: name, for: client.name)
            return [.report(.rolledBack(name, to: client.name, reason)), .reload] + proceed(with: sequel, at: now)
        }
    }

    private mutating func preparationFailed(_ error: any Error, for goal: Goal, at now: Duration) -> [Action] {
        // A client whose start fails here is available again after its retry pause; the running client stays.
        if case .change(let client, _) = goal, client.name == next?.name, StartFailure.isOfClient(error) { next = nil }
        switch goal {
        case .start(.caller), .start(.page), .change(_, .reload): return [.refuse(error)]
        case .change(_, .load(let load)): return report(error) + open(load, at: now)
        case .start(.audience):
            let reason = UpdateFailure(error)
            unprepared = reason
            return [.refuse(reason)]
        case .change: return report(error)
        case .start(.inspection(let sequel)), .next(let sequel): return proceed(with: sequel, at: now, after: error)
        case .leave(let departure, let sequel):
            if case .failed(let failure) = departure { (self.failure, unprepared) = (failure, UpdateFailure(error)) }
            return proceed(with: sequel, at: now, after: error)
        }
    }
}
