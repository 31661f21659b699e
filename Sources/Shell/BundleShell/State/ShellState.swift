import BundleCore
import BundleValues

/// The decisions of a shell: events in, effects out. It has no clock and reaches the store and the web view only through its disk.
///
/// The caller passes one event at a time and carries out the returned effects in order.
struct ShellState<Disk: ShellDisk> {
    typealias Launch = Disk.Launch
    typealias Prepared = Launch.Prepared
    typealias Audience = ClientShell.Audience

    var disk: Disk
    private let timeout: StartupTimeout
    private let visibility: ShellConfiguration.Visibility
    private let retryPause: Duration
    /// Whether a client on trial also has to pass a health check.
    private let checksHealth: Bool
    /// The consequence of a start that a page confirms with a blank screen.
    private let blankScreens: BlankScreens
    private static var mostPageErrors: Int { 50 }

    private(set) var audience = Audience.everybody
    /// The client of the next page load. It differs from `launched` between a reload and its page.
    private(set) var prepared: Prepared?
    private(set) var launched: Launch?
    /// The client that could replace the running one.
    private(set) var next: Prepared?
    /// The client that is shown as soon as it is ready.
    private var urgent: ClientName?
    private var busy = BusyPages()
    private var busyLimit = BusyPages.standard
    /// The shell version that the best client needs, if this shell is older.
    private(set) var missingShell: SemanticVersion?
    private var trial: Trial?
    /// The start of a client that is not on trial. Its timeout is reported and is not a failure.
    private var expected: Trial?
    /// The page errors of the running launch, each once.
    private var pageErrors: Set<String> = []
    /// Whether the running client has confirmed this start and shows nothing.
    private(set) var isBlank = false
    /// The reason why the running client has failed, while no other client could be shown.
    private var failure: StartFailure?
    /// Whether a page has reported to this shell, so a browser runs its pages.
    private var hasPageReported = false
    /// Clients whose pages were loaded and never reported, before any page did. Others come first until a page reports.
    private var silent: Set<ClientName> = []
    /// The client whose start failed last, when, and the consequence in the ledger.
    private var failed: (name: ClientName, at: Duration, consequence: LaunchConsequence?)?
    /// The client that is shown next, after its retry pause.
    private var retry: WaitingClient?
    /// The verdict that the disk has refused so far.
    private var pending: (verdict: LaunchVerdict, launch: Launch)?
    /// The reason why there is nothing to show for the audience. With `failure`, the running client is not shown any more.
    private var unprepared: UpdateFailure?
    /// The error of the last reading of the store.
    private var trouble: UpdateFailure?
    /// The ledger of the last reading; nil if the next reading has to be acted on even without a change.
    private var ledger: Ledger?
    private var wake: Duration?

    // The event that is being applied.
    private var now = Duration.zero
    private var time = Timestamp(clamping: 0)
    private var effects: [Effect] = []

    init(
        _ disk: Disk, timeout: StartupTimeout, visibility: ShellConfiguration.Visibility,
        retryPause: Duration = RetryRule.standardPause, checksHealth: Bool = false,
        blankScreens: BlankScreens = .fail
    ) {
        self.disk = disk
        self.blankScreens = blankScreens
        self.checksHealth = checksHealth
        self.timeout = timeout
        self.visibility = visibility
        self.retryPause = retryPause
    }

    /// The client that failed once and is not offered yet; nil if there is none, or if another client is ready.
    var waiting: WaitingClient? { next == nil ? retry : nil }

    /// Applies `event` at the clock's reading `now`. Records carry `time`.
    mutating func handle(_ event: Event, at now: Duration, time: Timestamp) -> Response {
        (self.now, self.time, effects) = (now, time, [])
        var response = Response()
        do { try apply(event) } catch { response.refusal = error }
        let next = [trial?.wake, expected?.wake].compactMap(\.self).min()
        if next != wake { response.effects.append(.setTimer(at: next)) }
        wake = next
        response.effects += effects
        return response
    }

    private mutating func apply(_ event: Event) throws {
        switch event {
        case .start:
            if audience == .nobody { throw ShellError.notStarted }
            try prepare()
        case .admit(let audience): try admit(audience)
        case .sessionEnded: busy = BusyPages()
        case .load(let load):
            // A pending verdict is written before the ledger records another launch.
            let isUnsettled = launched == nil || failure != nil || pending != nil
            if isUnsettled || load.takesNext && mayChange(load) { try read(for: .load(load)) } else { try open(load) }
        case .inspect(let retrying):
            if retrying { ledger = nil }
            try read(for: retrying ? .retry : .nothing)
        case .tick(_, let request?):
            // A client that failed is not offered again until the store changes, except to an operator.
            if request.client != next?.name { ledger = nil }
            try read(for: .request(request))
        case .tick(let mayActivate, nil): try read(for: mayActivate ? .activate : .nothing)
        case .reload: try read(for: .reload)
        case .stalled(let time): trial?.exclude(time, at: now)
        case .timerFired: try timerFired()
        case .healthChecked(let result, let token): try healthChecked(result, token)
        case .page(let event, let token): try apply(event, of: token)
        }
    }

    // MARK: Audience

    /// Changes the audience. The launch of the former audience ends without a verdict.
    private mutating func admit(_ audience: Audience) throws {
        guard self.audience != audience else {
            if failure != nil, let unprepared { throw unprepared }
            if prepared != nil || audience == .nobody { return }
            // Each change of the store starts another attempt.
            if let unprepared { throw unprepared }
            return try prepareForAudience()
        }
        let left = launched
        self.audience = audience
        replace(by: nil)
        ledger = nil
        if let left, left.isTrial, left.isRecorded { try write(.abandoned, left) }
        if audience != .nobody { try prepareForAudience() }
    }

    private mutating func prepareForAudience() throws {
        do {
            try prepare()
        } catch {
            let reason = UpdateFailure(error)
            unprepared = reason
            throw reason
        }
    }

    /// Selects the client of the next page load, while nothing runs.
    private mutating func prepare() throws {
        let ready = try disk.prepare(forGuests: audience == .guests, without: silent, for: .page)
        (prepared, unprepared, missingShell) = (ready.client, nil, ready.missingShell)
    }

    /// Forgets the running launch. The next page shows `client`.
    private mutating func replace(by client: Prepared?) {
        (launched, trial, expected, failure, next, retry) = (nil, nil, nil, nil, nil, nil)
        unprepared = nil
        (prepared, busy) = (client, BusyPages())
    }

    // MARK: Page loads

    /// Opens the page of the running or the prepared client.
    private mutating func open(_ load: PageLoad) throws {
        if let launched, launched.name == prepared?.name {
            if load.takesNext {
                trial?.isLoaded(at: now)
                expected?.isLoaded(at: now)
            }
            return
        }
        guard audience != .nobody, let prepared else { throw ShellError.notStarted }
        // Guests see the seed only, whatever was prepared for users. A client that may no longer run does not begin.
        let isForGuests = audience == .guests
        guard !isForGuests || prepared.name == .embedded, let launch = try disk.begin(prepared, forGuests: isForGuests)
        else {
            try prepare()
            return try open(load)
        }
        (launched, failure, pageErrors, busy, isBlank) = (launch, nil, [], BusyPages(), false)
        if next?.name == launch.name { next = nil }
        let start = Trial(timeout, visibility, at: now)
        trial = launch.isTrial ? start : nil
        expected = launch.isTrial || launch.name == .embedded ? nil : start
        effects.append(.report(.launched(launch.name, isTrial: launch.isTrial)))
        try open(load)
    }

    // MARK: Readings of the store

    /// Reads the store and acts on its changes. Then does what `occasion` asks for, also after an error.
    private mutating func read(for occasion: Occasion) throws {
        if let pending, disk.settle(pending.verdict, pending.launch) { self.pending = nil }
        if audience == .everybody, let launched, !launched.isRecorded { self.launched = disk.record(again: launched) }
        var trouble: (any Error)?
        do {
            let store = try disk.read(for: audience, running: launched?.name, without: silent)
            if isNews(store) { try follow(store, for: occasion) }
        } catch {
            trouble = error
        }
        try proceed(with: occasion, after: trouble)
    }

    /// Returns whether the store differs from that of the last reading, or has to be acted on again.
    private mutating func isNews(_ store: StoreReading) -> Bool {
        busyLimit = store.busyLimit
        busy.inspected(at: now, limit: busyLimit)
        retry = nil
        if let choice = store.choice, case .retry(let failure) = choice.reason, choice.name != launched?.name {
            retry = WaitingClient(choice.name, failure)
        }
        if store.ledger == ledger { return false }
        ledger = store.ledger
        missingShell = store.missingShell
        urgent = store.isUrgent ? store.choice?.name : nil
        if store.recall != nil, failure == nil, busy.holdsRecall(at: now, limit: busyLimit) {
            // The next reading acts on the recall, when the page is no longer busy or its limit has passed.
            ledger = nil
            return false
        }
        return true
    }

    /// Prepares the client that the store now selects. A failed client is not offered to the page that follows it: its retry comes with a
    /// check after a pause (`RetryRule`), with an operator's request, or with the next start.
    private mutating func follow(_ store: StoreReading, for occasion: Occasion) throws {
        guard let choice = store.choice else { return }
        guard let launched else {
            if choice.name != prepared?.name { try prepare() }
            return
        }
        // Between a reload and its page nothing is decided.
        guard launched.name == prepared?.name else { return }
        if let failure { return try leave(.failed(failure)) }
        if let reason = store.recall { return try leave(.recalled(reason)) }
        if choice.name == launched.name { next = nil }
        if choice.name == launched.name || choice.name == next?.name { return }
        if case .retry = choice.reason, !mayRetry(choice.name, occasion) { return }
        let ready = try disk.prepare(forGuests: audience == .guests, without: silent, for: .next)
        if ready.client.name == launched.name { return }
        next = ready.client
        effects.append(.report(.updateAvailable(ready.client.name)))
    }

    private func mayRetry(_ name: ClientName, _ occasion: Occasion) -> Bool {
        if trial != nil { return false }
        switch occasion {
        case .request(let request): return request.client == name
        case .retry:
            let time = failed.flatMap { $0.name == name ? $0.at : nil }
            return RetryRule.answer(failedAt: time, now: now, pause: retryPause) == .offered
        case .nothing, .activate, .reload, .load: return false
        }
    }

    private mutating func proceed(with occasion: Occasion, after error: (any Error)? = nil) throws {
        // A client on trial keeps its time to confirm. A failed change reports its own error.
        if occasion.isIdle, error == nil, trial == nil, let next, mayShow(next, occasion) {
            return try show(next, for: occasion)
        }
        report(error)
        switch occasion {
        case .nothing, .retry, .activate, .request: return
        case .reload:
            if let next { return try show(next, for: occasion) }
            throw waiting.map { ShellError.awaitsSecondTrial($0.message) } ?? .noPendingVersion
        case .load(let load):
            guard let next, load.takesNext, mayChange(load), !isBusy else { return try open(load) }
            try show(next, for: occasion)
        }
    }

    /// Returns whether `client` replaces the running one without a request of a page.
    private func mayShow(_ client: Prepared, _ occasion: Occasion) -> Bool {
        if case .request(let request) = occasion, request.client == client.name {
            return !(request.waitsForBusyPages && isBusy)
        }
        return !isBusy && (occasion == .activate || client.name == urgent)
    }

    /// Returns whether a page is busy at the clock's reading `now`.
    func isBusy(at now: Duration) -> Bool { busy.holds(at: now, limit: busyLimit) }

    private var isBusy: Bool { isBusy(at: now) }

    /// Returns whether the load may show another client. Urgent releases ignore activation windows.
    private func mayChange(_ load: PageLoad) -> Bool {
        load.mayChange || next.map { $0.name == urgent } ?? false
    }

    /// Reports an error once, though the store is read twice a second. Each reading tries again.
    private mutating func report(_ error: (any Error)?) {
        let before = trouble
        trouble = error.map { UpdateFailure($0) }
        guard let trouble else { return }
        ledger = nil
        if trouble != before { effects.append(.report(.failed(trouble))) }
    }

    // MARK: Other clients

    /// Shows `client` instead of the running one.
    private mutating func show(_ client: Prepared, for occasion: Occasion) throws {
        do {
            try disk.show(client)
        } catch {
            // A client whose start fails here is available again after its retry pause; the running client stays.
            if client.name == next?.name, StartFailure.isOfClient(error) { next = nil }
            switch occasion {
            case .reload: throw error
            case .load(let load):
                report(error)
                return try open(load)
            case .nothing, .retry, .activate, .request: return report(error)
            }
        }
        (prepared, next, retry, trouble) = (client, nil, nil, nil)
        if case .load(let load) = occasion { try open(load) } else { effects.append(.reload) }
    }

    /// Replaces the running client, which failed or must not run.
    private mutating func leave(_ departure: Departure) throws {
        let ready: ReadyForPage<Prepared>
        do {
            ready = try disk.prepare(forGuests: audience == .guests, without: silent, for: departure.use)
        } catch {
            if case .failed(let failure) = departure { (self.failure, unprepared) = (failure, UpdateFailure(error)) }
            throw error
        }
        guard let name = launched?.name else { return }
        replace(by: ready.client)
        let reason = reason(departure, leaving: name, for: ready.client.name)
        effects += [.report(.rolledBack(name, to: ready.client.name, reason)), .reload]
    }

    /// Replaces the running client without a reading of the store.
    private mutating func leaveNow(_ departure: Departure) {
        do {
            try leave(departure)
            report(nil)
        } catch {
            report(error)
        }
    }

    // MARK: Events of pages

    /// Applies an event of a page whose launch has `token`.
    private mutating func apply(_ event: PageInput, of token: LaunchToken) throws {
        switch event {
        case .confirm:
            // The verdict is written at once and includes the report.
            _ = firstReport(token)
            try confirm(token)
        case .confirmEmpty:
            guard failsBlank(token) else { return try confirmUnfilled(token) }
            trial?.awaitContent(at: now)
            recordReport(token)
        case .confirmBlank: try confirmBlank(token)
        case .fail(let what): try fail(token, .reported, what)
        case .failTrial(let what):
            recordReport(token)
            try failTrial(token, what)
        case .lose(let what):
            guard let launched, launched.token == token, trial != nil else { return }
            if try confirmUnseen(launched) { return }
            if hasPageReported { try fail(token, .reported, what) } else { try leaveSilentClient(launched) }
        case .leave(let place, let report):
            guard let launched, launched.token == token else { return }
            busy.leave(load: report.load)
            // Only its timeout decides a second trial, and that continues.
            if !launched.wasReportedFailed { trial?.leave(for: place, report, at: now) }
            expected?.leave(for: place, report, at: now)
            recordReport(token)
            try confirmUnseen(launched)
        case .vanish(let load):
            guard let launched, launched.token == token else { return }
            busy.leave(load: load)
            if !launched.wasReportedFailed { trial?.vanish(load: load, at: now) }
            expected?.vanish(load: load, at: now)
            try confirmUnseen(launched)
        case .error(let text, let isGrave): addPageError(text, of: token, isGrave: isGrave)
        case .show(let isShown, let report):
            guard let launched, launched.token == token else { return }
            trial?.show(isShown, report, at: now)
            expected?.show(isShown, report, at: now)
            recordReport(token)
            if !isShown { try confirmUnseen(launched) }
        case .busy(let isBusy, let report, let mayActivate):
            guard token == launched?.token else { return }
            busy.report(isBusy, load: report.load, number: report.number, at: now)
            if !isBusy { try read(for: mayActivate ? .activate : .nothing) }
        }
    }

    private mutating func timerFired() throws {
        guard let launched else { return }
        switch trial?.wake(at: now, afterReports: hasPageReported) {
        case .failed(let cause, let what)?: return try fail(launched.token, cause, what)
        case .silent?: return try leaveSilentClient(launched)
        case .confirmed?: return try confirm(launched.token)
        case nil: break
        }
        guard case .failed(_, let what)? = expected?.wake(at: now, afterReports: true) else { return }
        expected = nil
        effects.append(.report(.unconfirmed(launched.name, what)))
    }

    private mutating func addPageError(_ text: String, of token: LaunchToken, isGrave: Bool) {
        guard let launched, launched.token == token, pageErrors.count < Self.mostPageErrors,
            pageErrors.insert(text).inserted
        else { return }
        if isGrave { trial?.addPageError(text) }
        effects.append(.report(.complained(launched.name, text)))
    }

    /// Notes that a page with `token` has reported, so a browser runs the pages of this shell. From now on silence is a
    /// failure of the running client, and clients that were skipped for their silence are available again.
    ///
    /// Returns the launch if the ledger still has to record its first report.
    private mutating func firstReport(_ token: LaunchToken) -> Launch? {
        guard let launched, launched.token == token else { return nil }
        hasPageReported = true
        if !silent.isEmpty { (silent, ledger) = ([], nil) }
        return trial?.recordReport() == true && launched.isRecorded ? launched : nil
    }

    private mutating func recordReport(_ token: LaunchToken) {
        if let launch = firstReport(token) { disk.recordReport(launch) }
    }

    /// Replaces a client whose page was loaded and never reported, while no page of another client has. The browser may show
    /// something other than the page, so there is no verdict.
    private mutating func leaveSilentClient(_ launch: Launch) throws {
        silent.insert(launch.name)
        if launch.isRecorded { try write(.abandoned, launch) }
        leaveNow(.silent)
    }

    // MARK: Verdicts

    /// Applies a failure that the page reports itself. It fails one start of a client. Only the timeout decides a second trial,
    /// so a program that imitates the page cannot block a client.
    private mutating func failTrial(_ token: LaunchToken, _ what: String) throws {
        let launched = try running(token)
        if trial == nil { throw ShellError.notOnTrial }
        if launched.wasReportedFailed {
            addPageError(what, of: token, isGrave: true)
        } else {
            try fail(token, .reported, "the page said: \(what)")
        }
    }

    private mutating func confirm(_ token: LaunchToken) throws {
        let launched = try running(token)
        if let failure { throw Self.tooLate(launched.name, failure) }
        expected = nil
        // The startup timeout ends with the confirmation, and the trial with the check.
        if trial != nil, checksHealth || launched.requiresEndpoints {
            if trial?.confirm(at: now) == true { effects.append(.checkHealth(launched)) }
            return
        }
        if isBlank {
            isBlank = false
            effects.append(.report(.blank(launched.name, isOver: true)))
        }
        // A launch without a record is of a confirmed client. A pending verdict came before this confirmation.
        if launched.isRecorded, pending?.launch.token != token { try write(.good, launched) }
    }

    /// Confirms the start of a page that waits for the looks at its empty screen, because without a visible page they have no result.
    /// Returns whether it waited.
    @discardableResult
    private mutating func confirmUnseen(_ launch: Launch) throws -> Bool {
        guard trial?.endLook() == true else { return false }
        try confirm(launch.token)
        return true
    }

    /// Confirms the start of a page that shows nothing, without an event about its screen.
    private mutating func confirmUnfilled(_ token: LaunchToken) throws {
        let wasBlank = isBlank
        isBlank = false
        defer { isBlank = wasBlank }
        try apply(.confirm, of: token)
    }

    /// Whether a blank screen fails the launch with `token`.
    private func failsBlank(_ token: LaunchToken) -> Bool {
        token == launched?.token && trial != nil && failure == nil && blankScreens == .fail
    }

    /// Applies the result that the screen of a page stayed blank. As for the failures that a page reports, only the timeout decides a
    /// second trial.
    private mutating func confirmBlank(_ token: LaunchToken) throws {
        guard let launched, failsBlank(token) else {
            try confirmUnfilled(token)
            guard let launched, launched.token == token, failure == nil, blankScreens != .allow, !isBlank else {
                return
            }
            isBlank = true
            return effects.append(.report(.blank(launched.name, isOver: false)))
        }
        if launched.wasReportedFailed {
            trial?.noteBlankScreen()
        } else {
            try fail(token, .blankScreen, Trial.blankScreen)
        }
    }

    /// Returns the running launch; throws if `token` is of another one.
    private func running(_ token: LaunchToken) throws -> Launch {
        guard let launched else { throw ShellError.notStarted }
        guard token == launched.token else { throw Self.foreignToken(running: launched.name) }
        return launched
    }

    /// Ends a trial whose page has confirmed its start. The result for an earlier launch is ignored.
    private mutating func healthChecked(_ result: HealthResult, _ token: LaunchToken) throws {
        guard let launched, launched.token == token, trial != nil, failure == nil, pending?.launch.token != token
        else { return }
        switch result {
        case .passed: try write(.good, launched)
        case .failed(let reason): try fail(token, .reported, reason)
        }
    }

    /// Fails the launch: the ledger records it first, then another client is shown in the same window.
    private mutating func fail(_ token: LaunchToken, _ cause: StartFailure.Cause, _ what: String) throws {
        guard let launched, launched.token == token else { return }
        if let failure { return leaveNow(.failed(failure)) }
        if pending?.launch.token == token { return }
        let detail = trial?.failureDetail.map { "; the page said: \($0)" } ?? ""
        trial = nil
        failed = (launched.name, at: now, consequence: nil)
        let failure = StartFailure(cause, detail: what + detail, at: time, retryAt: retryTime)
        try write(.faulty(failure), launched)
    }

    /// The end of the retry pause that begins now, rounded up to whole seconds.
    private var retryTime: Timestamp {
        let (seconds, fraction) = retryPause.components
        let pause = Int(min(seconds, Int64(Timestamp.latestSecond))) + (fraction > 0 ? 1 : 0)
        return Timestamp(clamping: time.secondsSinceEpoch + pause)
    }

    /// Writes a verdict. A full disk neither keeps a broken client on the screen nor undoes a confirmed one: the verdict takes effect at
    /// once and is written when the disk accepts it.
    private mutating func write(_ verdict: LaunchVerdict, _ launch: Launch) throws {
        let writing = disk.write(verdict, launch)
        switch (writing, verdict) {
        case (.failed(let error), .good): throw error
        case (.failed(let error), _): return effects.append(.report(.failed(UpdateFailure(error))))
        case (.refused(let refusal), .abandoned): effects.append(.report(.failed(refusal)))
        case (.refused(let refusal), _):
            pending = (verdict, launch)
            effects.append(.report(.failed(refusal)))
        case (.done(_, let consequence), _): failed?.consequence = consequence
        }
        switch verdict {
        case .good:
            let errors = trial?.errorCount ?? 0
            trial = nil
            if case .done(wasKnown: true, _) = writing { return }
            effects.append(.report(.confirmed(launch.name)))
            if errors > 0 {
                let warning = "it confirmed its start after it had reported \(counted(errors, "error"))"
                effects.append(.report(.complained(launch.name, warning)))
            }
            effects.append(.retain)
        case .faulty(let failure): leaveNow(.failed(failure))
        case .abandoned: return
        }
    }

    // MARK: Messages

    /// Returns the reason for the change from `name` to `other`, with the consequence for `name`.
    private func reason(_ departure: Departure, leaving name: ClientName, for other: ClientName) -> UpdateFailure {
        switch departure {
        case .failed(let failure) where failure.cause == .blankScreen && name != other:
            UpdateFailure(
                .blankScreen, subject: "\(name)",
                "\(name) was rolled back to \(other): \(failure).\(consequence(of: failure))")
        case .failed(let failure):
            UpdateFailure(
                .healthFailed, subject: "\(name)",
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

extension ShellState {
    /// A request to the shell, or a report about its page.
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
        /// The time of `Effect.setTimer` has come.
        case timerFired
        /// The result of `Effect.checkHealth` for the launch with this token.
        case healthChecked(HealthResult, LaunchToken)
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

    /// The result of an event.
    struct Response {
        var effects: [Effect] = []
        /// The error for the caller of the event.
        var refusal: (any Error)?
    }

    /// An instruction to the caller.
    enum Effect {
        /// Check the health of the launch, whose page has confirmed its start.
        case checkHealth(Launch)
        /// Remove older clients.
        case retain
        case report(ShellEvent)
        /// Reload the page.
        case reload
        /// Send `timerFired` at this reading of the clock instead of an earlier request; nil cancels it.
        case setTimer(at: Duration?)
    }

    /// A page that is about to load.
    struct PageLoad: Equatable {
        /// Whether a user will see the page. Such a load shows the client that is ready.
        let takesNext: Bool
        /// Whether an activation window is open.
        let mayChange: Bool
    }

    /// The reason for a reading of the store.
    private enum Occasion: Equatable {
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

    /// The reason why a client is replaced.
    private enum Departure {
        case failed(StartFailure)
        case recalled(String)
        /// No page has ever reported.
        case silent

        var use: PreparedUse { if case .silent = self { .otherThanSilent } else { .page } }
    }
}

/// The store and the web view of a shell, as `ShellState` needs them.
protocol ShellDisk {
    associatedtype Launch: BootAttempt

    /// Returns the best client. The clients in `silent` come last, because their pages never reported.
    mutating func prepare(
        forGuests: Bool, without silent: Set<ClientName>, for use: PreparedUse
    ) throws -> ReadyForPage<Launch.Prepared>
    /// Passes a client that was prepared as the next one to the web view.
    mutating func show(_ client: Launch.Prepared) throws
    /// Records the boot attempt; one for guests is not recorded. Returns nil if the client may no longer run.
    mutating func begin(_ client: Launch.Prepared, forGuests: Bool) throws -> Launch?
    /// Returns the launch after another attempt to record it.
    mutating func record(again launch: Launch) -> Launch
    /// Records that a page of the launch has reported.
    mutating func recordReport(_ launch: Launch)
    mutating func write(_ verdict: LaunchVerdict, _ launch: Launch) -> VerdictWriting
    /// Writes a verdict that the disk refused before. Returns true if it needs no further attempt.
    mutating func settle(_ verdict: LaunchVerdict, _ launch: Launch) -> Bool
    mutating func read(
        for audience: ClientShell.Audience, running: ClientName?, without silent: Set<ClientName>
    ) throws -> StoreReading
}

/// The use of a prepared client.
enum PreparedUse {
    /// The next page shows it, so it is passed to the web view.
    case page
    /// As `page`, but none of the silent clients.
    case otherThanSilent
    /// It could replace the running one.
    case next
}

/// A prepared client, and the shell version that a better one needs.
struct ReadyForPage<Client: Sendable>: Sendable {
    let client: Client
    let missingShell: SemanticVersion?
}

/// The facts of the store that the decisions of a shell use.
struct StoreReading {
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

/// The verdict on a launch.
enum LaunchVerdict: Equatable {
    case good
    case faulty(StartFailure)
    /// The shell itself ended the launch.
    case abandoned
}

/// The result of writing a verdict.
enum VerdictWriting {
    /// The verdict is on the disk. It was there before if `wasKnown`.
    case done(wasKnown: Bool, LaunchConsequence? = nil)
    /// The disk accepts no writes.
    case refused(UpdateFailure)
    case failed(any Error)
}

/// The consequence of a failed start for an installed client.
enum LaunchConsequence: Equatable {
    /// The client is tried once more.
    case retried
    /// The client has failed `count` times and does not run again.
    case blocked(count: Int)
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
