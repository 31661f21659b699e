public import BundleCore
public import BundleServe
public import ClientShell
import Synchronization

/// Joins a shell and the loopback server: pages call the shell, the shell tells pages.
public final class LoopbackHost: PageHost {
    private static let pauseBetweenChecks = Duration.seconds(10)

    private let shell: ClientShell
    private let bridge: LoopbackBridge
    private let observe: @Sendable (ShellEvent) -> Void
    private let checks: AsyncStream<Void>.Continuation
    private let wantedChecks: AsyncStream<Void>
    private let front = Mutex(Front())
    private let heard = Mutex(Heard())
    private let silences: AsyncStream<LaunchToken>.Continuation
    private let silentLaunches: AsyncStream<LaunchToken>
    private let silence: Duration
    private let clock: any Clock<Duration>
    private let stage: Mutex<Stage>
    /// What there is where nothing is; its page finds out by itself when there is something.
    private let nothing: Page

    /// Whether a page of the newest launch has said anything.
    private struct Heard {
        private var token: LaunchToken?
        private var hasSpoken = false
        private var hasBrowser = false

        init(token: LaunchToken? = nil) { self.token = token }

        /// Whether the launch is another one than before, and whether this is the first browser that loads its page.
        mutating func expect(_ token: LaunchToken, isBrowser: Bool) -> (isNew: Bool, isFirstBrowser: Bool) {
            let isNew = self.token != token
            if isNew { self = Heard(token: token) }
            defer { if isBrowser { hasBrowser = true } }
            return (isNew, isBrowser && !hasBrowser)
        }

        mutating func speak(_ token: LaunchToken) { if self.token == token { hasSpoken = true } }

        func hasSpoken(_ token: LaunchToken) -> Bool { self.token != token || hasSpoken }
    }

    /// The page loads that have been heard of, each with the number of its last report; the last one is the youngest.
    private struct Front {
        private var loads: [(name: String, number: Int)] = []

        /// Whether this is news of the youngest load: the last one, or one never heard of.
        mutating func take(_ name: String, _ number: Int) -> Bool {
            guard let index = loads.firstIndex(where: { $0.name == name }) else {
                loads.append((name, number))
                if loads.count > 16 { loads.removeFirst() }
                return true
            }
            if loads[index].number >= number { return false }
            loads[index].number = number
            return index == loads.count - 1
        }
    }

    /// For a shell that shows its clients by `bridge` and gives a start `timeout`; `observe` hears every event. It shows the
    /// client until it is told otherwise.
    public init(
        _ shell: ClientShell, _ bridge: LoopbackBridge, timeout: StartupTimeout,
        clock: any Clock<Duration> = SuspendingClock(), observe: @escaping @Sendable (ShellEvent) -> Void
    ) throws {
        stage = Mutex(try Stage(.client(nil)))
        nothing = try Stage.page(.starting)
        self.shell = shell
        self.bridge = bridge
        self.observe = observe
        silence = timeout.duration * 3
        self.clock = clock
        (silentLaunches, silences) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        (wantedChecks, checks) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Runs the shell and passes on what happens, until it is cancelled.
    public func run() async {
        await withTaskGroup { group in
            group.addTask { await self.shell.run() }
            group.addTask {
                for await event in self.shell.events { self.pass(event) }
            }
            group.addTask {
                await withDiscardingTaskGroup { running in
                    for await _ in self.wantedChecks {
                        // A failure is an event of the shell. A download may take long; what is offered then may be newer.
                        running.addTask { _ = try? await self.shell.checkForUpdates() }
                        // A page in a loop must not become a flood at the feed.
                        try? await self.clock.sleep(for: Self.pauseBetweenChecks)
                    }
                }
            }
            group.addTask {
                for await token in self.silentLaunches { await self.endSilence(token) }
            }
            await group.waitForAll()
        }
        bridge.finish()
    }

    // MARK: What is shown

    private var scene: Scene { stage.withLock { $0.scene } }

    /// Shows `scene` from now on: pages that are open load themselves again, and find nothing more of what was shown before.
    public func show(_ scene: Scene) throws {
        let next = try Stage(scene)
        let isReplaced = stage.withLock { stage in
            defer { stage = next }
            return !next.follows(stage)
        }
        guard isReplaced else { return }
        bridge.forget()
        bridge.reload()
    }

    /// Whether that page of the shell's own is shown.
    private func isClosedPage(_ token: String) -> Bool { stage.withLock { $0.closed?.token == token } }

    /// Counts up where nothing that was shown until now may be shown any more.
    public var generation: Int { bridge.generation }

    func pass(_ event: ShellEvent) {
        observe(event)
        if case .page = scene { return }
        switch event {
        case .updateAvailable(let name): bridge.send(update: Self.updateAvailable(name))
        case .failed(let failure): bridge.send(error: Self.error(failure))
        // The page that failed is about to go, or gone: its follower is told.
        case .rolledBack(let name, _, let failure): bridge.send(error: Self.error(failure), failed: name)
        case .launched, .confirmed, .checked: break
        }
    }

    private static func updateAvailable(_ name: ClientName) -> PageEvent {
        PageEvent(name: "updateAvailable", data: ["version": .string(name.shortDescription)])
    }

    private static func error(_ failure: UpdateFailure) -> PageEvent {
        PageEvent(
            name: "error", data: ["code": .string(failure.code.rawValue), "message": .string(failure.message)])
    }

    // MARK: What the server asks

    /// The page of the launch that runs, or of a new one whose boot attempt is on the disk by then.
    ///
    /// A browser that loads the page gets the client that is ready, if there is one; other windows come along.
    public func page(isBrowser: Bool) async throws -> Page {
        while true {
            let generation = bridge.generation
            let (closed, notice) = stage.withLock { ($0.closed, $0.notice) }
            if let closed { return closed }
            do {
                if let page = try await page(isBrowser, notice, in: generation) { return page }
            } catch ShellError.notStarted {
                // The shell has left its client already, and what is shown instead is about to be.
                return nothing
            }
        }
    }

    /// Nil where something else is shown by now.
    private func page(_ isBrowser: Bool, _ notice: ServerConfiguration.Bridge?, in generation: Int) async throws
        -> Page?
    {
        let before = await shell.currentVersion
        if isBrowser { try await shell.takeNext() }
        let launched = try await shell.pageWillLoad()
        if let before, before != launched.name { bridge.reload() }
        await watch(launched, isBrowser: isBrowser)
        return try bridge.page(of: launched, notice: notice, in: generation)
    }

    /// The watchdog's time starts with the page's first word. In a browser, one that never speaks has three times as long; a
    /// probe says nothing at all, with a browser yet to come.
    private func watch(_ launched: Launched, isBrowser: Bool) async {
        guard launched.isTrial else { return }
        let (isNew, isFirstBrowser) = heard.withLock { $0.expect(launched.token, isBrowser: isBrowser) }
        if isNew { await shell.pageDidHide(launched.token) }
        if isFirstBrowser { silences.yield(launched.token) }
    }

    private func endSilence(_ token: LaunchToken) async {
        try? await clock.sleep(for: silence)
        if heard.withLock({ !$0.hasSpoken(token) }) { await shell.pageDidShow(token) }
    }

    /// The files of the launch that the cookie names, else those of the newest; none of a client that is not to be shown.
    public func site(ofPage page: String?) -> Site {
        let (scene, closed) = stage.withLock { ($0.scene, $0.closed) }
        switch scene {
        case .client: return bridge.site(ofPage: page) ?? nothing.site
        case .guests: return bridge.site(ofPage: page, only: .embedded) ?? nothing.site
        case .page: return closed?.site ?? nothing.site
        }
    }

    /// A client to look at, without a launch.
    public func site(named name: String) async throws -> Site? {
        let generation = bridge.generation
        guard let name = ClientName(name), mayShow(name) else { return nil }
        if let site = bridge.look(at: name) { return site }
        return try await shell.client(named: name).flatMap { try bridge.look(at: $0, in: generation) }
    }

    private func mayShow(_ name: ClientName) -> Bool {
        switch scene {
        case .client: true
        case .guests: name == .embedded
        case .page: false
        }
    }

    /// The seed and the installed clients, as far as they may be shown.
    public func clients() async throws -> [String] {
        try await shell.clientNames().filter(mayShow).map(\.description)
    }

    /// What the page of the running launch is told: first what it has missed.
    public func events(token: String) async throws -> AsyncStream<PageEvent> {
        if isClosedPage(token) {
            guard let listener = bridge.listen(token: token), isClosedPage(token) else { throw Self.staleLaunch }
            return listener.events
        }
        try await requireCurrent(token)
        guard let listener = bridge.listen(token: token) else { throw Self.staleLaunch }
        // Its launch may have been left before it listened, and then nobody told it.
        try await requireCurrent(token)
        // Asked when it listens already: an update that gets ready meanwhile is not missed.
        if let name = await shell.availableVersion { bridge.send(update: Self.updateAvailable(name), to: listener) }
        return listener.events
    }

    /// Carries out a call of the page of the running launch; a page of another one is told to load again.
    public func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject {
        if isClosedPage(token) { return try answer(method) }
        try await requireCurrent(token)
        do {
            return try await perform(method, LaunchToken(text: token), body)
        } catch let refusal as CallRefusal {
            throw refusal
        } catch let error as ShellError {
            throw CallRefusal(status: 409, code: error.rawValue, message: error.failure.message)
        } catch {
            let failure = UpdateFailure(error)
            throw CallRefusal(status: 500, code: failure.code.rawValue, message: failure.message)
        }
    }

    /// A page of the shell's own says how it is doing, as every page does, and has nothing else to say.
    private func answer(_ method: String) throws -> JSONObject {
        if ["visibility", "report"].contains(method) { return [:] }
        throw CallRefusal(status: 409, code: "notShown", message: "The device shows no client at present.")
    }

    /// A page of another launch than the one that runs is on its way out, or this server was started after it.
    private func requireCurrent(_ token: String) async throws {
        if await shell.isCurrent(LaunchToken(text: token)) { return }
        throw Self.staleLaunch
    }

    private static let staleLaunch = CallRefusal(
        status: 403, code: "staleLaunch", message: "This page belongs to another launch: load it again.")

    private func perform(_ method: String, _ token: LaunchToken, _ body: JSONObject) async throws -> JSONObject {
        switch method {
        case "checkForUpdates": checks.yield()
        case "startupDidComplete": try await shell.startupDidComplete(token)
        case "getCurrentVersion":
            return ["version": .string(await shell.currentVersion?.shortDescription ?? "unknown")]
        case "isUpdateAvailable": return ["available": .bool(await shell.isUpdateAvailable)]
        case "reload": try await shell.reload()
        case "visibility": await report(visibility: body, token)
        case "report": await shell.pageDidReport(token, Self.complaint(body))
        default: throw CallRefusal(status: 404, code: "unknownMethod", message: "There is no such method.")
        }
        return [:]
    }

    /// A page that is loaded again says farewell late: only the youngest load of a launch is in front.
    private func report(visibility body: JSONObject, _ token: LaunchToken) async {
        let load = body["page"]?.stringValue ?? ""
        let number = body["number"]?.integerValue ?? 0
        if !front.withLock({ $0.take(load, number) }) { return }
        heard.withLock { $0.speak(token) }
        if body["hidden"]?.boolValue == true {
            await shell.pageDidHide(token)
        } else {
            await shell.pageDidShow(token)
        }
    }

    private static func complaint(_ body: JSONObject) -> String {
        let source = body["source"]?.stringValue.map { $0.isEmpty ? "" : " (\($0):\(body["line"]?.integerValue ?? 0))" }
        return (body["message"]?.stringValue ?? "") + (source ?? "")
    }
}
