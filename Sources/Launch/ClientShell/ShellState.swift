import BundleCore
import BundleValues

/// What a shell shows: events in, actions out. It knows no disk, no clock and no web view.
///
/// Events come one at a time. The actions are carried out in their order, and what becomes of one is the next event, before the
/// next action.
struct ShellState<Launch: BootAttempt> {
    typealias Prepared = Launch.Prepared
    typealias Audience = ClientShell.Audience

    private let timeout: StartupTimeout
    private let visibility: ShellConfiguration.Visibility
    private(set) var audience = Audience.everybody
    /// What the next page load shows, and what runs; between a reload and its page these are two.
    private(set) var prepared: Prepared?
    private(set) var launched: Launch?
    /// What could be shown in place of what runs.
    private(set) var next: Prepared?
    /// The client that is to be shown as soon as it is ready.
    private var urgent: ClientName?
    private var busy = BusyPages()
    private var busyLimit = BusyPages.standard
    /// The shell that the best client needs, where this one is too old for it.
    private(set) var missingShell: SemanticVersion?
    private var trial: Trial?
    /// The start of a client that is not on trial: it has not failed if its time passes, and this is reported.
    private var expected: Trial?
    /// What its pages complained of.
    private var complaints: Set<String> = []
    private let mostComplaints = 50
    /// Why what runs has failed, while nothing could take its place.
    private var failure: StartFailure?
    /// Whether a page has reported to this shell: then a browser shows what it is given.
    private var hasHeardPage = false
    /// Clients whose pages were loaded and never reported, while no page ever had: others are shown first until one has.
    private var silent: Set<ClientName> = []
    /// The client whose start failed last, and when.
    private var failed: (name: ClientName, at: Duration)?
    private let retryPause: Duration
    private var owed: Debt?
    private var unprepared: UpdateFailure?
    private var trouble: UpdateFailure?
    private var ledger: Ledger?
    private var wake: Duration?

    init(
        timeout: StartupTimeout, visibility: ShellConfiguration.Visibility,
        retryPause: Duration = RetryRule.standardPause
    ) {
        self.timeout = timeout
        self.visibility = visibility
        self.retryPause = retryPause
    }

    /// Takes in `event` at the clock's reading `now`, which is `time` for people.
    mutating func handle(_ event: Event, at now: Duration, _ time: Timestamp) -> [Action] {
        let actions = apply(event, now, time)
        let next = [trial?.wake, expected?.wake].compactMap(\.self).min()
        if next == wake { return actions }
        wake = next
        return [.wake(at: wake)] + actions
    }

    private mutating func apply(_ event: Event, _ now: Duration, _ time: Timestamp) -> [Action] {
        switch event {
        case .start: return audience == .nobody ? [.refuse(ShellError.notStarted)] : prepare(.start(.caller))
        case .admit(let audience): return admit(audience)
        case .sessionEnded: busy = BusyPages()
        case .load(let load):
            // What is owed is written before another launch takes its place in the ledger.
            let isUnsettled = launched == nil || failure != nil || owed != nil
            return isUnsettled || load.takesNext && mayChange(load) ? inspect(then: .load(load)) : open(load, now)
        case .inspect(let retrying):
            if retrying { ledger = nil }
            return inspect(then: retrying ? .retry : .nothing)
        case .tick(let mayActivate): return inspect(then: mayActivate ? .activate : .nothing)
        case .reload: return inspect(then: .reload)
        case .confirm(let token):
            // The verdict is written at once, and the report with it.
            _ = hear(token)
            return confirm(token)
        case .fail(let token, let what): return fail(token, .reported, what, now, time)
        case .failTrial(let token, let what): return hear(token) + failTrial(token, what, now, time)
        case .lose(let token, let what):
            guard let launched, launched.token == token, trial != nil else { return [] }
            return hasHeardPage ? fail(token, .reported, what, now, time) : passOver(launched)
        case .leave(let token, let place, let report):
            guard let launched, launched.token == token else { return [] }
            busy.leave(load: report.load)
            // A second trial is decided by its time alone, which goes on.
            if !launched.wasReportedFailed { trial?.leave(for: place, report, at: now) }
            expected?.leave(for: place, report, at: now)
            return hear(token)
        case .complain(let token, let complaint, let isGrave): return complain(token, complaint, isGrave)
        case .show(let token, let isShown, let report):
            guard token == launched?.token else { return [] }
            trial?.show(isShown, report, at: now)
            expected?.show(isShown, report, at: now)
            return hear(token)
        case .busy(let token, let isBusy, let report, let mayActivate):
            guard token == launched?.token else { return [] }
            busy.report(isBusy, load: report.load, number: report.number, at: now)
            return isBusy ? [] : inspect(then: mayActivate ? .activate : .nothing)
        case .stoodStill(let time): trial?.standsStill(for: time, at: now)
        case .woken:
            guard let launched else { return [] }
            switch trial?.wake(at: now, afterReports: hasHeardPage) {
            case .failed(let cause, let what)?: return fail(launched.token, cause, what, now, time)
            case .silent?: return passOver(launched)
            case nil: break
            }
            guard case .failed(_, let what)? = expected?.wake(at: now, afterReports: true) else { return [] }
            expected = nil
            return [.report(.unconfirmed(launched.name, what))]
        case .inspected(let inspection, let sequel): return inspected(inspection, sequel, now)
        case .ready(let ready, let goal): return reach(goal, ready, now)
        case .notReady(let error, let goal): return miss(goal, error, now)
        case .began(let launch, let load): return began(launch, load, now)
        case .notBegun(let error): return [.refuse(error)]
        case .written(let verdict, let launch, let writing): return written(verdict, launch, writing)
        }
        return []
    }

    // MARK: Who looks

    /// What others were shown is left without a verdict.
    private mutating func admit(_ audience: Audience) -> [Action] {
        guard self.audience != audience else {
            if prepared != nil || audience == .nobody { return [] }
            // It is looked for again with every change of the store.
            return unprepared.map { [.refuse($0)] } ?? prepare(.start(.audience))
        }
        let left = launched
        self.audience = audience
        leave(for: nil)
        (unprepared, ledger) = (nil, nil)
        var actions: [Action] = []
        if let left, left.isTrial, left.isRecorded { actions.append(.write(.abandoned, left)) }
        return audience == .nobody ? actions : actions + prepare(.start(.audience))
    }

    /// Nothing runs any more; `client` is shown by the next page.
    private mutating func leave(for client: Prepared?) {
        (launched, trial, expected, failure, next) = (nil, nil, nil, nil, nil)
        (prepared, busy) = (client, BusyPages())
    }

    // MARK: Page loads

    /// The page of what runs, or of what is prepared.
    private mutating func open(_ load: PageLoad, _ now: Duration) -> [Action] {
        if let launched, launched.name == prepared?.name {
            if load.takesNext {
                trial?.isLoaded(at: now)
                expected?.isLoaded(at: now)
            }
            return []
        }
        guard audience != .nobody, let prepared else { return [.refuse(ShellError.notStarted)] }
        // What was prepared for others is not for guests.
        if audience == .guests, prepared.name != .embedded { return prepare(.start(.page(load))) }
        return [.begin(prepared, forGuests: audience == .guests, load)]
    }

    private mutating func began(_ launch: Launch?, _ load: PageLoad, _ now: Duration) -> [Action] {
        guard let launch else { return prepare(.start(.page(load))) }
        (launched, failure, complaints, busy) = (launch, nil, [], BusyPages())
        if next?.name == launch.name { next = nil }
        let start = Trial(timeout, visibility, at: now)
        trial = launch.isTrial ? start : nil
        expected = launch.isTrial || launch.name == .embedded ? nil : start
        return [.report(.launched(launch.name, isTrial: launch.isTrial))] + open(load, now)
    }

    private mutating func complain(_ token: LaunchToken, _ complaint: String, _ isGrave: Bool) -> [Action] {
        guard let launched, launched.token == token, complaints.count < mostComplaints,
            complaints.insert(complaint).inserted
        else { return [] }
        if isGrave { trial?.complain(complaint) }
        return [.report(.complained(launched.name, complaint))]
    }

    // MARK: Verdicts

    /// A page with `token` has reported, so a browser shows what it is given: the launch that runs answers for its trial from now on, and
    /// clients that were passed over get another one.
    private mutating func hear(_ token: LaunchToken) -> [Action] {
        guard let launched, launched.token == token else { return [] }
        hasHeardPage = true
        if !silent.isEmpty { (silent, ledger) = ([], nil) }
        guard trial?.hear() == true, launched.isRecorded else { return [] }
        return [.note(launched)]
    }

    /// The trial of a client whose page was loaded and never reported, as no page has: the browser may show something else. Another client
    /// is shown, and there is no verdict.
    private mutating func passOver(_ launch: Launch) -> [Action] {
        silent.insert(launch.name)
        return (launch.isRecorded ? [.write(.abandoned, launch)] : []) + prepare(.leave(.silent, .nothing))
    }

    /// A page says that its start has failed. That fails one start of a client: its second trial is decided by its time, so a
    /// program that speaks for the page cannot block a client.
    private mutating func failTrial(
        _ token: LaunchToken, _ what: String, _ now: Duration, _ time: Timestamp
    ) -> [Action] {
        guard let launched else { return [.refuse(ShellError.notStarted)] }
        guard token == launched.token else { return [.refuse(Self.foreignToken(launched.name))] }
        if trial == nil { return [.refuse(ShellError.notOnTrial)] }
        return launched.wasReportedFailed
            ? complain(token, what, true) : fail(token, .reported, "the page said: \(what)", now, time)
    }

    private mutating func confirm(_ token: LaunchToken) -> [Action] {
        guard let launched else { return [.refuse(ShellError.notStarted)] }
        guard token == launched.token else { return [.refuse(Self.foreignToken(launched.name))] }
        if let failure { return [.refuse(Self.tooLate(launched.name, failure))] }
        expected = nil
        // What is shown without a record has proved itself before; what is owed was said before.
        return launched.isRecorded && owed?.launch.token != token ? [.write(.good, launched)] : []
    }

    /// The launch failed: the ledger first, then the client that comes instead, in the same window.
    private mutating func fail(
        _ token: LaunchToken, _ cause: StartFailure.Cause, _ what: String, _ now: Duration, _ time: Timestamp
    ) -> [Action] {
        guard let launched, launched.token == token else { return [] }
        if let failure { return prepare(.leave(.failed(failure), .nothing)) }
        if owed?.launch.token == token { return [] }
        let evidence = trial?.evidence.map { "; the page said: \($0)" } ?? ""
        trial = nil
        failed = (launched.name, now)
        return [.write(.faulty(StartFailure(cause, detail: what + evidence, at: time)), launched)]
    }

    /// A disk that takes no writes must neither keep a broken client on the screen nor undo a good one: the verdict counts at
    /// once, and is written when the disk takes it.
    private mutating func written(_ verdict: Verdict, _ launch: Launch, _ writing: Writing) -> [Action] {
        var actions: [Action] = []
        switch (writing, verdict) {
        case (.failed(let error), .good): return [.refuse(error)]
        case (.failed(let error), _): return [.report(.failed(UpdateFailure(error)))]
        case (.refused(let refusal), .abandoned): return [.report(.failed(refusal))]
        case (.refused(let refusal), _):
            owed = Debt(verdict: verdict, launch: launch)
            actions.append(.report(.failed(refusal)))
        case (.done, _): break
        }
        switch verdict {
        case .good:
            let evidence = trial?.evidence
            trial = nil
            if case .done(wasKnown: true) = writing { return [] }
            let warning = evidence.map { "it confirmed its start, though its page had reported: \($0)" }
            return actions + [.report(.confirmed(launch.name))]
                + (warning.map { [.report(.complained(launch.name, $0))] } ?? []) + [.retain]
        case .faulty(let failure): return actions + prepare(.leave(.failed(failure), .nothing))
        case .abandoned: return []
        }
    }

    // MARK: The store

    private func inspect(then sequel: Sequel) -> [Action] {
        let unrecorded = launched.flatMap { $0.isRecorded || audience != .everybody ? nil : $0 }
        let request = Request(
            audience: audience, running: launched?.name, owed: owed, unrecorded: unrecorded, silent: silent)
        return [.inspect(request, sequel)]
    }

    private mutating func inspected(_ inspection: Inspection, _ sequel: Sequel, _ now: Duration) -> [Action] {
        if inspection.isSettled { owed = nil }
        if let recorded = inspection.recorded { launched = recorded }
        switch inspection.store {
        case .failure(let error): return go(on: sequel, now, after: error)
        case .success(let store):
            busyLimit = store.busyLimit
            busy.inspected(at: now, limit: busyLimit)
            if store.ledger == ledger { return go(on: sequel, now) }
            ledger = store.ledger
            missingShell = store.missingShell
            urgent = store.isUrgent ? store.choice?.name : nil
            if store.recall != nil, failure == nil, busy.holdsRecall(at: now, limit: busyLimit) {
                // What must not run is left all the same, when its pages are done or their time is over.
                ledger = nil
                return go(on: sequel, now)
            }
            return goal(for: store, sequel, now).map { prepare($0) } ?? go(on: sequel, now)
        }
    }

    /// Returns what is to be made ready now; nil where nothing is. A client that failed is not offered at once to the page that
    /// follows it: its retry comes with a check after a pause (`RetryRule`), or with the next start.
    private mutating func goal(for store: Store, _ sequel: Sequel, _ now: Duration) -> Goal? {
        guard let choice = store.choice else { return nil }
        guard let launched else {
            return choice.name == prepared?.name ? nil : .start(.inspection(sequel))
        }
        // Between a reload and its page there is nothing to report.
        guard launched.name == prepared?.name else { return nil }
        if let failure { return .leave(.failed(failure), sequel) }
        if let reason = store.recall { return .leave(.recalled(reason), sequel) }
        if choice.name == launched.name { next = nil }
        if choice.name == launched.name || choice.name == next?.name { return nil }
        if case .retry = choice.reason, !sequel.isRetry || trial != nil || isPaused(choice.name, now) { return nil }
        return .next(sequel)
    }

    private func isPaused(_ name: ClientName, _ now: Duration) -> Bool {
        let time = failed.flatMap { $0.name == name ? $0.at : nil }
        return RetryRule.answer(failedAt: time, now: now, pause: retryPause) != .offered
    }

    /// The store has been read, and what follows from it is done.
    private mutating func go(on sequel: Sequel, _ now: Duration, after error: (any Error)? = nil) -> [Action] {
        // A client on trial is given the time to confirm its start. Whether it can be changed by itself is trouble of its own.
        if sequel.isIdle, error == nil, trial == nil, !isBusy(now), let next, sequel == .activate || next.name == urgent
        {
            return prepare(.change(next, sequel))
        }
        let actions = report(error)
        switch sequel {
        case .nothing, .retry, .activate: return actions
        case .reload:
            return actions + (next.map { prepare(.change($0, sequel)) } ?? [.refuse(ShellError.noPendingVersion)])
        case .load(let load):
            guard let next, load.takesNext, mayChange(load), !isBusy(now) else { return actions + open(load, now) }
            return actions + prepare(.change(next, sequel))
        }
    }

    /// Whether nothing is to be changed under a person's hands.
    private func isBusy(_ now: Duration) -> Bool { busy.holds(at: now, limit: busyLimit) }

    /// What is urgent waits for no time of the day.
    private func mayChange(_ load: PageLoad) -> Bool {
        load.mayChange || next.map { $0.name == urgent } ?? false
    }

    /// The store is read twice a second: trouble is reported once, and what could not be done is tried again each time.
    private mutating func report(_ error: (any Error)?) -> [Action] {
        let before = trouble
        trouble = error.map { UpdateFailure($0) }
        if trouble != nil { ledger = nil }
        return trouble.flatMap { $0 == before ? nil : [.report(.failed($0))] } ?? []
    }

    // MARK: Other clients

    private func prepare(_ goal: Goal) -> [Action] {
        [.prepare(goal, forGuests: audience == .guests, without: silent)]
    }

    private mutating func reach(_ goal: Goal, _ ready: Ready, _ now: Duration) -> [Action] {
        let client = ready.client
        switch goal {
        case .start(let start):
            (prepared, unprepared, missingShell) = (client, nil, ready.missingShell)
            switch start {
            case .caller, .audience: return []
            case .page(let load): return open(load, now)
            case .inspection(let sequel): return go(on: sequel, now)
            }
        case .next(let sequel):
            if client.name == launched?.name { return go(on: sequel, now) }
            next = client
            return [.report(.updateAvailable(client.name))] + go(on: sequel, now)
        case .change(_, let sequel):
            (prepared, next, trouble) = (client, nil, nil)
            guard case .load(let load) = sequel else { return [.reload] }
            return open(load, now)
        case .leave(let departure, let sequel):
            guard let name = launched?.name else { return [] }
            leave(for: client)
            let reason = Self.reason(departure, name, client.name)
            return [.report(.rolledBack(name, to: client.name, reason)), .reload]
                + go(on: sequel, now)
        }
    }

    private mutating func miss(_ goal: Goal, _ error: any Error, _ now: Duration) -> [Action] {
        // What has failed its start by this is offered again when its retry comes; what runs goes on.
        if case .change(let client, _) = goal, client.name == next?.name, StartFailure.isOfClient(error) { next = nil }
        switch goal {
        case .start(.caller), .start(.page), .change(_, .reload): return [.refuse(error)]
        case .change(_, .load(let load)): return report(error) + open(load, now)
        case .start(.audience):
            let reason = UpdateFailure(error)
            unprepared = reason
            return [.refuse(reason)]
        case .change: return report(error)
        case .start(.inspection(let sequel)), .next(let sequel): return go(on: sequel, now, after: error)
        case .leave(let departure, let sequel):
            if case .failed(let failure) = departure { self.failure = failure }
            return go(on: sequel, now, after: error)
        }
    }

    // MARK: Words

    private static func reason(_ departure: Departure, _ name: ClientName, _ other: ClientName) -> UpdateFailure {
        switch departure {
        case .failed(let failure):
            UpdateFailure(
                .healthFailed, subject: "\(name)",
                name == other
                    ? "\(name) failed to start, and is tried once more, since nothing else can be shown: \(failure)."
                    : "\(name) was rolled back to \(other): \(failure).")
        // Its page is not asked.
        case .recalled(let reason):
            UpdateFailure(.versionBlocked, subject: "\(name)", "\(name) was left for \(other), because \(reason).")
        case .silent:
            UpdateFailure(
                .healthFailed, subject: "\(name)",
                "\(name) was left for \(other) without a verdict: its page was loaded, and no page has reported since this "
                    + "start, so the browser may show something else. \(name) is tried again when a page reports.")
        }
    }

    private static func foreignToken(_ name: ClientName) -> UpdateFailure {
        UpdateFailure(
            .versionMismatch, subject: "\(name)",
            "The token belongs to another launch than the one of \(name) that runs, and a verdict counts for its own launch only."
        )
    }

    private static func tooLate(_ name: ClientName, _ failure: StartFailure) -> UpdateFailure {
        UpdateFailure(.healthFailed, subject: "\(name)", "\(name) has failed already: \(failure). Launch again.")
    }
}

/// A start that has to prove itself: how much of its time is left, and what its pages reported. Its time runs only while
/// somebody can see it.
struct Trial: Sendable {
    /// Page loads that are remembered; the last one is the youngest.
    private static let rememberedLoads = 16

    private var watchdog: StartupWatchdog
    /// When its time is over; nil while that stands still.
    private var end: Duration?
    /// How long a page in a browser may report nothing before it counts as seen; nil where every page counts.
    private let longestSilence: Duration?
    private var silence: Duration?
    private var isInBrowser = false
    private var hasReported = false
    /// Whether the ledger is to learn of the first report.
    private var awaitsReport: Bool
    private var loads: [PageReport] = []
    private let patience: Duration
    /// A page that has left, for where, and until when one of ours is to follow it.
    private var farewell: (load: String, place: String, end: Duration)?
    private var complaints: [String] = []
    private static let keptComplaints = 3

    /// How a trial ends by itself.
    enum End: Equatable {
        case failed(StartFailure.Cause, String)
        /// A page was loaded, and none has ever reported.
        case silent
    }

    /// A start that begins at the clock's reading `now`.
    init(_ timeout: StartupTimeout, _ visibility: ShellConfiguration.Visibility, at now: Duration) {
        awaitsReport = visibility == .reported
        watchdog = StartupWatchdog(timeout: timeout)
        patience = timeout.duration
        longestSilence = visibility == .reported ? timeout.duration * 3 : nil
        _ = apply(.started, now)
        if longestSilence != nil { _ = apply(.paused, now) }
    }

    /// When it has to be woken; nil where nothing is waited for.
    var wake: Duration? { [end, silence, farewell?.end].compactMap(\.self).min() }

    /// Somebody loads the page to look at it.
    mutating func isLoaded(at now: Duration) {
        farewell = nil
        guard let longestSilence, !isInBrowser else { return }
        isInBrowser = true
        if !hasReported { silence = now + longestSilence }
    }

    /// A page went out of sight or came into it. One that is loaded again says farewell late: only the youngest counts.
    mutating func show(_ isShown: Bool, _ report: PageReport?, at now: Duration) {
        if let report, !isNew(report) { return }
        hasReported = true
        silence = nil
        if isShown || report?.load != farewell?.load { farewell = nil }
        _ = apply(isShown ? .resumed : .paused, now)
    }

    /// A page leaves for `place`. Nobody sees it any more; one of ours has to follow in the time that a start has.
    mutating func leave(for place: String, _ report: PageReport, at now: Duration) {
        guard isNew(report) else { return }
        farewell = (report.load, place, now + patience)
        _ = apply(.paused, now)
    }

    /// The process stood still for `time` until now, and its pages as well: none of that time counts.
    mutating func standsStill(for time: Duration, at now: Duration) {
        if end != nil {
            _ = apply(.paused, now - time)
            _ = apply(.resumed, now)
        }
        silence = silence.map { $0 + time }
        farewell?.end += time
    }

    /// Takes in that a page has reported; true for the first time where pages report.
    mutating func hear() -> Bool {
        defer { awaitsReport = false }
        return awaitsReport
    }

    /// The first complaints of its pages: the one that counts may come behind another.
    var evidence: String? { complaints.isEmpty ? nil : complaints.joined(separator: "; ") }

    mutating func complain(_ complaint: String) {
        if complaints.count < Self.keptComplaints { complaints.append(complaint) }
    }

    /// How the trial has ended, if it has by now. A page that reports nothing is the client's own failure `afterReports` of others.
    mutating func wake(at now: Duration, afterReports: Bool) -> End? {
        if let farewell, now >= farewell.end {
            let place = farewell.place.isEmpty ? "" : " for \(farewell.place)"
            return .failed(
                .reported, "its page left\(place), and none of its pages followed within \(DurationText(patience))")
        }
        if let silence, now >= silence {
            self.silence = nil
            if !afterReports { return .silent }
            _ = apply(.resumed, now)
        }
        guard case .settle(.faulty(let cause, let what))? = apply(.woken, now) else { return nil }
        return .failed(cause, what)
    }

    private mutating func apply(_ event: StartupWatchdog.Event, _ now: Duration) -> StartupWatchdog.Action? {
        let action = watchdog.handle(event, at: now)
        switch action {
        case .wake(let moment)?: end = moment
        case .sleep?, .settle?: end = nil
        case nil: break
        }
        return action
    }

    /// Whether this comes from the youngest load: the last one, or one never heard of.
    private mutating func isNew(_ report: PageReport) -> Bool {
        guard let index = loads.firstIndex(where: { $0.load == report.load }) else {
            loads.append(report)
            if loads.count > Self.rememberedLoads { loads.removeFirst() }
            return true
        }
        if loads[index].number >= report.number { return false }
        loads[index] = report
        return index == loads.count - 1
    }
}

/// Which load of a page reports, and how often it has: reports may overtake each other.
public struct PageReport: Sendable, Equatable {
    /// The load: a name of its own for each.
    public let load: String
    /// Counts up with each report of this load.
    public let number: Int

    /// States where a report comes from.
    public init(load: String, number: Int) {
        self.load = load
        self.number = number
    }
}
