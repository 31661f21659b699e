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
    /// The consequence of a start that a page confirms with a blank screen.
    let blankScreens: BlankScreens
    private static var mostPageErrors: Int { 50 }

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
    /// Whether the running client has confirmed this start and shows nothing.
    var isBlank = false
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
        retryPause: Duration = RetryRule.standardPause, checksHealth: Bool = false,
        blankScreens: BlankScreens = .fail
    ) {
        self.checksHealth = checksHealth
        self.blankScreens = blankScreens
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
    private mutating func noteRetry(_ choice: SelectionRule.Choice?) {
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
        (launched, failure, pageErrors, busy, isBlank) = (launch, nil, [], BusyPages(), false)
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

/// A selected client that is ready, as `ShellState` needs it.
protocol ReadyLaunch: Sendable {
    var name: ClientName { get }
}

/// A boot attempt, as `ShellState` needs it. Tests use attempts without a store.
protocol BootAttempt: Sendable {
    associatedtype Prepared: ReadyLaunch

    var name: ClientName { get }
    var token: LaunchToken { get }
    var isTrial: Bool { get }
    var isRecorded: Bool { get }
    /// Whether a page reported an earlier start of the client as failed.
    var wasReportedFailed: Bool { get }
    /// Whether endpoints have to answer before the start is confirmed.
    var requiresEndpoints: Bool { get }
}

extension PreparedLaunch: ReadyLaunch {
    var name: ClientName { choice.name }
}

extension Launched: BootAttempt {
    typealias Prepared = PreparedLaunch

    var requiresEndpoints: Bool { prepared.client.endpoints != nil }
}

extension ShellState {
    /// A request to the shell, or the result of an action.
    enum Event {
        case start
        case admit(Audience)
        /// A session ended, so no page is busy.
        case sessionEnded
        /// A page is about to load.
        case load(PageLoad)
        /// The store may have changed. With `retrying`, a client that failed once may be selected again.
        case inspect(retrying: Bool)
        /// The periodic reading of the store. With `mayActivate`, a client that is ready may replace the running one. With `request`, an
        /// operator waits until that client is shown.
        case tick(mayActivate: Bool, request: ActivationRequest? = nil)
        case reload
        /// A page of the launch with this token, or the shell on its behalf, reported something.
        case page(PageInput, LaunchToken)
        /// The process was suspended for this time until now.
        case stalled(Duration)
        /// The time of `Action.setTimer` has come.
        case timerFired
        /// The result of `Action.checkHealth` for the launch with this token.
        case healthChecked(HealthResult, LaunchToken)

        case inspected(Inspection, Sequel)
        case ready(Ready, Goal)
        case notReady(any Error, Goal)
        /// The launch is nil if the client may no longer run.
        case began(Launch?, PageLoad)
        case notBegun(any Error)
        case written(Verdict, Launch, Writing)
    }

    /// An event of one page.
    enum PageInput {
        case confirm
        /// The page confirms its start, and its screen is empty. It looks at the screen for some seconds.
        case confirmEmpty
        /// The page has confirmed its start, and its screen stayed blank.
        case confirmBlank
        /// The shell saw the page fail.
        case fail(String)
        /// The page reported its own failure. It is valid on trial only.
        case failTrial(String)
        /// The page is no longer on the screen. It fails a client on trial, unless no page has ever reported.
        case lose(String)
        /// The page leaves for a place.
        case leave(String, PageReport)
        /// The connection of this page load ended without a report.
        case vanish(String)
        case error(String, isGrave: Bool)
        case show(Bool, PageReport?)
        /// The page is busy, or no longer. When it becomes idle and `mayActivate` is set, a client that is ready is shown.
        case busy(Bool, PageReport, mayActivate: Bool)
    }

    /// An instruction to the caller.
    enum Action {
        /// Write a pending verdict and an unrecorded launch, then read the store.
        case inspect(ReadingRequest, Sequel)
        /// Select a client unless `goal` names one, and pass it to the web view if `goal` shows it. The clients in `without` come last.
        case prepare(Goal, forGuests: Bool, without: Set<ClientName>)
        /// Record the boot attempt. An attempt for guests is not recorded.
        case begin(Prepared, forGuests: Bool, PageLoad)
        /// Check the health of the launch, whose page has confirmed its start.
        case checkHealth(Launch)
        /// Record that a page of the launch has reported.
        case recordReport(Launch)
        case write(Verdict, Launch)
        /// Remove older clients.
        case retain
        case report(ShellEvent)
        /// Reload the page.
        case reload
        /// Send `timerFired` at this reading of the clock instead of an earlier request; nil cancels it.
        case setTimer(at: Duration?)
        /// Throw this error to the caller of the event.
        case refuse(any Error)
    }

    /// A page that is about to load.
    struct PageLoad: Equatable {
        /// Whether a user will see the page. Such a load shows the client that is ready.
        let takesNext: Bool
        /// Whether an activation window is open.
        let mayChange: Bool
    }

    /// The step after a reading of the store.
    enum Sequel: Equatable {
        case nothing
        case retry
        case activate
        case request(ActivationRequest)
        case reload
        case load(PageLoad)

        /// Whether no caller waits for the result.
        var isIdle: Bool {
            switch self {
            case .nothing, .retry, .activate, .request: true
            case .reload, .load: false
            }
        }
    }

    /// The reason why a client is prepared.
    enum Goal {
        /// For the next page load, while nothing runs.
        case start(Start)
        /// As a replacement that a user may request.
        case next(Sequel)
        /// As the replacement of the running client, now.
        case change(Prepared, Sequel)
        /// As the replacement of a client that failed or must not run.
        case leave(Departure, Sequel)
    }

    /// The origin of a request for a client while nothing runs.
    enum Start {
        case caller
        case audience
        case page(PageLoad)
        case inspection(Sequel)
    }

    /// The reason why a client is replaced.
    enum Departure {
        case failed(StartFailure)
        case recalled(String)
        /// No page has ever reported.
        case silent
    }

    /// The input for a reading of the store.
    struct ReadingRequest {
        let audience: ClientShell.Audience
        let running: ClientName?
        let pending: PendingVerdict?
        let unrecorded: Launch?
        /// Clients that come last, because their pages never reported.
        let silent: Set<ClientName>
    }

    /// The result of a reading of the store.
    struct Inspection {
        /// Whether the pending verdict needs no further attempt.
        let isSettled: Bool
        let recorded: Launch?
        let store: Result<Store, any Error>
    }

    /// The facts of the store that decisions use.
    struct Store {
        let ledger: Ledger
        let choice: SelectionRule.Choice?
        /// Whether `choice` is shown as soon as it is ready.
        let isUrgent: Bool
        /// The time for which a busy page delays a change.
        let busyLimit: Duration
        let missingShell: SemanticVersion?
        /// The reason why the running client must not run; nil if it may.
        let recall: String?
    }

    /// A prepared client, and the shell version that a better one needs.
    struct Ready {
        let client: Prepared
        let missingShell: SemanticVersion?
    }

    /// The verdict on a launch.
    enum Verdict: Equatable {
        case good
        case faulty(StartFailure)
        /// The shell itself ended the launch.
        case abandoned
    }

    /// The result of writing a verdict.
    enum Writing {
        /// The verdict is on the disk. It was there before if `wasKnown`.
        case done(wasKnown: Bool, Consequence? = nil)
        /// The disk accepts no writes.
        case refused(UpdateFailure)
        case failed(any Error)
    }

    /// The consequence of a failed start for an installed client.
    enum Consequence: Equatable {
        /// The client is tried once more.
        case retried
        /// The client has failed `count` times and does not run again.
        case blocked(count: Int)
    }

    /// A verdict that the disk refused.
    struct PendingVerdict {
        let verdict: Verdict
        let launch: Launch
    }
}

extension ShellState {
    func inspect(then sequel: Sequel) -> [Action] {
        let unrecorded = launched.flatMap { $0.isRecorded || audience != .everybody ? nil : $0 }
        let request = ReadingRequest(
            audience: audience, running: launched?.name, pending: pending, unrecorded: unrecorded, silent: silent)
        return [.inspect(request, sequel)]
    }

    mutating func inspected(_ inspection: Inspection, _ sequel: Sequel, at now: Duration) -> [Action] {
        if inspection.isSettled { pending = nil }
        if let recorded = inspection.recorded { launched = recorded }
        switch inspection.store {
        case .failure(let error): return proceed(with: sequel, at: now, after: error)
        case .success(let store):
            busyLimit = store.busyLimit
            busy.inspected(at: now, limit: busyLimit)
            noteRetry(store.choice)
            if store.ledger == ledger { return proceed(with: sequel, at: now) }
            ledger = store.ledger
            missingShell = store.missingShell
            urgent = store.isUrgent ? store.choice?.name : nil
            if store.recall != nil, failure == nil, busy.holdsRecall(at: now, limit: busyLimit) {
                // The next reading acts on the recall, when the page is no longer busy or its limit has passed.
                ledger = nil
                return proceed(with: sequel, at: now)
            }
            return goal(for: store, sequel, at: now).map { prepare($0) } ?? proceed(with: sequel, at: now)
        }
    }

    /// Returns the client to prepare now; nil if there is none. A failed client is not offered to the page that follows it: its
    /// retry comes with a check after a pause (`RetryRule`), with an operator's request, or with the next start.
    private mutating func goal(for store: Store, _ sequel: Sequel, at now: Duration) -> Goal? {
        guard let choice = store.choice else { return nil }
        guard let launched else {
            return choice.name == prepared?.name ? nil : .start(.inspection(sequel))
        }
        // Between a reload and its page nothing is decided.
        guard launched.name == prepared?.name else { return nil }
        if let failure { return .leave(.failed(failure), sequel) }
        if let reason = store.recall { return .leave(.recalled(reason), sequel) }
        if choice.name == launched.name { next = nil }
        if choice.name == launched.name || choice.name == next?.name { return nil }
        if case .retry = choice.reason, !mayRetry(choice.name, sequel, at: now) { return nil }
        return .next(sequel)
    }

    private func mayRetry(_ name: ClientName, _ sequel: Sequel, at now: Duration) -> Bool {
        if trial != nil { return false }
        switch sequel {
        case .request(let request): return request.client == name
        case .retry:
            let time = failed.flatMap { $0.name == name ? $0.at : nil }
            return RetryRule.answer(failedAt: time, now: now, pause: retryPause) == .offered
        case .nothing, .activate, .reload, .load: return false
        }
    }

    /// Carries out `sequel` after the store has been read and acted on.
    mutating func proceed(with sequel: Sequel, at now: Duration, after error: (any Error)? = nil) -> [Action] {
        // A client on trial keeps its time to confirm. A failed change reports its own error.
        if sequel.isIdle, error == nil, trial == nil, let next, mayShow(next, sequel, at: now) {
            return prepare(.change(next, sequel))
        }
        let actions = report(error)
        switch sequel {
        case .nothing, .retry, .activate, .request: return actions
        case .reload:
            if let next { return actions + prepare(.change(next, sequel)) }
            let refusal = waiting.map { ShellError.awaitsSecondTrial($0.message) } ?? .noPendingVersion
            return actions + [.refuse(refusal)]
        case .load(let load):
            guard let next, load.takesNext, mayChange(load), !isBusy(now) else { return actions + open(load, at: now) }
            return actions + prepare(.change(next, sequel))
        }
    }

    /// Returns whether `client` replaces the running one without a request of a page.
    private func mayShow(_ client: Prepared, _ sequel: Sequel, at now: Duration) -> Bool {
        if case .request(let request) = sequel, request.client == client.name {
            return !(request.waitsForBusyPages && isBusy(now))
        }
        return !isBusy(now) && (sequel == .activate || client.name == urgent)
    }

    private func isBusy(_ now: Duration) -> Bool { busy.holds(at: now, limit: busyLimit) }

    /// Returns whether the load may show another client. Urgent releases ignore activation windows.
    func mayChange(_ load: PageLoad) -> Bool {
        load.mayChange || next.map { $0.name == urgent } ?? false
    }

    /// Reports an error once, though the store is read twice a second. Each reading tries again.
    mutating func report(_ error: (any Error)?) -> [Action] {
        let before = trouble
        trouble = error.map { UpdateFailure($0) }
        if trouble != nil { ledger = nil }
        return trouble.flatMap { $0 == before ? nil : [.report(.failed($0))] } ?? []
    }
}

extension ShellState {
    /// Applies an event of a page whose launch has `token`.
    mutating func apply(
        _ event: PageInput, of token: LaunchToken, at now: Duration, time: Timestamp
    ) -> [Action] {
        switch event {
        case .confirm:
            // The verdict is written at once and includes the report.
            _ = recordReport(token)
            return confirm(token, at: now)
        case .confirmEmpty:
            if failsBlank(token) {
                trial?.awaitContent(at: now)
                return recordReport(token)
            }
            return apply(.confirm, of: token, at: now, time: time)
        case .confirmBlank: return confirmBlank(token, at: now, time: time)
        case .fail(let what): return fail(token, .reported, what, at: now, time: time)
        case .failTrial(let what): return recordReport(token) + failTrial(token, what, at: now, time: time)
        case .lose(let what):
            guard let launched, launched.token == token, trial != nil else { return [] }
            if let actions = confirmUnseen(launched, at: now) { return actions }
            return hasPageReported ? fail(token, .reported, what, at: now, time: time) : leaveSilentClient(launched)
        case .leave(let place, let report):
            guard let launched, launched.token == token else { return [] }
            busy.leave(load: report.load)
            // Only its timeout decides a second trial, and that continues.
            if !launched.wasReportedFailed { trial?.leave(for: place, report, at: now) }
            expected?.leave(for: place, report, at: now)
            return recordReport(token) + (confirmUnseen(launched, at: now) ?? [])
        case .vanish(let load):
            guard let launched, launched.token == token else { return [] }
            busy.leave(load: load)
            if !launched.wasReportedFailed { trial?.vanish(load: load, at: now) }
            expected?.vanish(load: load, at: now)
            return confirmUnseen(launched, at: now) ?? []
        case .error(let text, let isGrave): return addPageError(text, of: token, isGrave: isGrave)
        case .show(let isShown, let report):
            guard let launched, launched.token == token else { return [] }
            trial?.show(isShown, report, at: now)
            expected?.show(isShown, report, at: now)
            return recordReport(token) + (isShown ? [] : confirmUnseen(launched, at: now) ?? [])
        case .busy(let isBusy, let report, let mayActivate):
            guard token == launched?.token else { return [] }
            busy.report(isBusy, load: report.load, number: report.number, at: now)
            return isBusy ? [] : inspect(then: mayActivate ? .activate : .nothing)
        }
    }

    mutating func timerFired(at now: Duration, time: Timestamp) -> [Action] {
        guard let launched else { return [] }
        switch trial?.wake(at: now, afterReports: hasPageReported) {
        case .failed(let cause, let what)?: return fail(launched.token, cause, what, at: now, time: time)
        case .silent?: return leaveSilentClient(launched)
        case .confirmed?: return confirm(launched.token, at: now)
        case nil: break
        }
        guard case .failed(_, let what)? = expected?.wake(at: now, afterReports: true) else { return [] }
        expected = nil
        return [.report(.unconfirmed(launched.name, what))]
    }

    private mutating func addPageError(_ text: String, of token: LaunchToken, isGrave: Bool) -> [Action] {
        guard let launched, launched.token == token, pageErrors.count < Self.mostPageErrors,
            pageErrors.insert(text).inserted
        else { return [] }
        if isGrave { trial?.addPageError(text) }
        return [.report(.complained(launched.name, text))]
    }

    /// Records that a page with `token` has reported, so a browser runs the pages of this shell. From now on silence is a
    /// failure of the running client, and clients that were skipped for their silence are available again.
    private mutating func recordReport(_ token: LaunchToken) -> [Action] {
        guard let launched, launched.token == token else { return [] }
        hasPageReported = true
        if !silent.isEmpty { (silent, ledger) = ([], nil) }
        guard trial?.recordReport() == true, launched.isRecorded else { return [] }
        return [.recordReport(launched)]
    }

    /// Replaces a client whose page was loaded and never reported, while no page of another client has. The browser may show
    /// something other than the page, so there is no verdict.
    private mutating func leaveSilentClient(_ launch: Launch) -> [Action] {
        silent.insert(launch.name)
        return (launch.isRecorded ? [.write(.abandoned, launch)] : []) + prepare(.leave(.silent, .nothing))
    }

    /// Applies a failure that the page reports itself. It fails one start of a client. Only the timeout decides a second trial,
    /// so a program that imitates the page cannot block a client.
    mutating func failTrial(
        _ token: LaunchToken, _ what: String, at now: Duration, time: Timestamp
    ) -> [Action] {
        guard let launched else { return [.refuse(ShellError.notStarted)] }
        guard token == launched.token else { return [.refuse(Self.foreignToken(running: launched.name))] }
        if trial == nil { return [.refuse(ShellError.notOnTrial)] }
        return launched.wasReportedFailed
            ? addPageError(what, of: token, isGrave: true)
            : fail(token, .reported, "the page said: \(what)", at: now, time: time)
    }

    mutating func confirm(_ token: LaunchToken, at now: Duration) -> [Action] {
        guard let launched else { return [.refuse(ShellError.notStarted)] }
        guard token == launched.token else { return [.refuse(Self.foreignToken(running: launched.name))] }
        if let failure { return [.refuse(Self.tooLate(launched.name, failure))] }
        expected = nil
        // The startup timeout ends with the confirmation, and the trial with the check.
        if trial != nil, checksHealth || launched.requiresEndpoints {
            return trial?.confirm(at: now) == true ? [.checkHealth(launched)] : []
        }
        let news: [Action] = isBlank ? [.report(.blank(launched.name, isOver: true))] : []
        isBlank = false
        // A launch without a record is of a confirmed client. A pending verdict came before this confirmation.
        return news + (launched.isRecorded && pending?.launch.token != token ? [.write(.good, launched)] : [])
    }

    /// Confirms the start of a page that waits for the looks at its empty screen, because without a visible page they have no result.
    /// Returns nil if it does not wait.
    private mutating func confirmUnseen(_ launch: Launch, at now: Duration) -> [Action]? {
        trial?.endLook() == true ? confirm(launch.token, at: now) : nil
    }

    /// Whether a blank screen fails the launch with `token`.
    private func failsBlank(_ token: LaunchToken) -> Bool {
        token == launched?.token && trial != nil && failure == nil && blankScreens == .fail
    }

    /// Applies the result that the screen of a page stayed blank. As for the failures that a page reports, only the timeout decides a
    /// second trial.
    private mutating func confirmBlank(_ token: LaunchToken, at now: Duration, time: Timestamp) -> [Action] {
        guard let launched, failsBlank(token) else {
            let actions = apply(.confirm, of: token, at: now, time: time)
            guard let launched, launched.token == token, failure == nil, blankScreens != .allow, !isBlank else {
                return actions
            }
            isBlank = true
            return actions + [.report(.blank(launched.name, isOver: false))]
        }
        if launched.wasReportedFailed {
            trial?.noteBlankScreen()
            return []
        }
        return fail(token, .blankScreen, Trial.blankScreen, at: now, time: time)
    }

    /// Ends a trial whose page has confirmed its start. The result for an earlier launch is ignored.
    mutating func healthChecked(
        _ result: HealthResult, _ token: LaunchToken, at now: Duration, time: Timestamp
    ) -> [Action] {
        guard let launched, launched.token == token, trial != nil, failure == nil, pending?.launch.token != token
        else { return [] }
        switch result {
        case .passed: return [.write(.good, launched)]
        case .failed(let reason): return fail(token, .reported, reason, at: now, time: time)
        }
    }

    /// Fails the launch: the ledger records it first, then another client is shown in the same window.
    mutating func fail(
        _ token: LaunchToken, _ cause: StartFailure.Cause, _ what: String, at now: Duration, time: Timestamp
    ) -> [Action] {
        guard let launched, launched.token == token else { return [] }
        if let failure { return prepare(.leave(.failed(failure), .nothing)) }
        if pending?.launch.token == token { return [] }
        let detail = trial?.failureDetail.map { "; the page said: \($0)" } ?? ""
        trial = nil
        failed = (launched.name, at: now, consequence: nil)
        let failure = StartFailure(cause, detail: what + detail, at: time, retryAt: retryTime(after: time))
        return [.write(.faulty(failure), launched)]
    }

    /// Returns the end of the retry pause that begins at `time`, rounded up to whole seconds.
    private func retryTime(after time: Timestamp) -> Timestamp {
        let (seconds, fraction) = retryPause.components
        let pause = Int(min(seconds, Int64(Timestamp.latestSecond))) + (fraction > 0 ? 1 : 0)
        return Timestamp(clamping: time.secondsSinceEpoch + pause)
    }

    /// Applies the result of writing a verdict. A full disk neither keeps a broken client on the screen nor undoes a confirmed
    /// one: the verdict takes effect at once and is written when the disk accepts it.
    mutating func written(_ verdict: Verdict, _ launch: Launch, _ writing: Writing) -> [Action] {
        var actions: [Action] = []
        switch (writing, verdict) {
        case (.failed(let error), .good): return [.refuse(error)]
        case (.failed(let error), _): return [.report(.failed(UpdateFailure(error)))]
        case (.refused(let refusal), .abandoned): return [.report(.failed(refusal))]
        case (.refused(let refusal), _):
            pending = PendingVerdict(verdict: verdict, launch: launch)
            actions.append(.report(.failed(refusal)))
        case (.done(_, let consequence), _): failed?.consequence = consequence
        }
        switch verdict {
        case .good:
            let errors = trial?.errorCount ?? 0
            trial = nil
            if case .done(wasKnown: true, _) = writing { return [] }
            let warning = "it confirmed its start after it had reported \(counted(errors, "error"))"
            return actions + [.report(.confirmed(launch.name))]
                + (errors > 0 ? [.report(.complained(launch.name, warning))] : []) + [.retain]
        case .faulty(let failure): return actions + prepare(.leave(.failed(failure), .nothing))
        case .abandoned: return []
        }
    }

    // MARK: Messages

    /// Returns the reason for the change from `name` to `other`, with the consequence for `name`.
    func reason(_ departure: Departure, leaving name: ClientName, for other: ClientName) -> UpdateFailure {
        switch departure {
        case .failed(let failure):
            UpdateFailure(
                failure.cause == .blankScreen ? .blankScreen : .healthFailed, subject: "\(name)",
                name == other
                    ? "\(name) failed to start, and is tried once more, since nothing else can be shown: \(failure)."
                    : "\(name) was rolled back to \(other): \(failure).\(consequence(of: failure))")
        case .recalled(let reason):
            UpdateFailure(.versionBlocked, subject: "\(name)", "\(name) was replaced by \(other), because \(reason).")
        case .silent:
            UpdateFailure(
                .healthFailed, subject: "\(name)",
                "\(name) was replaced by \(other) without a verdict, because no page has reported to this shell and the browser "
                    + "may show something else. \(name) is tried again when a page reports.")
        }
    }

    /// Returns the sentence about the client that failed last; empty if the ledger has not recorded the failure.
    private func consequence(of failure: StartFailure) -> String {
        switch failed?.consequence {
        case .retried?: " It \(failure.sequel)."
        case .blocked(let count)?:
            " It is blocked after \(count) failed starts; `clientctl unblock` lets it run again."
        case nil: ""
        }
    }

    private static func foreignToken(running name: ClientName) -> UpdateFailure {
        UpdateFailure(
            .versionMismatch, subject: "\(name)",
            "The token is from another launch than the running one of \(name). A verdict is valid for its own launch only."
        )
    }

    private static func tooLate(_ name: ClientName, _ failure: StartFailure) -> UpdateFailure {
        UpdateFailure(.healthFailed, subject: "\(name)", "\(name) has already failed: \(failure). Launch again.")
    }
}
