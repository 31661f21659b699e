public import BundleCore
import BundleDisk
import BundlePlatform
import BundleThreads

/// What a shell embeds: it launches the client, watches its start, takes it back when it fails, and tells of new versions.
///
/// Call `start`, then `run` for as long as the shell lives, and `pageWillLoad` before every load of the client's page.
public actor ClientShell {
    private let configuration: ShellConfiguration
    private let update: UpdateStep?
    private let bridge: any ShellBridge
    private let clock: any Clock<Duration>
    private let reading: @Sendable () -> Duration
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private let localTime: @Sendable () -> ActivationWindows.LocalTime
    private let now: @Sendable () -> Timestamp
    private let thread: ShellThread
    private let launcher: Launcher
    private let verdicts: Verdicts
    private let observers: AsyncStream<ShellEvent>.Continuation

    /// What happens, in order; the newest hundred events wait for a slow observer.
    public nonisolated let events: AsyncStream<ShellEvent>

    /// Who looks at the screen.
    public enum Audience: Sendable, Equatable {
        /// Whoever may see every client.
        case everybody
        /// Guests: the seed is for them, and nothing else.
        case guests
        /// Nobody: nothing is shown.
        case nobody
    }

    private var audience = Audience.everybody
    private var unprepared: UpdateFailure?
    private var prepared: PreparedLaunch?
    private var launched: Launched?
    private var next: PreparedLaunch?
    private var watchdog: StartupWatchdog?
    private var wakeUp: Task<Void, Never>?
    private var evidence: String?
    /// A verdict that the disk refused; a nil failure says that the client is good.
    private var owed: (launched: Launched, failure: StartFailure?)?
    private var lastTrouble: UpdateFailure?
    private var seenLedger: Ledger?
    private var polls: PollClock?
    /// The sleep until the next check, which ends early when one is wanted sooner.
    private var nap: Task<Void, Never>?

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
        self.update = update
        self.bridge = bridge
        self.clock = clock
        reading = Self.reading(of: clock)
        self.random = random
        self.localTime = localTime ?? { .now }
        self.now = now
        polls = configuration.polling.map { PollClock($0, now: .zero, draw: random(0...1)) }
        thread = try ShellThread()
        launcher = try Launcher(configuration.device, now: now, warn: warn)
        verdicts = try Verdicts(store: configuration.device.store, now: now, warn: warn)
        (events, observers) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(100))
    }

    // MARK: Launching

    /// Chooses the client and hands its serving root to the bridge. No boot attempt is written before a page loads.
    public func start() async throws {
        let admitted = audience
        let next = try prepare()
        try await bridge.setServerBasePath(next.client)
        // Somebody else may look at the screen by now: the last word is for those.
        if audience != admitted { return audience == .nobody ? () : try await start() }
        prepared = next
        unprepared = nil
        missingShell = launcher.missingShell(try launcher.inventory())
    }

    /// Who looks at the screen from now on: what others have been shown is left, without a verdict, and nothing of it is shown
    /// again. Throws why there is nothing to show; it is looked for again with every change of the store.
    public func admit(_ audience: Audience) async throws {
        if self.audience != audience {
            self.audience = audience
            abandon()
            (prepared, next, seenLedger) = (nil, nil, nil)
            unprepared = audience == .nobody ? nil : await failureToStart()
        } else if prepared == nil, unprepared == nil, audience != .nobody {
            unprepared = await failureToStart()
        }
        if let unprepared { throw unprepared }
    }

    private func failureToStart() async -> UpdateFailure? {
        do {
            try await start()
            return nil
        } catch {
            return UpdateFailure(error)
        }
    }

    /// The launch that runs ends without a verdict: the shell itself takes its page away.
    private func abandon() {
        end(watch: nil)
        evidence = nil
        defer { launched = nil }
        guard let launched, launched.isTrial, launched.isRecorded else { return }
        do {
            try verdicts.abandon(launched.name, launched.token)
        } catch {
            observers.yield(.failed(UpdateFailure(error)))
        }
    }

    private func prepare() throws -> PreparedLaunch {
        if audience == .nobody { throw ShellError.notStarted }
        return try launcher.prepare(forGuests: audience == .guests)
    }

    private func choice(_ inventory: Inventory) -> SelectionRule.Choice? {
        switch audience {
        case .everybody: launcher.choice(inventory)
        case .guests: launcher.choice(inventory, excluding: Set(inventory.bundles.map(\.name)))
        case .nobody: nil
        }
    }

    /// Looks for updates as `PollRule` says, and for what others do to the store, until it is cancelled.
    public func run() async {
        await withTaskGroup { group in
            group.addTask { await self.watchStore() }
            if configuration.polling != nil { group.addTask { await self.poll() } }
            await group.waitForAll()
        }
    }

    private func watchStore() async {
        while !Task.isCancelled {
            await look()
            await activate()
            do { try await clock.sleep(for: configuration.storeInterval) } catch { return }
        }
    }

    /// Shows the client that is ready, in its time. A client on trial is given the time to confirm its start.
    private func activate() async {
        guard next != nil, launched != nil, watchdog == nil, let windows = configuration.activation,
            windows.isOpen(at: localTime())
        else { return }
        do { try await reload() } catch { tell(error) }
    }

    /// The launch that the page about to load belongs to: the running one, or a new one whose boot attempt is on the disk
    /// when this returns.
    public func pageWillLoad() async throws -> Launched {
        if launched == nil { await look() }
        while true {
            if let launched, launched.name == prepared?.choice.name { return launched }
            guard audience != .nobody, let client = prepared else { throw ShellError.notStarted }
            if let launched = try begin(client) { return didLaunch(launched) }
            try await start()
        }
    }

    /// Nil where another client has to be prepared first.
    private func begin(_ client: PreparedLaunch) throws -> Launched? {
        if audience != .guests { return try launcher.begin(client) }
        // It may have been prepared for others, a moment ago.
        return client.choice.name == .embedded ? try launcher.show(client) : nil
    }

    private func didLaunch(_ launched: Launched) -> Launched {
        self.launched = launched
        evidence = nil
        if next?.choice.name == launched.name { next = nil }
        end(watch: nil)
        if launched.isTrial {
            watchdog = StartupWatchdog(timeout: configuration.startupTimeout)
            handle(.started)
        }
        observers.yield(.launched(launched.name, isTrial: launched.isTrial))
        return launched
    }

    /// Shows the client that is ready, if there is one, from the next page load on: somebody loads the page again anyway.
    ///
    /// Outside of the activation windows nothing changes: what runs stays, whoever loads its page.
    public func takeNext() async throws {
        if launched != nil, configuration.activation?.isOpen(at: localTime()) == false { return }
        try await showNext()
    }

    private func showNext() async throws {
        await look()
        guard let client = next else { return }
        try await bridge.setServerBasePath(client.client)
        next = nil
        prepared = client
    }

    // MARK: What a page may call

    /// The client that is shown; nil before the first page.
    public var currentVersion: ClientName? { launched?.name }

    /// The client that the next page load launches or shows.
    public var nextLaunch: ClientName? { prepared?.choice.name }

    /// Whether `token` is that of the launch that runs.
    public func isCurrent(_ token: LaunchToken) -> Bool { launched?.token == token }

    /// Whether another client is ready to be shown. Asks no network.
    public var isUpdateAvailable: Bool { next != nil }

    /// The shell that the best client needs, where this one is too old for it.
    public private(set) var missingShell: SemanticVersion?

    /// The client that `reload` would show.
    public var availableVersion: ClientName? { next?.choice.name }

    /// Checks for an update and brings it into the store. A client that failed once becomes available again. Throws, and tells
    /// in an event, why the check failed.
    ///
    /// A shell without an update step looks at the store only, which others fill.
    public func checkForUpdates() async throws {
        if let failure = await check() { throw failure }
    }

    /// The page whose launch has `token` confirms its start. Refused with any other token.
    public func startupDidComplete(_ token: LaunchToken) async throws {
        guard let launched else { throw ShellError.notStarted }
        // What is shown without a record has proved itself before.
        if token == launched.token, !launched.isRecorded { return }
        let wasConfirmed: Bool
        do {
            wasConfirmed = try verdicts.confirm(launched.name, token)
        } catch let error as DiskError where error.isWriteRefusal && token == launched.token {
            wasConfirmed = false
            owe(launched, nil, error)
        }
        end(watch: .confirmed)
        if wasConfirmed { return }
        observers.yield(.confirmed(launched.name))
        _ = await verdicts.retain(configuration.keep)
    }

    /// Shows the client that is ready. Without one: `noPendingVersion`, and nothing changes.
    public func reload() async throws {
        await look()
        if next == nil { throw ShellError.noPendingVersion }
        try await showNext()
        await bridge.reload()
    }

    /// The shell has seen the client of the launch with `token` fail; nothing happens where another one runs by now.
    public func startupDidFail(_ token: LaunchToken, _ what: String) async {
        await fall(token, .reported, what)
    }

    /// What a page that has not confirmed its start complains of; the first complaint is kept as evidence.
    public func pageDidReport(_ token: LaunchToken, _ complaint: String) {
        if launched?.token == token, watchdog != nil, evidence == nil { evidence = complaint }
    }

    // MARK: Checks

    private func poll() async {
        await withDiscardingTaskGroup { group in
            // A download may take long; what is offered then may be newer.
            while await sleepUntilCheck() { group.addTask { _ = await self.check() } }
        }
    }

    /// Whether it is time for a check; not where the shell ends.
    private func sleepUntilCheck() async -> Bool {
        while !Task.isCancelled, let polls {
            let left = polls.next - reading()
            if left <= .zero {
                self.polls?.begin(now: reading())
                return true
            }
            let nap = Task { [clock] in _ = try? await clock.sleep(for: left) }
            self.nap = nap
            await withTaskCancellationHandler {
                await nap.value
            } onCancel: {
                nap.cancel()
            }
        }
        return false
    }

    /// Checks for an update at a random moment within `limit`, or within the jitter that the channel asks for: somebody said
    /// that there is one. Returns at once; a shell that does not poll does not check.
    public func checkSoon(within limit: Duration? = nil) {
        // Drawing again would bring forward whatever is said often.
        guard let polls, limit != nil || !polls.isWanted else { return }
        self.polls?.want(by: reading() + max(limit ?? polls.spread, .zero) * random(0...1))
        nap?.cancel()
    }

    private func check() async -> UpdateFailure? {
        let result = await update?()
        let failure = result?.failures.first.map { UpdateFailure($0) }
        if let failure { observers.yield(.failed(failure)) }
        // What one channel has brought counts, whatever became of the others.
        if failure == nil || result?.hasAnswer == true {
            seenLedger = nil
            await look(retrying: true)
        }
        polls?.ended(result?.outcome ?? .answered, asked: result?.pace, now: reading(), draw: random(0...1))
        nap?.cancel()
        observers.yield(.checked(failure, next: polls.map { max($0.next - reading(), .zero) }))
        return failure
    }

    // MARK: Other clients

    /// Every client that could be shown, the seed first.
    public func clientNames() throws -> [ClientName] { [.embedded] + (try launcher.inventory().bundles.map(\.name)) }

    /// The application that the Meteor bundle which runs names, or the seed; nil where neither is one.
    public func meteorAppId() throws -> String? { try launcher.inventory().ledger.meteorFacts?.appId }

    /// The client that is shown, or will be, and its index page; nil where there is none.
    public func shownPage() throws -> (name: ClientName, page: [UInt8])? {
        guard let prepared,
            let page = try prepared.client.root.directory.contents("index.html", maximumBytes: 16 << 20)
        else { return nil }
        return (prepared.choice.name, page)
    }

    /// A client to look at, without a launch; nil where there is none of that name or it must not run.
    public func client(named name: ClientName) throws -> ReadyClient? { try launcher.ready(name) }

    // MARK: The watchdog

    /// The client of the launch with `token` is no longer in front of anybody: its time stands still.
    public func pageDidHide(_ token: LaunchToken) { if isCurrent(token) { handle(.paused) } }

    /// It is in front again.
    public func pageDidShow(_ token: LaunchToken) { if isCurrent(token) { handle(.resumed) } }

    private func handle(_ event: StartupWatchdog.Event) {
        switch watchdog?.handle(event, at: reading()) {
        case .wake(let at)?: sleep(until: at)
        case .sleep?: wakeUp?.cancel()
        case .settle(.faulty(let cause, let what))?:
            guard let token = launched?.token else { return }
            wakeUp = Task { await self.fall(token, cause, what) }
        case .settle(.healthy)?, nil: break
        }
    }

    private func end(watch event: StartupWatchdog.Event?) {
        if let event { handle(event) }
        wakeUp?.cancel()
        watchdog = nil
    }

    private static func reading<Ticking: Clock<Duration>>(of clock: Ticking) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }

    private func sleep(until moment: Duration) {
        wakeUp?.cancel()
        let left = moment - reading()
        wakeUp = Task { [clock] in
            do { try await clock.sleep(for: left) } catch { return }
            self.handle(.woken)
        }
    }

    /// The launch failed: the ledger first, then the client that comes instead, in the same window.
    private func fall(_ token: LaunchToken, _ cause: StartFailure.Cause, _ what: String) async {
        guard let launched, launched.token == token else { return }
        watchdog = nil
        let detail = what + (evidence.map { "; the page said: \($0)" } ?? "")
        let failure = StartFailure(cause, detail: detail, at: now())
        do {
            do {
                _ = try verdicts.fail(launched.name, token, failure)
            } catch let error as DiskError where error.isWriteRefusal {
                owe(launched, failure, error)
            }
            let client = try prepare()
            prepared = client
            self.launched = nil
            next = nil
            let told = UpdateFailure(
                .healthFailed, subject: "\(launched.name)",
                "\(launched.name) was rolled back to \(client.choice.name): \(failure).")
            try await bridge.setServerBasePath(client.client)
            observers.yield(.rolledBack(launched.name, to: client.choice.name, told))
            await bridge.reload()
        } catch {
            observers.yield(.failed(UpdateFailure(error)))
        }
    }

    /// A disk that takes no writes must neither keep a broken client on the screen nor undo a good one: the verdict counts at
    /// once, and is written when the disk takes it.
    private func owe(_ launched: Launched, _ failure: StartFailure?, _ error: DiskError) {
        launcher.refuseTrials()
        owed = (launched, failure)
        observers.yield(.failed(error.failure))
    }

    /// Writes down what the disk refused before.
    private func settleDebts() {
        if let owed {
            do {
                if let failure = owed.failure {
                    _ = try verdicts.fail(owed.launched.name, owed.launched.token, failure)
                } else {
                    _ = try verdicts.confirm(owed.launched.name, owed.launched.token)
                }
            } catch let error as DiskError where error.isWriteRefusal {
                return
            } catch {
                // Another launch is written down by now.
            }
            self.owed = nil
        }
        if let launched, !launched.isRecorded, audience == .everybody {
            self.launched = launcher.record(again: launched)
        }
    }

    // MARK: The store

    /// Makes ready what runs next, if that is another client than the one that is shown, and tells of it once. A client that
    /// failed is not pushed at once at the page that follows it: its retry comes with a check or with the next start.
    private func look(retrying: Bool = false) async {
        do {
            try await takeIn(retrying: retrying)
            lastTrouble = nil
        } catch {
            // What could not be done is tried at every look.
            seenLedger = nil
            tell(error)
        }
    }

    /// The store is looked at twice a second, and trouble is told once.
    private func tell(_ error: any Error) {
        let trouble = UpdateFailure(error)
        if trouble != lastTrouble { observers.yield(.failed(trouble)) }
        lastTrouble = trouble
    }

    private func takeIn(retrying: Bool) async throws {
        settleDebts()
        let inventory = try launcher.inventory()
        if inventory.ledger == seenLedger { return }
        seenLedger = inventory.ledger
        missingShell = launcher.missingShell(inventory)
        guard let choice = choice(inventory) else { return }
        guard let launched else {
            if choice.name != prepared?.choice.name { try await start() }
            return
        }
        // Between a reload and its page there is nothing to tell.
        guard launched.name == prepared?.choice.name else { return }
        if let reason = launched.name.version.flatMap(inventory.ledger.recall(of:)) {
            return try await leave(launched.name, because: reason)
        }
        if choice.name == launched.name { next = nil }
        if choice.name == launched.name || choice.name == next?.choice.name { return }
        if case .retry = choice.reason, !retrying || watchdog != nil { return }
        let client = try prepare()
        guard client.choice.name != launched.name else { return }
        next = client
        observers.yield(.updateAvailable(client.choice.name))
    }

    /// The client that is shown was blocked by hand, recalled by its channel, or failed when nothing else could be shown: its
    /// page is not asked.
    private func leave(_ name: ClientName, because reason: String) async throws {
        let client = try prepare()
        try await bridge.setServerBasePath(client.client)
        end(watch: nil)
        launched = nil
        next = nil
        prepared = client
        let told = UpdateFailure(
            .versionBlocked, subject: "\(name)",
            "\(name) was left for \(client.choice.name), because \(reason).")
        observers.yield(.rolledBack(name, to: client.choice.name, told))
        await bridge.reload()
    }
}
