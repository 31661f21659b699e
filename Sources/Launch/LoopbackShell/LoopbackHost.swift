package import BundleCore
import BundleDisk
package import BundleServe
package import BundleValues
package import ClientShell
package import ShellBoot
import Synchronization

/// Joins a shell and the loopback server: pages call the shell, the shell's events go to pages. What is shown is the bridge's
/// `Screen`.
package final class LoopbackHost: PageHost {
    /// How long a page waits for the outcome of a check at most: a download may take hours.
    private static let longestAnswer = Duration.seconds(20)
    /// How many calls wait for the outcome of a check at most: each holds a connection.
    private static let mostWaitingCalls = 8

    private let shell: ClientShell
    private let bridge: LoopbackBridge
    private let observe: @Sendable (ShellEvent) -> Void
    private let checks: AsyncStream<Void>.Continuation
    private let wantedChecks: AsyncStream<Void>
    /// Who wants to know what the next check comes to.
    private let waiting = Mutex<[AsyncStream<JSONObject>.Continuation]>([])
    private let clock: any Clock<Duration>
    private let reading: @Sendable () -> Duration
    private let heartbeat: Duration?
    private let watch: Mutex<PageWatch?>
    private let lose: @Sendable (String) -> Void
    private let screenFile: ScreenFile?
    /// What there is where nothing is; its page finds out by itself when there is something.
    private let nothing: Page

    /// For a shell that shows its clients by `bridge`; `observe` receives every event. Clients are shown until something else is.
    /// Where the page on the screen reports nothing for `heartbeat`, `lose` receives why it is lost. A kiosk has no other window than the page's.
    package init(
        _ shell: ClientShell, _ bridge: LoopbackBridge, clock: any Clock<Duration> = SuspendingClock(),
        heartbeat: Duration? = nil, isKiosk: Bool = false, screenFile: ScreenFile? = nil,
        lose: @escaping @Sendable (String) -> Void = { _ in },
        observe: @escaping @Sendable (ShellEvent) -> Void
    ) throws {
        nothing = try StatePage.starting.page()
        self.shell = shell
        self.bridge = bridge
        self.observe = observe
        self.clock = clock
        reading = Self.reading(of: clock)
        self.heartbeat = heartbeat
        self.lose = lose
        self.screenFile = screenFile
        watch = Mutex(heartbeat.map { PageWatch(patience: $0, isKiosk: isKiosk) })
        (wantedChecks, checks) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    private static func reading<Ticking: Clock<Duration>>(of clock: Ticking) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }

    /// Takes in that a browser is started, which is to load the page.
    package func browserStarts() {
        let now = reading()
        watch.withLock { $0?.starts(at: now) }
    }

    /// Looks for lost pages until it is cancelled. One that hangs may come back, and is then to load itself again.
    private func watchPages(_ patience: Duration) async {
        let pause = min(patience / 4, .seconds(1))
        var pulse = Pulse(every: pause, from: reading())
        while (try? await clock.sleep(for: pause)) != nil {
            let now = reading()
            // A page that stood still with this process has time to report.
            if clock is SuspendingClock, let stop = pulse.beat(at: now) {
                watch.withLock { $0?.standsStill(for: stop) }
            }
            guard let loss = watch.withLock({ $0?.loss(at: now) }) else { continue }
            let token = bridge.withScreen { $0.status.token }
            // Where it is not on trial it has confirmed its start, whatever became of its window.
            if let token, loss.isOfPage { await shell.pageIsLost(token, "its page is lost: \(loss.reason)") }
            bridge.reload()
            lose(loss.reason)
        }
    }

    /// Runs the shell and passes on what happens, until it is cancelled.
    package func run() async {
        await withTaskGroup { group in
            group.addTask { await self.shell.run() }
            if let heartbeat { group.addTask { await self.watchPages(heartbeat) } }
            group.addTask {
                for await event in self.shell.events { self.pass(event) }
            }
            group.addTask {
                await withDiscardingTaskGroup { running in
                    var pace = CheckPace()
                    for await _ in self.wantedChecks {
                        // A download may take long; what is offered then may be newer.
                        running.addTask { await self.check() }
                        // A page in a loop must not become a flood at the feed.
                        try? await self.clock.sleep(for: pace.pause(at: self.reading()))
                    }
                }
            }
            await group.waitForAll()
        }
        bridge.finish()
    }

    /// Checks, and tells those who asked for it by then what came of it. A failure is an event of the shell, too.
    private func check() async {
        let asked = waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
        var outcome: JSONObject
        do {
            try await shell.checkForUpdates()
            outcome = ["outcome": .string("upToDate")]
            if let name = bridge.withScreen(\.status.available) {
                outcome = ["outcome": .string("updateAvailable"), "version": .string(name.shortDescription)]
            }
        } catch {
            let failure = UpdateFailure(error)
            outcome = [
                "outcome": .string("failed"), "code": .string(failure.code.rawValue),
                "message": .string(failure.message),
            ]
        }
        for page in asked { page.yield(outcome) }
    }

    /// What the check comes to that a page asks for; `checking` where that takes long.
    private func outcomeOfCheck() async -> JSONObject {
        let (outcomes, page) = AsyncStream<JSONObject>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let mayWait = waiting.withLock { waiting in
            if waiting.count < Self.mostWaitingCalls { waiting.append(page) }
            return waiting.count < Self.mostWaitingCalls
        }
        checks.yield()
        if !mayWait { return ["outcome": .string("checking")] }
        return await withTaskGroup { [clock] group in
            group.addTask { await outcomes.first { _ in true } }
            group.addTask {
                _ = try? await clock.sleep(for: Self.longestAnswer)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next().flatMap(\.self) ?? ["outcome": .string("checking")]
        }
    }

    func pass(_ event: ShellEvent) {
        observe(event)
        let now = reading()
        if case .rolledBack = event { watch.withLock { $0?.isSentAway(at: now) } }
        bridge.withScreen { screen in
            switch event {
            case .updateAvailable(let name): screen.send(update: name)
            case .failed(let failure): screen.send(error: failure)
            // The page that failed is about to go, or gone: its follower is told.
            case .rolledBack(let name, _, let failure): screen.send(error: failure, failed: name)
            case .checked(nil, _): screen.sendUpToDate()
            case .launched, .confirmed, .checked, .complained, .unconfirmed: break
            }
        }
    }

    /// Expects a browser to load another page, since what was shown until now is for no person who comes: at once where the device
    /// `isLocked`, and after it has cleared what a session left otherwise. The page is lost if none does.
    package func expectNextPage(isLocked: Bool) {
        let now = reading()
        watch.withLock { watch in
            if isLocked { watch?.isReplaced(at: now) } else { watch?.isSentAway(at: now) }
        }
        screenFile?.expect(ScreenNote(.replaced, since: .now))
    }

    // MARK: What the server asks

    /// Counts up where nothing that was shown until now may be shown any more.
    package var generation: Int { bridge.withScreen { $0.generation } }

    /// The session that ended last.
    package var leaving: Leaving? { bridge.withScreen { $0.leaving } }

    /// The page of the launch that runs, or of a new one whose boot attempt is on the disk by then.
    ///
    /// A browser that loads the page gets the client that is ready, if there is one; other windows come along.
    package func page(isBrowser: Bool) async throws -> Page {
        let now = reading()
        if isBrowser {
            watch.withLock { $0?.loads(at: now) }
            screenFile?.settle()
        }
        while true {
            let (ownPage, generation) = bridge.withScreen { ($0.ownPage, $0.generation) }
            if let ownPage { return ownPage }
            do {
                let launched = try await shell.pageWillLoad(takesNext: isBrowser)
                if let page = try bridge.page(of: launched, in: generation) { return page }
            } catch ShellError.notStarted {
                // The shell has left its client already, and what is shown instead is about to be.
                return nothing
            }
        }
    }

    /// The files of the launch that the cookie names, else those of the newest; none of a client that is not to be shown.
    package func site(ofPage page: String?) -> Site { bridge.withScreen { $0.site(ofPage: page) } ?? nothing.site }

    /// A client to look at, without a launch.
    package func site(named name: String) async throws -> Site? {
        guard let name = ClientName(name) else { return nil }
        let (mayShow, site, generation) = bridge.withScreen {
            ($0.mayShow(name), $0.site(visiting: name), $0.generation)
        }
        guard mayShow else { return nil }
        if let site { return site }
        guard let client = try await shell.client(named: name) else { return nil }
        let files = try LoopbackBridge.open(client)
        return bridge.withScreen { $0.visit(files, in: generation) }
    }

    /// The seed and the installed clients, as far as they may be shown.
    package func clients() async throws -> [String] {
        let names = try await shell.clientNames()
        return bridge.withScreen { screen in names.filter(screen.mayShow).map(\.description) }
    }

    /// What the page of the running launch is told: first what it has missed.
    package func events(token: String) async throws -> AsyncStream<PageEvent> {
        guard let events = bridge.listen(token: token) else { throw bridge.withScreen(\.staleLaunch) }
        return events
    }

    /// Carries out a call of a page of the running launch and this session; any other is told to load again.
    package func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject {
        let (status, isCurrent, launch) = bridge.withScreen {
            ($0.status, $0.isCurrent(token), $0.launch(ofPage: token))
        }
        if method == "heard", bridge.withScreen({ $0.hear(body["id"]?.integerValue ?? 0, token: token) }) { return [:] }
        // The page is on its way out, or older than this server.
        guard isCurrent else {
            if method == "report", body["kind"]?.stringValue == "stays",
                let name = bridge.withScreen({ $0.client(ofPage: token) })
            {
                observe(.complained(name, PageComplaint(body).text))
                return [:]
            }
            throw bridge.withScreen(\.staleLaunch)
        }
        follow(method, body)
        guard let launch else { return try Self.answer(method) }
        do {
            return try await perform(method, launch, body, status)
        } catch let refusal as CallRefusal {
            throw refusal
        } catch let error as ShellError {
            throw CallRefusal(status: 409, code: error.rawValue, message: error.failure.message)
        } catch {
            let failure = UpdateFailure(error)
            throw CallRefusal(status: 500, code: failure.code.rawValue, message: failure.message)
        }
    }

    /// Takes in what a page says of itself, for the watch.
    private func follow(_ method: String, _ body: JSONObject) {
        guard let page = body["page"]?.stringValue, ["heartbeat", "visibility", "farewell"].contains(method) else {
            return
        }
        let (now, isSeen) = (reading(), body["hidden"]?.boolValue != true)
        watch.withLock { watch in
            if method == "farewell" {
                watch?.leaves(page, for: body["to"]?.stringValue ?? "", at: now)
            } else {
                watch?.speaks(page, isSeen: isSeen, at: now)
            }
        }
    }

    /// A page of the shell's own says how it is doing, as every page does, and has nothing else to say.
    static func answer(_ method: String) throws -> JSONObject {
        if ["visibility", "report", "heartbeat", "farewell", "busy"].contains(method) { return [:] }
        throw CallRefusal(status: 409, code: "notShown", message: "The device shows no client at present.")
    }

    private func perform(
        _ method: String, _ token: LaunchToken, _ body: JSONObject, _ status: ShellStatus
    ) async throws -> JSONObject {
        switch method {
        case "checkForUpdates": return await outcomeOfCheck()
        case "heartbeat": break
        case "farewell":
            await shell.pageDidLeave(token, for: body["to"]?.stringValue ?? "", Self.report(body))
        case "startupDidFail":
            try await shell.pageDidFail(token, body["reason"]?.stringValue ?? "")
        case "startupDidComplete": try await shell.startupDidComplete(token)
        case "getCurrentVersion": return ["version": .string(status.current?.shortDescription ?? "unknown")]
        case "isUpdateAvailable": return ["available": .bool(status.available != nil)]
        case "reload": try await shell.reload()
        case "busy": await shell.pageIsBusy(token, body["busy"]?.boolValue == true, Self.report(body))
        case "visibility": await report(visibility: body, token)
        case "report":
            let complaint = PageComplaint(body)
            await shell.pageDidReport(token, complaint.text, isGrave: complaint.isGrave)
        default: throw CallRefusal(status: 404, code: "unknownMethod", message: "There is no such method.")
        }
        return [:]
    }

    private static func report(_ body: JSONObject) -> PageReport {
        PageReport(load: body["page"]?.stringValue ?? "", number: body["number"]?.integerValue ?? 0)
    }

    private func report(visibility body: JSONObject, _ token: LaunchToken) async {
        let report = Self.report(body)
        if body["hidden"]?.boolValue == true {
            await shell.pageDidHide(token, report)
        } else {
            await shell.pageDidShow(token, report)
        }
    }
}

/// The web view's side for a browser on the same machine. The shell writes the screen on its thread, the server reads it on
/// its own; whoever does holds the lock for that alone.
package final class LoopbackBridge: ShellBridge {
    /// More than the errors that are kept: a stream begins with those.
    private static let waitingEvents = 16

    private let screen = Mutex(Screen())

    /// A bridge without a page.
    package init() {}

    /// Pages that are loaded from now on get the files of `client`.
    package func setServerBasePath(_ client: ReadyClient) throws {
        let files = try Self.open(client)
        screen.withLock { $0.next = files }
    }

    /// Tells every page to load itself again.
    package func reload() { end { $0.reload() } }

    /// Pages are told what follows.
    package func update(_ status: ShellStatus) { screen.withLock { $0.status = status } }

    /// Reads the screen, or changes it.
    func withScreen<Value: Sendable>(_ body: (inout sending Screen) throws -> sending Value) rethrows -> Value {
        try screen.withLock(body)
    }

    /// Ends streams when the lock is free: their end takes it.
    private func end(_ body: (inout sending Screen) -> sending [AsyncStream<PageEvent>.Continuation]) {
        for stream in screen.withLock(body) { stream.finish() }
    }

    /// Shows `state` from now on, nil for a device that starts.
    func show(_ state: LaunchState?) throws {
        let ownPage = try StatePage(state)?.page()
        let notice: ServerConfiguration.Bridge? =
            if case .updateRequired(let minimum) = state { try UpdateNotice(minimum: minimum).script() } else { nil }
        end { $0.show(state, ownPage: ownPage, notice: notice) }
    }

    /// Notes which of `sessions` was the last that ended at `time`, before what comes is shown; true where another one has ended since the
    /// call before. What cannot be read may go on.
    @discardableResult
    package func noteEnded(_ sessions: any SessionRepository, at time: Timestamp) async -> Bool {
        guard let record = try? await sessions.record() else { return false }
        return (try? withScreen { try $0.note(ended: record.endings(at: time)?.name, draw: Self.word) }) ?? false
    }

    /// 32 letters and digits that nobody can guess.
    private static func word() throws -> String { String(try LaunchToken.random().text.prefix(32)) }

    /// The page of a launch; nil where all pages were forgotten since `generation`, or another launch runs by now.
    func page(of launched: Launched, in generation: Int) throws -> Page? {
        let client = launched.prepared.client
        let ready = screen.withLock { $0.next }
        // Opened outside the lock, which the server's one thread takes for every request.
        let files = if let ready, ready.client.name == client.name { ready } else { try Self.open(client) }
        let newId = try Self.word()
        guard let shown = screen.withLock({ $0.page(of: launched, files, newId: newId, in: generation) }) else {
            return nil
        }
        for stream in shown.ended { stream.finish() }
        return shown.page
    }

    /// The files of `client`, its index page cut where the page bridge goes.
    static func open(_ client: ReadyClient) throws -> Screen.OpenClient {
        let labels = try client.labels(ofFilesOver: Site.largestFileInMemory)
        return Screen.OpenClient(client: client, site: try Site(client.root, labels: labels))
    }

    /// Events for a page with `token`; nil where it is not shown, or was told to load again.
    func listen(token: String) -> AsyncStream<PageEvent>? {
        let (events, stream) = AsyncStream<PageEvent>.makeStream(
            bufferingPolicy: .bufferingNewest(Self.waitingEvents))
        let number = screen.withLock { $0.newListener() }
        stream.onTermination = { [weak self] _ in _ = self?.screen.withLock { $0.remove(number) } }
        return screen.withLock { $0.listen(number, token: token, stream) } ? events : nil
    }

    /// Ends every stream.
    func finish() { end { $0.streams } }
}

/// The pauses behind the checks that pages ask for: a person who asks twice hardly waits, a page in a loop does.
struct CheckPace {
    static let shortest = Duration.seconds(1)
    static let longest = Duration.seconds(10)

    private var next = shortest
    private var last: Duration?

    /// The pause behind a check that begins at `reading`.
    mutating func pause(at reading: Duration) -> Duration {
        if let last, reading - last > Self.longest * 2 { next = Self.shortest }
        last = reading
        defer { next = min(next * 2, Self.longest) }
        return next
    }
}
