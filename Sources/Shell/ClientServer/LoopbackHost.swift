package import BundleCore
import BundleDisk
import BundleFormats
package import BundleServe
package import BundleValues
import Synchronization
package import BundleShell

/// Connects a shell to the loopback server: pages call the shell, and its events are sent to pages. The bridge's
/// `Screen` is the shown content.
package final class LoopbackHost: PageHost {
    private let shell: ClientShell
    private let bridge: LoopbackBridge
    private let observe: @Sendable (ShellEvent) -> Void
    private let checks: PageChecks
    private let clock: any Clock<Duration>
    private let stopwatch: Stopwatch
    private let heartbeat: Duration?
    private let watch: Mutex<PageWatch?>
    private let hasLoaded = Mutex(false)
    /// The generation of the page that a browser has loaded last.
    private let shownGeneration = Mutex<Int?>(nil)
    private let isFollowed: @Sendable () -> Bool
    private let lose: @Sendable (String) -> Void
    private let screenFile: ScreenFile?
    private let endpoints: EndpointWatch?
    /// The number of open WebSockets by page load.
    private let connected = Mutex<[String: Int]>([:])
    /// The page without content. It reloads when there is a client.
    private let nothing: Page

    /// Creates a host for a shell that shows its clients through `bridge`. `observe` receives every event. If the
    /// page on the screen reports nothing for `heartbeat`, `lose` receives the reason of its loss. While
    /// `isFollowed` returns false, no program can restart the browser, and losses are ignored. A kiosk has only the
    /// page's window.
    package init(
        _ shell: ClientShell, _ bridge: LoopbackBridge, clock: any Clock<Duration> = SuspendingClock(),
        heartbeat: Duration? = nil, isKiosk: Bool = false, screenFile: ScreenFile? = nil,
        endpoints: EndpointWatch? = nil, isFollowed: @escaping @Sendable () -> Bool = { true },
        lose: @escaping @Sendable (String) -> Void = { _ in },
        observe: @escaping @Sendable (ShellEvent) -> Void
    ) throws {
        nothing = try StatePage.starting.page(bridge.design)
        self.shell = shell
        self.bridge = bridge
        self.observe = observe
        self.clock = clock
        stopwatch = Stopwatch(clock)
        checks = PageChecks(shell, bridge, clock)
        self.heartbeat = heartbeat
        self.isFollowed = isFollowed
        self.lose = lose
        self.screenFile = screenFile
        self.endpoints = endpoints
        watch = Mutex(heartbeat.map { PageWatch(timeout: $0, isKiosk: isKiosk) })
    }

    /// Records that a browser is starting, which has to load the page.
    package func browserStarts() {
        let now = stopwatch.elapsed
        watch.withLock { $0?.starts(at: now) }
    }

    /// Whether a browser has loaded a page since the start of this process.
    package var hasPage: Bool { hasLoaded.withLock(\.self) }

    /// Whether a browser has loaded a page since pages that were shown must not be shown again.
    package var showsPresentPage: Bool { shownGeneration.withLock(\.self) == generation }

    /// Detects lost pages until it is cancelled. A page that recovers reloads itself.
    private func watchPages(_ timeout: Duration) async {
        let pause = min(timeout / 4, .seconds(1))
        var stalls = StallDetector(every: pause, from: stopwatch.elapsed)
        while (try? await clock.sleep(for: pause)) != nil {
            let now = stopwatch.elapsed
            // A page that was suspended with this process gets time to report.
            if clock is SuspendingClock, let stop = stalls.tick(at: now) {
                watch.withLock { $0?.exclude(stop) }
            }
            // Without a program that restarts the browser, a silent page is a tab that a developer has stopped or closed.
            guard let loss = watch.withLock({ $0?.loss(at: now) }), isFollowed() else { continue }
            let token = bridge.withScreen { $0.status.token }
            // A client that is not on trial has confirmed its start, whatever happens to its window.
            if let token, loss.isOfPage { await shell.pageIsLost(token, reason: "its page is lost: \(loss.reason)") }
            bridge.reload()
            lose(loss.reason)
        }
    }

    /// Runs the shell and forwards its events, until it is cancelled.
    package func run() async {
        await withTaskGroup { group in
            group.addTask { await self.shell.run() }
            if let heartbeat { group.addTask { await self.watchPages(heartbeat) } }
            group.addTask {
                for await event in self.shell.events { self.pass(event) }
            }
            group.addTask { await self.checks.run() }
            await group.waitForAll()
        }
        bridge.finish()
    }

    func pass(_ event: ShellEvent) {
        observe(event)
        if case .launched(let name, _) = event {
            for refusal in bridge.withScreen({ $0.refusedOrigins(of: name) }) { observe(.complained(name, refusal)) }
        }
        let now = stopwatch.elapsed
        if case .rolledBack = event { watch.withLock { $0?.isSentAway(at: now) } }
        bridge.withScreen { screen in
            switch event {
            case .updateAvailable(let name): screen.send(update: name)
            case .downloading(let bytes, let size): screen.sendProgress(bytes: bytes, of: size)
            case .failed(let failure): screen.send(error: failure)
            // The page that failed is being replaced; the next page receives the error.
            case .rolledBack(let name, _, let failure): screen.send(error: failure, failed: name)
            case .checked(nil, _): screen.sendUpToDate()
            case .installed, .launched, .confirmed, .checked, .complained, .unconfirmed, .blank: break
            }
        }
    }

    /// Expects a browser to load another page, because the present one is not for the next user: at once if the
    /// device `isLocked`, or else after clearing the data of a session. Otherwise the page is lost.
    package func expectNextPage(isLocked: Bool) {
        let now = stopwatch.elapsed
        watch.withLock { watch in
            if isLocked { watch?.isReplaced(at: now) } else { watch?.isSentAway(at: now) }
        }
        screenFile?.expect(ScreenNote(.replaced, since: .now))
    }

    // MARK: PageHost

    /// Increases when pages that were shown must not be shown again.
    package var generation: Int { bridge.withScreen { $0.generation } }

    /// The last session that ended.
    package var leaving: Leaving? { bridge.withScreen { $0.leaving } }

    /// Returns the page of the running launch, or of a new one whose boot attempt has been written.
    ///
    /// A browser that loads the page shows the client that is ready. Other windows follow.
    package func page(isBrowser: Bool) async throws -> Page {
        let now = stopwatch.elapsed
        if isBrowser {
            hasLoaded.withLock { $0 = true }
            watch.withLock { $0?.loads(at: now) }
            screenFile?.settle()
        }
        while true {
            let (ownPage, generation) = bridge.withScreen { ($0.ownPage, $0.generation) }
            if let ownPage {
                if isBrowser { shownGeneration.withLock { $0 = generation } }
                return ownPage
            }
            do {
                let launched = try await shell.pageWillLoad(takesNext: isBrowser)
                if let page = try bridge.page(of: launched, in: generation) {
                    if isBrowser { shownGeneration.withLock { $0 = generation } }
                    return page
                }
            } catch ShellError.notStarted {
                // The shell has ended its launch, and another page is about to be shown.
                return nothing
            }
        }
    }

    /// Returns the files of the launch that the cookie names, or of the newest one, if they may be shown.
    package func site(ofPage page: String?) -> Site { bridge.withScreen { $0.site(ofPage: page) } ?? nothing.site }

    /// Returns the files of a client without launching it.
    package func site(named name: String) async throws -> Site? {
        guard let name = ClientName(name) else { return nil }
        let (mayShow, site, generation) = bridge.withScreen {
            ($0.mayShow(name), $0.site(visiting: name), $0.generation)
        }
        guard mayShow else { return nil }
        if let site { return site }
        guard let client = try await shell.client(named: name) else { return nil }
        let files = try bridge.open(client)
        return bridge.withScreen { $0.visit(files, in: generation) }
    }

    /// Returns the names of the seed and the installed clients that may be shown.
    package func clients() async throws -> [String] {
        let names = try await shell.clientNames()
        return bridge.withScreen { screen in names.filter(screen.mayShow).map(\.description) }
    }

    /// Records a page of the running launch and this session. Other pages have to reload.
    package func connect(_ name: String, token: String) throws {
        let refusal = bridge.withScreen { $0.isCurrent(token) ? nil : $0.staleLaunch }
        if let refusal { throw refusal }
        let now = stopwatch.elapsed
        connected.withLock { $0[name, default: 0] += 1 }
        watch.withLock { $0?.connects(name, at: now) }
    }

    /// Records the end of a page's WebSocket. Unless the page connects again soon, it has ended.
    package func disconnect(_ name: String, token: String, isOurs: Bool) {
        let now = stopwatch.elapsed
        let isLast = connected.withLock { connected in
            let left = connected[name, default: 1] - 1
            connected[name] = left > 0 ? left : nil
            return left <= 0
        }
        guard isLast else { return }
        watch.withLock { $0?.disconnects(name, isOurs: isOurs, at: now) }
        guard !isOurs, let launch = bridge.withScreen({ $0.launch(ofPage: token) }) else { return }
        Task {
            try? await clock.sleep(for: PageWatch.longestGap)
            if connected.withLock({ $0[name] }) == nil { await shell.pageDidVanish(launch, load: name) }
        }
    }

    /// Returns the events of the running launch's page, beginning with those that it has missed.
    package func events(token: String) async throws -> AsyncStream<PageEvent> {
        guard let events = bridge.listen(token: token) else { throw bridge.withScreen(\.staleLaunch) }
        return events
    }

    /// Carries out a call of a page of the running launch and this session. Other pages have to reload.
    package func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject {
        let (status, isCurrent, launch) = bridge.withScreen {
            ($0.status, $0.isCurrent(token), $0.launch(ofPage: token))
        }
        if method == "heard", bridge.withScreen({ $0.acknowledge(body["id"]?.integerValue ?? 0, token: token) }) {
            return [:]
        }
        // The page is unloading, or older than this server.
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
            throw CallRefusal(status: 409, code: error.code, message: error.failure.message)
        } catch {
            let failure = UpdateFailure(error)
            throw CallRefusal(status: 500, code: failure.code.rawValue, message: failure.message)
        }
    }

    /// Records a report of a page in the watch.
    private func follow(_ method: String, _ body: JSONObject) {
        guard let page = body["page"]?.stringValue, ["heartbeat", "visibility", "farewell"].contains(method) else {
            return
        }
        let (now, isSeen) = (stopwatch.elapsed, body["hidden"]?.boolValue != true)
        let number = body["number"]?.integerValue
        watch.withLock { watch in
            if method == "farewell" {
                watch?.leaves(page, number: number, for: body["to"]?.stringValue ?? "", at: now)
            } else {
                watch?.reports(page, number: number, isSeen: isSeen, at: now)
            }
        }
    }

    /// Responds to a page of the shell itself, which reports its state like every page and has no other calls.
    static func answer(_ method: String) throws -> JSONObject {
        if ["visibility", "report", "heartbeat", "farewell", "busy"].contains(method) { return [:] }
        throw CallRefusal(status: 409, code: "notShown", message: "The device shows no client at present.")
    }

    private func perform(
        _ method: String, _ token: LaunchToken, _ body: JSONObject, _ status: ShellStatus
    ) async throws -> JSONObject {
        switch method {
        case "checkForUpdates": return await checks.outcome()
        case "heartbeat": break
        case "farewell":
            await shell.pageDidLeave(token, for: body["to"]?.stringValue ?? "", report: Self.report(body))
        case "startupDidFail":
            try await shell.pageDidFail(token, reason: body["reason"]?.stringValue ?? "")
        case "startupDidComplete": return try await complete(token, screen: body["screen"]?.stringValue)
        case "endpoint":
            let reason = UntrustedName.display(body["error"]?.stringValue ?? "no reason is known", limit: 200)
            let answer =
                body["status"]?.integerValue.map(RequiredEndpoints.EndpointAnswer.status) ?? .unreachable(reason)
            let asksAgain = endpoints?.note(answer, of: body["endpoint"]?.stringValue ?? "") ?? false
            return ["again": .bool(asksAgain)]
        case "getCurrentVersion": return ["version": .string(status.current?.shortDescription ?? "unknown")]
        case "isUpdateAvailable": return ["available": .bool(status.available != nil)]
        case "getStatus": return try await shell.deviceStatus().members
        case "reload": try await shell.reload()
        case "busy":
            await shell.setBusy(body["busy"]?.boolValue == true, for: token, report: Self.report(body))
        case "visibility": await report(visibility: body, token)
        case "report":
            let complaint = PageComplaint(body)
            await shell.pageDidReport(token, error: complaint.text, isGrave: complaint.isGrave)
        default: throw CallRefusal(status: 404, code: "unknownMethod", message: "There is no such method.")
        }
        return [:]
    }

    /// Confirms a start. `screen` is `empty` if the page shows nothing for now, and `blank` if it still does after some seconds. The
    /// page looks at an empty screen again if the response orders it.
    private func complete(_ token: LaunchToken, screen: String?) async throws -> JSONObject {
        let required = bridge.withScreen(\.clientOnTrial)?.requiredEndpoints ?? []
        if !required.isEmpty { endpoints?.begin() }
        var order: JSONObject = [:]
        switch screen {
        case "empty" where shell.configuration.blankScreens != .allow:
            try await shell.startupDidComplete(token, isBlank: false)
            order["look"] = .bool(true)
        case "blank": try await shell.startupDidComplete(token, isBlank: true)
        default: try await shell.startupDidComplete(token)
        }
        if !required.isEmpty, endpoints != nil { order["endpoints"] = .array(required.map(JSONValue.string)) }
        return order
    }

    private static func report(_ body: JSONObject) -> PageReport {
        PageReport(load: body["page"]?.stringValue ?? "", number: body["number"]?.integerValue ?? 0)
    }

    private func report(visibility body: JSONObject, _ token: LaunchToken) async {
        let report = Self.report(body)
        if body["hidden"]?.boolValue == true {
            await shell.pageDidHide(token, report: report)
        } else {
            await shell.pageDidShow(token, report: report)
        }
    }
}

/// A page error as a page reports it. Its texts are untrusted: their parts in advice are checked, and they contain no
/// `"`, so none of them can be read as advice.
struct PageComplaint: Equatable {
    /// The description for operators.
    let text: String
    /// Whether the start may fail because of the error.
    let isGrave: Bool

    /// Reads the body of a report.
    init(_ body: JSONObject) {
        let url = Self.words(body, "url")
        switch body["kind"]?.stringValue {
        case "missing":
            let element = Self.words(body, "element")
            text = "<\(element)> could not load \(url)"
            isGrave = ["script", "link"].contains(element)
        case "blocked":
            let directive = Self.words(body, "directive")
            let what = "its policy forbids \(url) as \(directive)\(Self.place(body))"
            isGrave = directive.hasPrefix("script-src")
            if body["isOwn"]?.boolValue == true {
                text = what + ", in a policy that the page itself sets"
            } else {
                text =
                    what
                    + (ContentSecurityPolicy.allowance(directive, url).map { ": --csp \"\($0)\" would allow it" } ?? "")
            }
        case "refused":
            let feature = Self.words(body, "feature")
            text =
                "it asked for \(feature), which it may not use\(Self.place(body))"
                + (PagePolicies.allowance(feature).map { ": --permissions \"\($0)\" would allow it" } ?? "")
            isGrave = false
        case "stays":
            text =
                "it did not reload: a person cancelled the dialog of a beforeunload listener, or a script prevents it"
            isGrave = false
        case "worker":
            text =
                "it registers the service worker \(url), which is refused, because it would outlive its client: "
                + "leave the registration out"
            isGrave = false
        default:
            text = Self.words(body, "message") + Self.place(body)
            isGrave = true
        }
    }

    private static func words(_ body: JSONObject, _ member: String) -> String {
        String((body[member]?.stringValue ?? "").map { $0 == "\"" ? "'" : $0 })
    }

    private static func place(_ body: JSONObject) -> String {
        let source = words(body, "source")
        return source.isEmpty ? "" : " (\(source):\(body["line"]?.integerValue ?? 0))"
    }
}
