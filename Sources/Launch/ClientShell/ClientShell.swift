public import BundleCore
import BundleDisk
import BundlePlatform
import BundleThreads
public import BundleValues

/// What a shell embeds: it launches the client, watches its start, takes it back when it fails, and reports new versions.
///
/// Call `start`, then `run` for as long as the shell lives, and `pageWillLoad` before every load of the client's page.
/// `ShellState` decides; the actor carries out what it says, one event at a time and without a pause in one.
public actor ClientShell {
    /// Who looks at the screen.
    public enum Audience: Sendable, Equatable {
        /// Whoever may see every client.
        case everybody
        /// Guests: the seed is for them, and nothing else.
        case guests
        /// Nobody: nothing is shown.
        case nobody
    }

    private let configuration: ShellConfiguration
    private let bridge: any ShellBridge
    private let clock: any Clock<Duration>
    private let reading: @Sendable () -> Duration
    private let localTime: @Sendable () -> ActivationWindows.LocalTime
    private let now: @Sendable () -> Timestamp
    private let thread: ShellThread
    private let remover: RemovalThread
    private let warn: @Sendable (String) -> Void
    private var launcher: Launcher
    private var verdicts: Verdicts
    private var work: ShellWork
    private let checks: UpdateChecks
    private let observers: AsyncStream<ShellEvent>.Continuation

    /// What happens, in order; the newest hundred events wait for a slow observer.
    public nonisolated let events: AsyncStream<ShellEvent>

    private var state: ShellState<Launched>
    private static let pause = Duration.milliseconds(500)
    /// Nil until the shell runs.
    private var pulse: Pulse?
    private var wakeUp: Task<Void, Never>?
    /// Removes older clients, one removal after the other.
    private var isStoreLost = false
    private var removal: Task<Void, Never>?
    /// What the feed said last of an offer that this device cannot take, which the next check will say again.
    private var standing: UpdateFailure?

    /// The actor runs on a thread of its own.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    /// Opens the store; `storeLocked` where another shell runs on it. `update` brings new releases, `bridge` is the web view's
    /// side, `clock` counts the time that a start takes. `random` draws from a range, `localTime` is the device's own
    /// clock where nil, `now` is what the ledger says about when.
    public init(
        _ configuration: ShellConfiguration, update: UpdateStep?, bridge: any ShellBridge,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        localTime: (@Sendable () -> ActivationWindows.LocalTime)? = nil,
        now: @escaping @Sendable () -> Timestamp = { .now },
        warn: @escaping @Sendable (String) -> Void
    ) throws {
        self.configuration = configuration
        self.bridge = bridge
        self.warn = warn
        self.clock = clock
        reading = Self.reading(of: clock)
        self.localTime = localTime ?? { .now }
        self.now = now
        checks = UpdateChecks(update, configuration.polling, clock: clock, reading: reading, random: random)
        thread = try ShellThread()
        remover = try RemovalThread()
        launcher = try Launcher(configuration.device, now: now, warn: warn)
        verdicts = try Verdicts(store: configuration.device.store, now: now, warn: warn)
        work = ShellWork(launcher, verdicts, bridge, configuration.visibility)
        (events, observers) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(100))
        state = Self.state(configuration)
    }

    private static func state(_ configuration: ShellConfiguration) -> ShellState<Launched> {
        ShellState(
            timeout: configuration.startupTimeout, visibility: configuration.visibility,
            retryPause: configuration.retryPause)
    }

    private static func reading<Ticking: Clock<Duration>>(of clock: Ticking) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }

    // MARK: What a shell calls

    /// Chooses the client and hands its serving root to the bridge. No boot attempt is written before a page loads.
    public func start() throws { try handle(.start) }

    /// Who looks at the screen from now on: what others have been shown is left, without a verdict, and nothing of it is shown
    /// again. Throws why there is nothing to show; it is looked for again with every change of the store.
    ///
    /// Returns the shell that the best client needs, where this one is too old for it.
    @discardableResult
    public func admit(_ audience: Audience) throws -> SemanticVersion? {
        try handle(.admit(audience))
        return missingShell
    }

    /// A session ended: no page is busy any more, and the launch goes on. The caller refuses what pages of that session say from now on.
    public func sessionDidEnd() { _ = carryOut(.sessionEnded) }

    /// The shell ends in good order: a client on trial has neither failed nor proved itself. Nothing is shown any more.
    public func stop() async {
        _ = carryOut(.admit(.nobody))
        await removed()
    }

    /// Whether a seed was named, which guests see. It may be damaged.
    package nonisolated var hasSeed: Bool { configuration.device.seed != nil }

    /// Waits until older clients are gone, where a start that was confirmed has them removed.
    package func removed() async { await removal?.value }

    /// Whether the device has no client of its own and waits for the first one of its feed.
    package var waitsForFirstClient: Bool {
        !hasSeed && checks.isPolling && (try? launcher.inventory().bundles.isEmpty) == true
    }

    /// Checks for updates as `PollRule` says, at once where there is nothing to show, and looks for what other processes do to the
    /// store, until it is cancelled.
    public func run() async {
        if state.audience == .everybody, state.prepared == nil { await checks.want(within: .zero) }
        await withTaskGroup { group in
            group.addTask { await self.watchStore() }
            if clock is SuspendingClock { group.addTask { await self.feelPulse() } }
            group.addTask { await self.checks.run { _ = await self.check() } }
            await group.waitForAll()
        }
    }

    /// Whether the process stood still since it was asked last.
    private func beat() {
        guard let time = pulse?.beat(at: reading()) else { return }
        _ = carryOut(.stoodStill(time))
    }

    private func feelPulse() async {
        pulse = Pulse(every: Self.pause, from: reading())
        while (try? await clock.sleep(for: Self.pause)) != nil { beat() }
    }

    private func watchStore() async {
        while !Task.isCancelled {
            followStore()
            _ = carryOut(.tick(mayActivate: configuration.activation?.isOpen(at: localTime()) == true))
            do { try await clock.sleep(for: configuration.storeInterval) } catch { return }
        }
    }

    /// A store that was removed and made anew is another folder under the same path: what is shown comes from that one.
    private func followStore() {
        guard !isStoreLost, launcher.isReplaced else { return }
        do {
            let device = configuration.device
            let launcher = try Launcher(device, now: now, warn: warn)
            verdicts = try Verdicts(store: device.store, now: now, warn: warn)
            self.launcher = launcher
            work = ShellWork(launcher, verdicts, bridge, configuration.visibility)
            let audience = state.audience
            state = Self.state(configuration)
            warn("The store \(device.store) is another one than before: its clients are shown from now on.")
            if audience == .everybody { try handle(.start) } else { try handle(.admit(audience)) }
            bridge.reload()
        } catch {
            // A process that is held to the folders that it began with has no right in another one.
            isStoreLost = true
            let reason = UpdateFailure(error)
            observers.yield(
                .failed(UpdateFailure(reason.code, subject: reason.subject, "\(reason.message) Restart the shell.")))
        }
    }

    /// The launch that the page about to load belongs to: the running one, or a new one whose boot attempt is on the disk
    /// when this returns.
    ///
    /// Where the load `takesNext`, somebody loads the page to see it, and gets the client that is ready, if there is one.
    /// Outside of the activation windows nothing changes: what runs stays, whoever loads its page.
    public func pageWillLoad(takesNext: Bool = false) throws -> Launched {
        let mayChange = configuration.activation?.isOpen(at: localTime()) != false
        try handle(.load(.init(takesNext: takesNext, mayChange: mayChange)))
        guard let launched = state.launched else { throw ShellError.notStarted }
        return launched
    }

    /// The shell has seen the client of the launch with `token` fail; nothing happens where another one runs by now.
    public func startupDidFail(_ token: LaunchToken, _ what: String) { _ = carryOut(.fail(token, what)) }

    /// A page says that its start has failed, which counts on trial only, and once for each client. Throws why it does not.
    public func pageDidFail(_ token: LaunchToken, _ what: String) throws { try handle(.failTrial(token, what)) }

    /// The page on the screen is lost, for the reason `what`. A client on trial has failed by it, unless no page has ever reported to this shell:
    /// then another client is shown, and there is no verdict.
    public func pageIsLost(_ token: LaunchToken, _ what: String) { _ = carryOut(.lose(token, what)) }

    /// The page of the launch with `token` leaves for `place`; on trial, another one has to follow.
    public func pageDidLeave(_ token: LaunchToken, for place: String, _ report: PageReport) {
        _ = carryOut(.leave(token, UntrustedName.display(place), report))
    }

    /// What a page complains of, for an event, once each; of a page that has not confirmed its start the first `isGrave` ones are
    /// kept as evidence.
    public func pageDidReport(_ token: LaunchToken, _ complaint: String, isGrave: Bool = true) {
        _ = carryOut(.complain(token, UntrustedName.display(complaint, limit: 400), isGrave: isGrave))
    }

    /// The client of the launch with `token` is no longer in front of anybody: its time stands still. A `report` counts if it is
    /// the newest of the youngest page.
    public func pageDidHide(_ token: LaunchToken, _ report: PageReport? = nil) {
        _ = carryOut(.show(token, false, report))
    }

    /// It is in front again.
    public func pageDidShow(_ token: LaunchToken, _ report: PageReport? = nil) {
        _ = carryOut(.show(token, true, report))
    }

    /// Somebody is in the middle of something with the page, or `isBusy` no longer: for as long as its channel allows nothing is shown in its
    /// place by itself. Ten minutes are allowed where the channel does not say.
    public func pageIsBusy(_ token: LaunchToken, _ isBusy: Bool, _ report: PageReport) {
        let mayActivate = configuration.activation?.isOpen(at: localTime()) == true
        _ = carryOut(.busy(token, isBusy, report, mayActivate: mayActivate))
    }

    // MARK: What a page may call

    /// The client that is shown; nil before the first page.
    public var currentVersion: ClientName? { state.launched?.name }

    /// The client that the next page load launches or shows.
    public var nextLaunch: ClientName? { state.prepared?.name }

    /// Whether `token` is that of the launch that runs.
    public func isCurrent(_ token: LaunchToken) -> Bool { state.launched?.token == token }

    /// Whether another client is ready to be shown. Asks no network.
    public var isUpdateAvailable: Bool { state.next != nil }

    /// The shell that the best client needs, be it here or only offered, where this one is too old for it.
    public var missingShell: SemanticVersion? { [state.missingShell, standing?.neededShell].compactMap(\.self).max() }

    /// The client that `reload` would show.
    public var availableVersion: ClientName? { state.next?.name }

    /// Checks for an update and brings it into the store. A client that failed once becomes available again. Throws, and reports
    /// in an event, why the check failed.
    ///
    /// A shell without an update step looks at the store only, which others fill.
    public func checkForUpdates() async throws {
        if let failure = await check() { throw failure }
    }

    /// Checks for an update at a random moment within `limit`, or within the jitter that the channel asks for: somebody said
    /// that there is one. Returns at once; a shell that does not poll does not check.
    public func checkSoon(within limit: Duration? = nil) async { await checks.want(within: limit) }

    /// The same within the jitter that the channel asks for, and within a minute where somebody says that it is urgent.
    package func checkSoon(isUrgent: Bool) async { await checks.want(within: nil, isUrgent: isUrgent) }

    private func check() async -> UpdateFailure? {
        // The store is locked while older clients go, and nobody else is to be told so.
        await removed()
        let result = await checks.update()
        let failure = result.failures.first.map { UpdateFailure($0) }
        let isAnswered = failure.map(Self.stands) ?? true
        // The feed has answered; nothing is to be done until it offers something else, and that was said.
        if let failure, failure != standing { observers.yield(.failed(failure)) }
        if isAnswered { standing = failure }
        // What one channel has brought counts, whatever became of the others.
        if failure == nil || result.hasResponse { _ = carryOut(.inspect(retrying: true)) }
        observers.yield(.checked(isAnswered ? nil : failure, next: await checks.ended(result)))
        removeUnused()
        return failure
    }

    /// Whether this will be said of the same offer at every check.
    private static func stands(_ failure: UpdateFailure) -> Bool {
        failure.code == .versionBlocked || failure.code == .incompatibleShell
    }

    /// The page whose launch has `token` confirms its start. Refused with any other token.
    public func startupDidComplete(_ token: LaunchToken) async throws {
        try handle(.confirm(token))
    }

    /// Removes what was in use when the last start was confirmed, after a check, while no start is on trial.
    private func removeUnused() {
        guard state.launched?.isTrial == false, let inventory = try? launcher.inventory() else { return }
        if !RetentionRule.plan(inventory, keep: configuration.keep).removed.isEmpty { removeOlder() }
    }

    /// Removes older clients on a thread of their own: the page that has just confirmed its start waits for its answer, and on one
    /// processor the tasks of the whole program share one thread. The next check waits for the removal.
    private func removeOlder() {
        removal = Task(executorPreference: remover) { [verdicts, keep = configuration.keep, before = removal] in
            await before?.value
            _ = await verdicts.retain(keep)
        }
    }

    /// Shows the client that is ready. Without one: `noPendingVersion`, and nothing changes.
    public func reload() throws { try handle(.reload) }

    // MARK: Other clients

    /// Every client that could be shown: the seed first, if the shell brings one.
    public func clientNames() throws -> [ClientName] {
        (hasSeed ? [.embedded] : []) + (try launcher.inventory().bundles.map(\.name))
    }

    /// The application that the Meteor bundle which runs names, or the seed; nil where neither is one.
    public func meteorAppId() throws -> String? { try launcher.inventory().ledger.meteorFacts?.appId }

    /// The client that is shown, or will be, and its index page; nil where there is none.
    public func shownPage() throws -> (name: ClientName, page: [UInt8])? {
        try state.prepared.map { ($0.name, try $0.client.root.page()) }
    }

    /// A client to look at, without a launch; nil where there is none of that name or it must not run.
    public func client(named name: ClientName) throws -> ReadyClient? { try launcher.ready(name) }

    // MARK: Events and actions

    /// What an event came to.
    private struct Outcome {
        var refusal: (any Error)?
    }

    private func handle(_ event: ShellState<Launched>.Event) throws {
        if let refusal = carryOut(event).refusal { throw refusal }
    }

    private func carryOut(_ event: ShellState<Launched>.Event) -> Outcome {
        var outcome = Outcome()
        carryOut(event, &outcome)
        return outcome
    }

    private func carryOut(_ event: ShellState<Launched>.Event, _ outcome: inout Outcome) {
        let before = status
        let actions = state.handle(event, at: reading(), now())
        if status != before { bridge.update(status) }
        for action in actions {
            switch action {
            case .refuse(let error): outcome.refusal = error
            case .retain: removeOlder()
            case .report(let event): observers.yield(event)
            case .reload: bridge.reload()
            case .wake(let moment): wake(at: moment)
            case .inspect(let request, let sequel):
                carryOut(.inspected(work.inspect(request), sequel), &outcome)
            case .prepare(let goal, let forGuests, let silent):
                carryOut(work.prepare(goal, forGuests: forGuests, without: silent), &outcome)
            case .note(let launched): work.note(launched)
            case .begin(let client, let forGuests, let load):
                carryOut(work.begin(client, forGuests: forGuests, load), &outcome)
            case .write(let verdict, let launched):
                carryOut(.written(verdict, launched, work.write(verdict, launched)), &outcome)
            }
        }
    }

    private var status: ShellStatus {
        ShellStatus(token: state.launched?.token, current: state.launched?.name, available: state.next?.name)
    }

    private func wake(at moment: Duration?) {
        wakeUp?.cancel()
        guard let moment else { return }
        let left = moment - reading()
        wakeUp = Task { [clock] in
            do { try await clock.sleep(for: left) } catch { return }
            self.beat()
            _ = self.carryOut(.woken)
        }
    }
}

/// Runs an actor on a thread of its own, so that what it does to the disk blocks nobody else.
private final class ShellThread: SerialExecutor {
    private let worker: SerialWorker

    init() throws(ThreadFailure) {
        worker = try SerialWorker()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        worker.submit { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}

/// A thread that works on files for as long as they take, while no thread of the tasks' pool waits.
private final class RemovalThread: TaskExecutor {
    private let worker: SerialWorker

    init() throws(ThreadFailure) { worker = try SerialWorker() }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        worker.submit { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// What an observer sees of a shell.
public enum ShellEvent: Sendable, Equatable {
    /// Another client is ready to be shown; `reload` shows it.
    case updateAvailable(ClientName)
    /// Something failed; the client that runs is not touched by it.
    case failed(UpdateFailure)
    /// A check for updates is over, for this reason if it failed; the next one comes after that time at the latest, nil where none
    /// is planned.
    case checked(UpdateFailure?, next: Duration?)
    /// A client is shown; on trial it has to confirm its start.
    case launched(ClientName, isTrial: Bool)
    /// The client confirmed its start.
    case confirmed(ClientName)
    /// The client's page says that something went wrong in it.
    case complained(ClientName, String)
    /// A client that confirmed an earlier start has not confirmed this one in its time, and is shown all the same.
    case unconfirmed(ClientName, String)
    /// The client did not start; the other one is shown instead.
    case rolledBack(ClientName, to: ClientName, UpdateFailure)
}

/// What a page asked for and cannot have now.
public enum ShellError: String, ClassifiedFailure, Sendable {
    /// `reload` without another client to show.
    case noPendingVersion
    /// The shell has not launched a client yet.
    case notStarted
    /// A failed start of a client that is not on trial.
    case notOnTrial

    /// The public form; `subject` is the word.
    public var failure: UpdateFailure {
        let message =
            switch self {
            case .noPendingVersion: "There is no other client to show: check for updates first."
            case .notOnTrial: "The client that is shown is not on trial: only a start that is not confirmed can fail."
            case .notStarted: "The shell shows no client yet: start it first."
            }
        return UpdateFailure(.configInvalid, subject: rawValue, message)
    }
}

/// The web view's side: what a shell does for the client.
///
/// A `ClientShell` calls it on its own thread, one call at a time, and does nothing else until a call returns. So what is called
/// may block for a moment, but must not wait for the shell; `MainActorBridge` is for web views that live on the main thread.
public protocol ShellBridge: Sendable {
    /// Pages that are loaded from now on come from this client's serving root; pages that are shown keep theirs.
    func setServerBasePath(_ client: ReadyClient) throws
    /// Loads the page again. The shell's `pageWillLoad` is called before the first byte is shown, as for any load.
    func reload()
    /// What runs or could run has changed; called before anything that follows from it.
    func update(_ status: ShellStatus)
}

extension ShellBridge {
    /// For those that ask the shell instead.
    public func update(_ status: ShellStatus) {}
}

/// What of a shell its pages may know.
public struct ShellStatus: Sendable, Equatable {
    /// The token of the launch that runs; nil where none does.
    public let token: LaunchToken?
    /// The client that runs.
    public let current: ClientName?
    /// The client that could be shown in its place.
    public let available: ClientName?

    /// States what runs; nothing by default.
    public init(token: LaunchToken? = nil, current: ClientName? = nil, available: ClientName? = nil) {
        self.token = token
        self.current = current
        self.available = available
    }
}
