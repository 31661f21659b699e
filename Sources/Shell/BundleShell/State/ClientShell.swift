public import BundleCore
import BundleDisk
public import BundleValues

/// The launcher that a shell embeds: it launches the client, watches its start, rolls it back on failure, and reports new
/// versions.
///
/// Call `start`, then `run` for the lifetime of the shell, and `pageWillLoad` before every load of the client's page.
/// `ShellState` decides. The actor carries out its actions, one event at a time and without suspending within an event.
public actor ClientShell {
    /// The viewers of the screen.
    public enum Audience: Sendable, Equatable {
        /// Users who may see every client.
        case everybody
        /// Guests, who see the seed only.
        case guests
        /// No viewers: the shell shows nothing.
        case nobody

        /// Creates the audience of a device with this session.
        package init(_ session: SessionStatus) {
            self =
                switch session {
                case .notRequired, .authenticated: .everybody
                case .unauthenticated: .guests
                case .locked: .nobody
                }
        }
    }

    package nonisolated let configuration: ShellConfiguration
    private let bridge: any ShellBridge
    private let environment: Environment
    private let stopwatch: Stopwatch
    private let localTime: @Sendable () -> ActivationWindows.LocalTime
    private let thread: ShellThread
    private let remover: RemovalThread
    private(set) var launcher: Launcher
    /// Nil while there is no store.
    private var verdicts: Verdicts?
    let checks: UpdateChecks
    let observers: AsyncStream<ShellEvent>.Continuation

    /// The events of the shell in order. The newest thousand are kept for a slow observer.
    public nonisolated let events: AsyncStream<ShellEvent>

    private(set) var state: ShellState<ShellWork>
    private static let keptEvents = 1000
    private static let stallInterval = Duration.milliseconds(500)
    /// Nil until the shell runs.
    private var stalls: StallDetector?
    private var timer: Task<Void, Never>?
    private var isStoreLost = false
    private static let openingInterval = Duration.seconds(2)
    /// The time of the next attempt to open a store that does not open, and the reason of the last one.
    private var nextOpening = ClientShell.openingInterval
    private var lastRefusal: String?
    /// The removal of older clients. Removals run one after the other.
    private var removal: Task<Void, Never>?
    /// The last installation that was an event.
    private var lastInstalled: Ledger.Entry?
    /// The failure of the feed's present offer, which every check repeats.
    private var offerFailure: UpdateFailure?
    /// The failure of the last check, if the feed did not answer.
    package internal(set) var checkFailure: UpdateFailure?

    /// The actor runs on a separate thread.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    /// Opens the store. Throws `storeLocked` if another shell uses it.
    ///
    /// - Parameters:
    ///   - configuration: Describes the device.
    ///   - update: Downloads new releases; nil if another process fills the store.
    ///   - bridge: The side of the web view.
    ///   - environment: Measures the time of a start, dates the records of the ledger, and receives warnings.
    ///   - localTime: The time of the activation windows; the clock of the device by default.
    public init(
        _ configuration: ShellConfiguration, update: UpdateStep?, bridge: any ShellBridge,
        environment: Environment, localTime: @escaping @Sendable () -> ActivationWindows.LocalTime = { .now }
    ) throws {
        self.configuration = configuration
        self.bridge = bridge
        self.environment = environment
        self.localTime = localTime
        stopwatch = Stopwatch(environment.clock)
        checks = UpdateChecks(update, configuration.polling, environment, stopwatch)
        thread = try ShellThread()
        remover = try RemovalThread()
        (launcher, verdicts) = try Self.open(configuration, environment)
        (events, observers) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.keptEvents))
        state = Self.state(configuration, ShellWork(launcher, verdicts, bridge, configuration.visibility))
    }

    private static func open(
        _ configuration: ShellConfiguration, _ environment: Environment
    ) throws -> (Launcher, Verdicts?) {
        let device = configuration.device
        do {
            let launcher = try Launcher(device, environment: environment)
            return (launcher, try Verdicts(store: device.store, environment: environment))
        } catch  where configuration.waitsForStore {
            return (try Launcher(device, without: error, environment: environment), nil)
        }
    }

    private static func state(_ configuration: ShellConfiguration, _ work: ShellWork) -> ShellState<ShellWork> {
        ShellState(
            work, timeout: configuration.startupTimeout, visibility: configuration.visibility,
            retryPause: configuration.retryPause, checksHealth: configuration.healthCheck != nil,
            blankScreens: configuration.blankScreens)
    }

    // MARK: Lifetime

    /// Selects the client and passes it to the bridge. No boot attempt is recorded before a page loads.
    public func start() throws { try handle(.start) }

    /// Changes the audience. The launch of the former audience ends without a verdict, and its client is no longer shown.
    ///
    /// Returns the shell version that the best client needs, if this shell is older. Throws if there is nothing to show;
    /// each change of the store starts another attempt.
    @discardableResult
    public func admit(_ audience: Audience) throws -> SemanticVersion? {
        try handle(.admit(audience))
        return missingShell
    }

    /// Records the end of a session: no page is busy, and the launch continues. The caller has to refuse later calls from pages
    /// of that session.
    public func sessionDidEnd() { _ = carryOut(.sessionEnded) }

    /// Ends the shell. A client on trial is neither failed nor confirmed, and nothing is shown afterwards.
    public func stop() async {
        _ = carryOut(.admit(.nobody))
        await removed()
    }

    /// Checks for updates as `PollRule` plans, at once if there is nothing to show, and follows changes that other processes
    /// make to the store, until it is cancelled.
    public func run() async {
        if state.audience == .everybody, state.prepared == nil { await checks.request(within: .zero) }
        await withTaskGroup { group in
            group.addTask { await self.watchStore() }
            if environment.clock is SuspendingClock { group.addTask { await self.detectStalls() } }
            group.addTask { await self.checks.run { _ = await self.check() } }
            await group.waitForAll()
        }
    }

    private func checkForStall() {
        guard let time = stalls?.tick(at: stopwatch.elapsed) else { return }
        _ = carryOut(.stalled(time))
    }

    private func detectStalls() async {
        stalls = StallDetector(every: Self.stallInterval, from: stopwatch.elapsed)
        while (try? await environment.clock.sleep(for: Self.stallInterval)) != nil { checkForStall() }
    }

    private func watchStore() async {
        while !Task.isCancelled {
            followStore()
            let request = ActivationFile(store: configuration.device.store).pending()
            _ = carryOut(.tick(mayActivate: isInActivationWindow, request: request))
            do { try await environment.clock.sleep(for: configuration.storeInterval) } catch { return }
        }
    }

    /// Opens the store again if it was replaced by another folder at the same path, or could not be opened before.
    private func followStore() {
        if let refusal = launcher.refusal { return openStore(after: refusal) }
        guard !isStoreLost, launcher.isReplaced else { return }
        do {
            let device = configuration.device
            let launcher = try Launcher(device, environment: environment)
            let audience = use(launcher, try Verdicts(store: device.store, environment: environment))
            environment.log(
                "The store \(device.store) was replaced by another folder; its clients are shown from now on.")
            if audience == .everybody { try handle(.start) } else { try handle(.admit(audience)) }
            bridge.reload()
        } catch {
            // A sandboxed process has access only to the folders that existed when it started.
            isStoreLost = true
            let reason = UpdateFailure(error)
            observers.yield(
                .failed(UpdateFailure(reason.code, subject: reason.subject, "\(reason.message) Restart the shell.")))
        }
    }

    /// Tries to open the store, and logs each new reason why it does not open. Finds the seed meanwhile.
    private func openStore(after refusal: any Error) {
        if launcher.findSeed() {
            state.disk = ShellWork(launcher, nil, bridge, configuration.visibility)
            send(.inspect(retrying: true))
        }
        guard stopwatch.elapsed >= nextOpening else { return }
        nextOpening = stopwatch.elapsed + Self.openingInterval
        do {
            let device = configuration.device
            let launcher = try Launcher(device, environment: environment)
            let audience = use(launcher, try Verdicts(store: device.store, environment: environment))
            send(audience == .everybody ? .start : .admit(audience))
            bridge.reload()
            // The checks until now had no store.
            let limit = state.prepared == nil ? Duration.zero : .seconds(60)
            Task { await checks.request(within: limit) }
        } catch {
            let message = UpdateFailure(error).message
            if message != lastRefusal ?? UpdateFailure(refusal).message {
                environment.log("\(message) serve tries again every 2 seconds.")
            }
            lastRefusal = message
        }
    }

    /// Continues with an open store. Returns the audience, which the new state does not have yet.
    private func use(_ launcher: Launcher, _ verdicts: Verdicts) -> Audience {
        (self.launcher, self.verdicts) = (launcher, verdicts)
        let audience = state.audience
        state = Self.state(configuration, ShellWork(launcher, verdicts, bridge, configuration.visibility))
        return audience
    }

    /// The reason why the store could not be opened; nil for an open one.
    package var storeRefusal: UpdateFailure? { launcher.refusal.map { UpdateFailure($0) } }

    /// Returns when the store is open, or the task is cancelled.
    package func storeOpens() async {
        while launcher.refusal != nil {
            do { try await environment.clock.sleep(for: configuration.storeInterval) } catch { return }
        }
    }

    /// Whether the device has activation windows and one of them is open.
    private var isInActivationWindow: Bool { configuration.activation?.isOpen(at: localTime()) == true }

    // MARK: Removal of older clients

    /// Waits until a removal of older clients has ended.
    package func removed() async { await removal?.value }

    /// Removes unneeded clients after a check, unless a client is on trial.
    func removeUnused() {
        guard state.launched?.isTrial == false, let inventory = try? launcher.inventory() else { return }
        if !RetentionRule.plan(inventory, keep: configuration.keep).removed.isEmpty { removeOlder() }
    }

    /// Removes older clients on a thread of their own, so the page that confirmed its start receives its response at once. On one
    /// processor all tasks of a program share one thread. The next check waits for the removal.
    private func removeOlder() {
        removal = Task(executorPreference: remover) { [verdicts, keep = configuration.keep, before = removal] in
            await before?.value
            _ = await verdicts?.retain(keep)
        }
    }

    // MARK: Events and effects

    /// Applies an event and throws if it is refused.
    func handle(_ event: ShellState<ShellWork>.Event) throws {
        if let refusal = carryOut(event) { throw refusal }
    }

    /// Applies an event. The caller may ignore a refusal.
    func send(_ event: ShellState<ShellWork>.Event) { _ = carryOut(event) }

    /// Applies an event. Returns its refusal, or nil.
    private func carryOut(_ event: ShellState<ShellWork>.Event) -> (any Error)? {
        let before = status
        let response = state.handle(event, at: stopwatch.elapsed, time: environment.now())
        if status != before { bridge.update(status) }
        var refusal = response.refusal
        for effect in response.effects {
            switch effect {
            case .retain: removeOlder()
            case .report(let event): observers.yield(event)
            case .reload: bridge.reload()
            case .setTimer(let moment): setTimer(at: moment)
            case .checkHealth(let launched):
                if !checkHealth(launched) { refusal = carryOut(.healthChecked(.passed, launched.token)) }
            }
        }
        return refusal
    }

    /// Starts the check of a launch: its required endpoints, then the check of the configuration. Returns false if there is nothing to
    /// check.
    private func checkHealth(_ launched: Launched) -> Bool {
        let client = launched.prepared.client
        let (endpoints, check) = (client.endpoints, configuration.healthCheck?(client))
        if endpoints == nil, check == nil { return false }
        Task { [configuration] in
            var result = HealthResult.passed
            if let endpoints { result = await configuration.check(endpoints) }
            if result == .passed, let check { result = await check() }
            self.send(.healthChecked(result, launched.token))
        }
        return true
    }

    private var status: ShellStatus {
        var status = ShellStatus(
            token: state.launched?.token, current: state.launched?.name, available: state.next?.name)
        status.facts = state.next?.client.facts
        status.waiting = state.waiting
        return status
    }

    private func setTimer(at moment: Duration?) {
        timer?.cancel()
        guard let moment else { return }
        let left = moment - stopwatch.elapsed
        timer = Task { [clock = environment.clock] in
            do { try await clock.sleep(for: left) } catch { return }
            self.checkForStall()
            self.send(.timerFired)
        }
    }
}

// The calls of pages, and of the shell on their behalf.
extension ClientShell {
    /// Returns the launch of the page that is about to load: the running one, or a new one whose boot attempt has been written.
    ///
    /// With `takesNext`, a user loads the page to see it, so it shows the client that is ready. Outside the activation windows
    /// no load changes the client.
    public func pageWillLoad(takesNext: Bool = false) throws -> Launched {
        let mayChange = configuration.activation == nil || isInActivationWindow
        try handle(.load(.init(takesNext: takesNext, mayChange: mayChange)))
        guard let launched = state.launched else { throw ShellError.notStarted }
        return launched
    }

    /// Confirms the start of the launch with `token`. Throws for any other token.
    public func startupDidComplete(_ token: LaunchToken) async throws { try handle(.page(.confirm, token)) }

    /// Confirms the start of the launch with `token`, whose page shows nothing: for now, or after some seconds if it `isBlank`.
    package func startupDidComplete(_ token: LaunchToken, isBlank: Bool) throws {
        try handle(.page(isBlank ? .confirmBlank : .confirmEmpty, token))
    }

    /// Fails the launch with `token`, which the shell saw fail. A launch that no longer runs is ignored.
    public func startupDidFail(_ token: LaunchToken, reason: String) { send(.page(.fail(reason), token)) }

    /// Applies a failure that a page reports itself. It is valid on trial only, and once for each client; otherwise it throws.
    public func pageDidFail(_ token: LaunchToken, reason: String) throws {
        try handle(.page(.failTrial(reason), token))
    }

    /// Records that the page is no longer on the screen. A client on trial has failed, unless no page has ever reported to this
    /// shell: then another client is shown without a verdict.
    public func pageIsLost(_ token: LaunchToken, reason: String) { send(.page(.lose(reason), token)) }

    /// Records that the page leaves for `place`. On trial, another page of the client has to follow.
    public func pageDidLeave(_ token: LaunchToken, for place: String, report: PageReport) {
        send(.page(.leave(UntrustedName.display(place), report), token))
    }

    /// Records that the connection of a page ended without a report, so its window was closed or its process ended. On trial,
    /// another page of the client has to follow a visible one.
    package func pageDidVanish(_ token: LaunchToken, load: String) { send(.page(.vanish(load), token)) }

    /// Reports a page error as an event, each text once. The first grave errors are kept as failure details until the page
    /// confirms its start.
    public func pageDidReport(_ token: LaunchToken, error: String, isGrave: Bool = true) {
        send(.page(.error(UntrustedName.display(error, limit: 400), isGrave: isGrave), token))
    }

    /// Records that the page is hidden. The startup time is paused while all pages are. A `report` is valid if it is the newest
    /// of its page.
    public func pageDidHide(_ token: LaunchToken, report: PageReport? = nil) {
        send(.page(.show(false, report), token))
    }

    /// Records that the page is visible again.
    public func pageDidShow(_ token: LaunchToken, report: PageReport? = nil) {
        send(.page(.show(true, report), token))
    }

    /// Marks the page busy or idle. A busy page delays changes of the client for as long as its channel allows, or ten minutes
    /// if the channel sets no limit.
    public func setBusy(_ isBusy: Bool, for token: LaunchToken, report: PageReport) {
        send(.page(.busy(isBusy, report, mayActivate: isInActivationWindow), token))
    }

    /// The running client; nil before the first page.
    public var currentVersion: ClientName? { state.launched?.name }

    /// Whether the page may be interrupted for a moment: it is not busy, no client is on trial, and an activation window is open if
    /// there are any.
    package var mayBeInterrupted: Bool {
        (configuration.activation == nil || isInActivationWindow) && state.launched?.isTrial != true
            && !state.isBusy(at: stopwatch.elapsed)
    }

    /// The client that the next page load launches or shows.
    public var nextLaunch: ClientName? { state.prepared?.name }

    /// Returns whether `token` belongs to the running launch.
    public func isCurrent(_ token: LaunchToken) -> Bool { state.launched?.token == token }

    /// Whether another client is ready to be shown. Uses no network.
    public var isUpdateAvailable: Bool { state.next != nil }

    /// The client that `reload` would show.
    public var availableVersion: ClientName? { state.next?.name }

    /// The shell version that the best installed or offered client needs, if this shell is older.
    public var missingShell: SemanticVersion? {
        [state.missingShell, offerFailure?.neededShell].compactMap(\.self).max()
    }

    /// Shows the client that is ready. Throws `noPendingVersion` if there is none.
    public func reload() throws { try handle(.reload) }

    /// Returns the names of the clients that could be shown. The seed is first, if the shell has one.
    public func clientNames() throws -> [ClientName] {
        (hasSeed ? [.embedded] : []) + (try launcher.inventory().bundles.map(\.name))
    }

    /// Returns the application ID of the running Meteor bundle, or of the seed; nil if neither is a Meteor bundle.
    public func meteorAppId() throws -> String? {
        try launcher.inventory().ledger.meteorFacts?.appId ?? launcher.seedAppId
    }

    /// Returns the running or prepared client and its index page; nil if there is none.
    public func shownPage() throws -> (name: ClientName, page: [UInt8])? {
        try state.prepared.map { ($0.name, try $0.client.root.page()) }
    }

    /// Returns a client without launching it; nil if it is not installed or must not run.
    public func client(named name: ClientName) throws -> ReadyClient? { try launcher.ready(name) }
}

// The decisions of operators.
extension ClientShell {
    /// Goes back to `target`, or else to the last good client, the next lower one, or the seed, and returns it. Open pages reload
    /// and show it as soon as none is busy. Newer clients are blocked until `unblock`. Throws if there is no way back.
    @discardableResult
    public func rollBack(to target: ClientName? = nil) throws -> ClientName {
        switch try openVerdicts().rollBack(to: target) {
        case .back(let target, _):
            send(.inspect(retrying: false))
            return target
        case .notShown(let name): return name
        case .alreadyBack(let name, let advice), .nothingBelow(let name, let advice):
            throw UpdateFailure(.usage, subject: name.shortDescription, advice)
        }
    }

    /// Allows a blocked version to run again, and forgets its failures. Returns false if it was not blocked.
    @discardableResult
    public func unblock(_ version: ClientVersion) throws -> Bool {
        let wasBlocked = try openVerdicts().unblock(version)
        send(.inspect(retrying: true))
        return wasBlocked
    }

    private func openVerdicts() throws -> Verdicts {
        guard let verdicts else { throw storeRefusal ?? ShellError.notStarted.failure }
        return verdicts
    }
}

extension ClientShell {
    /// Whether the shell has a seed, which guests see. It may be damaged.
    package nonisolated var hasSeed: Bool { configuration.device.seed != nil }

    /// Whether the store is empty, there is no seed, and the shell polls a feed.
    package var waitsForFirstClient: Bool {
        !hasSeed && checks.isPolling && launcher.refusal == nil && (try? launcher.inventory().bundles.isEmpty) == true
    }

    /// Checks for an update and installs it. A client that failed once becomes available again. Throws the failure of the check,
    /// which is also an event.
    ///
    /// A shell without an update step only reads the store.
    public func checkForUpdates() async throws {
        if let failure = await check() { throw failure }
    }

    /// Plans a check at a random moment within `limit`, or within the channel's jitter. Returns at once. A shell that does not
    /// poll does not check.
    public func checkSoon(within limit: Duration? = nil) async { await checks.request(within: limit) }

    /// Plans a check within the channel's jitter, or within a minute for an urgent notification.
    package func checkSoon(isUrgent: Bool) async { await checks.request(within: nil, isUrgent: isUrgent) }

    /// Checks for an update. Returns its failure.
    func check() async -> UpdateFailure? {
        if let storeRefusal { return storeRefusal }
        // The removal of older clients locks the store, which must not fail the check.
        await removed()
        let result = await checks.update()
        // Concurrent checks share one installation.
        for report in result.installed where report.bundle == nil || report.bundle?.entry != lastInstalled {
            lastInstalled = report.bundle?.entry
            let size = report.bundle?.entry.installedSize ?? 0
            observers.yield(.installed(report.name, bytes: report.bytesDownloaded, size: size))
        }
        let failure = result.failures.first.map { UpdateFailure($0) }
        let isAnswered = failure.map(Self.isOfOffer) ?? true
        if let failure, failure != offerFailure { observers.yield(.failed(failure)) }
        if isAnswered { offerFailure = failure }
        checkFailure = isAnswered ? nil : failure
        // The update of one source is used even if others failed.
        if failure == nil || result.hasResponse { send(.inspect(retrying: true)) }
        observers.yield(.checked(isAnswered ? nil : failure, next: await checks.ended(result)))
        removeUnused()
        return failure
    }

    /// Returns whether the failure is a property of the feed's offer, so every check repeats it until the offer changes.
    private static func isOfOffer(_ failure: UpdateFailure) -> Bool {
        failure.code == .versionBlocked || failure.code == .incompatibleShell
    }
}
