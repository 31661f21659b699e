import ArgumentParser
import BundleCore
import BundleServe
import BundleValues
import BundleShell
import ClientServer
import MeteorSource
import Synchronization

extension Serve {
    /// The collaborators that `serve` makes of its flags.
    ///
    /// Opening a store counts a trial without a verdict as failed, so the store opens only with these: every flag is valid by then.
    struct Parts {
        let container: DeviceContainer
        let endpoints: EndpointWatch
        let bridge: LoopbackBridge
        let agent: ServeAgent
        let sessions: FileSessionRepository
        let renewal: SessionRenewal?
        let kiosk: Kiosk
        let pages: Pages
        let listening: Listening
        let reporter: ReportSender?
        let roster: RosterSender?
        let pictures: ScreenPictures?
        /// Nil if `clientctl run` did not start this process.
        let program: ServedProgram?

        var store: String { container.configuration.device.store }
    }

    func parts() throws -> Parts {
        let endpoints = EndpointWatch(try FlagValue.startupTimeout(startupTimeout))
        let configuration = try shellConfiguration(endpoints)
        let roster = try listed.sender(update, configuration: configuration)
        let agent = try agent.agent(update.store, roster: roster)
        var listening = try Wiring.listening(
            update, push: push, environment: Environment(log: { Output.say($0) }))
        listening.link = { agent.note(link: $0, isUp: $1) }
        let sessions = Wiring.sessions(configuration.device.store)
        let kiosk = try screen.kiosk(sessions)
        let pictures =
            try once
            ? nil
            : screen.pictures.pictures(
                to: roster, at: listed.roster, sessions, startupTimeout: configuration.startupTimeout.duration)
        let renewal = try screen.renewal(configuration.device.store)
        let bridge = LoopbackBridge(try design(), within: try origins.bound())
        let container = try Wiring.container(
            update, configuration: configuration, report: UpdateObserver { agent.note($0) })
        let reporter = try reporting.reporter(update)
        return Parts(
            container: container, endpoints: endpoints, bridge: bridge, agent: agent, sessions: sessions,
            renewal: renewal, kiosk: kiosk,
            pages: try pages(agent, kiosk: kiosk, server: container.followedServer), listening: listening,
            reporter: reporter, roster: roster, pictures: pictures,
            program: ServedProgram(hasSource: container.hasSource))
    }

    /// The page of a shell, and what watches it.
    struct PageScreen {
        let shell: ClientShell
        let host: LoopbackHost
        let verdict: FirstVerdict
        let file: ScreenFile
        let boot: ShellBootSequence
    }

    /// `refusal` is the reason why the store does not open yet; nil for an open one.
    func pageScreen(_ parts: Parts, of shell: ClientShell, without refusal: UpdateFailure?) throws -> PageScreen {
        let (agent, kiosk) = (parts.agent, parts.kiosk)
        let verdict = FirstVerdict()
        let files = StatusFiles(parts.store)
        let file = ScreenFile(store: parts.store)
        let isTimed = parts.container.configuration.activation != nil
        let lose: @Sendable (String) -> Void = { reason in
            agent.notePageLost()
            kiosk.lose(reason)
        }
        let host = try LoopbackHost(
            shell, parts.bridge, heartbeat: kiosk.heartbeat, isKiosk: kiosk.startsBrowser, screenFile: file,
            endpoints: parts.endpoints, isFollowed: { kiosk.isFollowed }, lose: lose
        ) { event in
            kiosk.observe(event)
            parts.pictures?.note(event)
            agent.note(event, isTimed: isTimed)
            verdict.hear(event)
            files.record(event)
            parts.program?.hear(event)
        }
        return PageScreen(
            shell: shell, host: host, verdict: verdict, file: file,
            boot: Self.boot(shell, host: host, parts, without: refusal))
    }

    private static func boot(
        _ shell: ClientShell, host: LoopbackHost, _ parts: Parts, without refusal: UpdateFailure?
    ) -> ShellBootSequence {
        let (bridge, sessions, agent, kiosk) = (parts.bridge, parts.sessions, parts.agent, parts.kiosk)
        let pictures = parts.pictures
        let launch = ShellLaunch(shell) {
            guard await bridge.noteEnded(sessions, at: .now) else { return false }
            kiosk.endSession()
            host.expectNextPage(isLocked: false)
            return true
        }
        // A user who has just logged in waits for the client that their token allows.
        return ShellBootSequence(
            sessions: sessions, launch: launch, bridge: bridge,
            log: { if $0 != refusal?.message { logState($0) } },
            report: { state in
                agent.note(state)
                pictures?.note(state)
                if state.isLock { host.expectNextPage(isLocked: true) }
            },
            userDidSignIn: { await shell.checkSoon(within: .zero) })
    }

    /// Boots, and returns what the first page shows.
    func showFirst(
        _ screen: PageScreen, _ parts: Parts, without refusal: UpdateFailure?
    ) async throws -> ShellBootSequence.Shown {
        let host = screen.host
        parts.kiosk.follow(start: { host.browserStarts() }, hasPage: { host.hasPage })
        return try await screen.boot.first(waits: refusal != nil || parts.container.hasSource && !once)
    }

    func startServer(_ screen: PageScreen, _ parts: Parts) async throws -> PageServer {
        let application = try await screen.shell.meteorAppId()
        screen.file.expect(ScreenNote(.started, since: .now))
        return try await PageServer.start(
            parts.pages.configuration(application: application), host: screen.host)
    }

    func noteMissingFeed(_ parts: Parts) {
        if parts.container.hasSource || once { return }
        let text = "no feed is named, so only clients that `clientctl install` adds are shown"
        Log.note(LogLine(level: .info, event: "noFeed", message: text))
    }

    /// Returns what runs until `serve` stops.
    func tasks(
        _ screen: PageScreen, _ parts: Parts, _ server: PageServer, after shown: ShellBootSequence.Shown,
        without refusal: UpdateFailure?
    ) -> [@Sendable () async -> Void] {
        let (shell, host, boot, verdict, isOnce) = (screen.shell, screen.host, screen.boot, screen.verdict, once)
        let pictures = parts.pictures
        let (kiosk, agent, renewal, reporter) = (parts.kiosk, parts.agent, parts.renewal, parts.reporter)
        let (configuration, store, listening) = (parts.container.configuration, parts.store, parts.listening)
        return [
            { await host.run() },
            {
                await kiosk.keepBrowser(
                    at: server.port, mark: store, starting: { host.browserStarts() },
                    restarting: agent.noteBrowserRestart)
            },
            { await kiosk.runHook() },
            { if refusal != nil { await noteOpening(of: shell, server, parts) } },
            {
                await shell.storeOpens(); await renewal?.run()
            },
            { await boot.again(every: configuration.storeInterval, after: shown) },
            { await agent.run(server, shell: shell) },
            { if !isOnce { await shell.storeOpens(); await reporter?.run(ReportCommand.note) } },
            { if !isOnce { await agent.sendStates() } },
            {
                if isOnce { return }
                await pictures?.run(host) { try await kiosk.picture(of: "http://127.0.0.1:\(server.port)/") }
            },
            { if parts.program?.isOnTrial == true { await shell.checkSoon(within: .zero) } },
            {
                if isOnce { return await verdict.limit(configuration.startupTimeout) }
                await shell.storeOpens()
                await listening.run(shell)
            },
        ]
    }

    /// Waits until the store opens, and then does what an open store needs at the start.
    private func noteOpening(of shell: ClientShell, _ server: PageServer, _ parts: Parts) async {
        await shell.storeOpens()
        if Task.isCancelled { return }
        try? reporting.turn(on: parts.reporter != nil, update)
        warn(aboutPort: server.port, application: try? await shell.meteorAppId(), parts.pages)
        parts.agent.ready(server)
    }

    /// Waits for a signal to stop, or until another program is ready.
    static func wait(_ signals: StopSignals, or program: ServedProgram?, of shell: ClientShell) async {
        guard let program else { return await signals.wait() }
        let (running, end) = AsyncStream<Void>.makeStream()
        signals.then {
            program.stop()
            end.finish()
        }
        let watch = Task {
            try await program.untilReplaced(shell)
            end.finish()
        }
        for await _ in running {}
        watch.cancel()
    }

    static func logState(_ message: String) {
        Log.note(LogLine(level: .info, event: "state", message: message))
    }

    /// Runs `tasks` until `end` returns. Returns the exit status of `end`.
    static func run(
        _ tasks: [@Sendable () async -> Void], _ agent: ServeAgent, until end: () async -> Int32
    ) async -> Int32 {
        await withTaskGroup { group in
            for task in tasks { group.addTask(operation: task) }
            let status = await end()
            agent.stopping()
            group.cancelAll()
            return status
        }
    }

    /// Stops the shell and the server. Then sends the reports of `reporter`, which must not have run.
    static func end(_ shell: ClientShell, server: PageServer, reporter: ReportSender?) async {
        await shell.stop()
        await server.stop(grace: .seconds(2))
        await reporter?.sendOnce()
    }

    func shellConfiguration(_ endpoints: EndpointWatch) throws -> ShellConfiguration {
        var configuration = try Wiring.configuration(update, verifies: verifyOnLaunch)
        configuration.visibility = .reported
        // `--once` does not wait for a store.
        configuration.waitsForStore = !once
        configuration.endpointWatch = endpoints
        configuration.healthCheck = try screen.healthCheck()
        configuration.startupTimeout = try FlagValue.startupTimeout(startupTimeout)
        configuration.blankScreens = try blankScreens()
        (configuration.polling, configuration.retryPause) = try polling()
        configuration.activation = try activationWindow.map { text in
            try FlagValue.parsed(text, of: "activation-window") { try ActivationWindows(parsing: $0) }
        }
        return configuration
    }

    private func blankScreens() throws -> BlankScreens {
        guard let blank else { return .fail }
        guard let consequence = BlankScreens(rawValue: blank) else {
            throw ValidationError("--blank takes fail, warn or allow, not \(UntrustedName.display(blank)).")
        }
        return consequence
    }

    /// Returns how often the device checks, and how long it does not try a failed client again. `polling` is nil without a feed, and with
    /// `--once`.
    func polling() throws -> (polling: ShellConfiguration.Polling?, retryPause: Duration) {
        let text = checkInterval ?? "15m"
        let interval = try FlagValue.duration(text, of: "check-interval")
        if interval < .seconds(1) { throw ValidationError("--check-interval takes 1s or more, not \(text).") }
        if once { return (nil, interval) }
        let (feed, meteor) = try Wiring.places(update)
        let polling = ShellConfiguration.Polling(PollPace(every: interval), yields: checkInterval == nil)
        return (feed != nil || meteor != nil ? polling : nil, interval)
    }

    /// The server configuration from the flags.
    struct Pages: Sendable {
        /// The configuration without its final port.
        var configuration: ServerConfiguration
        /// The port of `--port`; nil if it is derived.
        let port: Int?
        /// The application of `--app-id`; nil if the client names it.
        let appId: String?

        /// Returns the configuration with its port: `--port`, or the port that is derived from `--app-id` or from `application`, which a
        /// Meteor bundle names.
        func configuration(application: String?) -> ServerConfiguration {
            var configuration = configuration
            configuration.port = port.map { .fixed($0) } ?? .derived(appId: appId ?? application)
            return configuration
        }
    }

    /// Reads the flags of the server. Allows pages to connect to `server`, the Meteor server that the device follows.
    func pages(_ agent: ServeAgent, kiosk: Kiosk, server: MeteorServerOptions?) throws -> Pages {
        let appId = update.appId
        let platform = try capacitorPlatform.map { text in
            guard let platform = CapacitorPlatform(text) else {
                throw ValidationError(
                    "--capacitor-platform takes a name of lower-case letters, digits and hyphens, not "
                        + "\(UntrustedName.display(text)).")
            }
            return platform
        }
        var configuration = ServerConfiguration(port: .derived(appId: appId), bridge: try .page(platform: platform))
        configuration.opensSockets = true
        configuration.metrics = agent.metrics
        configuration.kiosk = kiosk.ordersForKiosk
        if screen.pictures.taking.picture { configuration.picture = { kiosk.receive($0, token: $1) } }
        configuration.heartbeat = kiosk.heartbeat / 4
        configuration.idleReset = try screen.idleTime()
        switch fallback {
        case nil, "navigation"?: configuration.fallback = .navigation
        case "everything"?: configuration.fallback = .everything
        case let text?:
            throw ValidationError("--fallback takes navigation or everything, not \(UntrustedName.display(text)).")
        }
        for text in csp {
            configuration.extraSources.merge(try Self.sources(text), uniquingKeysWith: +)
        }
        configuration.policies = try policies()
        configuration.environment.log = { Output.warn($0) }
        configuration.allowConnections(to: server)
        return Pages(configuration: configuration, port: try FlagValue.port(port), appId: appId)
    }

    func design() throws -> ScreenDesign {
        let notice = try notice.map { text in
            guard let notice = UpdateNotice.Showing(rawValue: text) else {
                throw ValidationError("--notice takes auto, on or off, not \(UntrustedName.display(text)).")
            }
            return notice
        }
        return ScreenDesign(
            texts: try texts.map { try ScreenTexts(file: $0) } ?? .standard,
            style: try style.map { try ScreenStyle(file: $0) },
            device: listed.name ?? MachineIdentity.hostName, notice: notice ?? .auto)
    }

    /// Warns if the seed is shown on a port other than that of `application`, which is unknown until the store opens.
    func warn(aboutPort port: Int, application: String?, _ pages: Pages) {
        guard let application, pages.port == nil, pages.appId == nil else { return }
        let own = PortChoice.port(forAppId: application)
        if own == port { return }
        Output.warn(
            "the client's own port is \(own), but serve uses \(port) until it restarts: pages cannot read data that they "
                + "stored at \(own). Choose a port with --port.")
    }

    func policies() throws -> PagePolicies {
        var policies = PagePolicies()
        for item in permissions.flatMap({ $0.split(separator: ",") }) {
            let parts = item.split(separator: "=", maxSplits: 1).map { $0.trimmingPrefix { $0 == " " } }
            guard parts.count == 2, parts[1] == "*" || parts[1].hasPrefix("(") && parts[1].hasSuffix(")"),
                PagePolicies.isFeature(parts[0])
            else {
                throw ValidationError(
                    "--permissions takes features and the origins that may use them, such as \"camera=(self), midi=()\", not "
                        + "\(UntrustedName.display(String(item))).")
            }
            policies.permissions[String(parts[0])] = String(parts[1])
        }
        if let text = crossOrigin {
            guard let isolation = PagePolicies.Isolation(rawValue: text) else {
                throw ValidationError(
                    "--cross-origin takes separate, popups or isolated, not \(UntrustedName.display(text)).")
            }
            policies.isolation = isolation
        }
        return policies
    }

    /// Parses a policy in the form of its header: directives with their sources, separated by semicolons.
    static func sources(_ policy: String) throws -> [String: [String]] {
        var sources: [String: [String]] = [:]
        for directive in policy.split(separator: ";") {
            let words = directive.split(separator: " ").map(String.init)
            guard let name = words.first else { continue }
            if words.count == 1 {
                throw ValidationError("--csp: \(UntrustedName.display(name)) has no source. Add one.")
            }
            sources[name, default: []] += words.dropFirst()
        }
        if sources.isEmpty {
            throw ValidationError("--csp has no directive. Write \"connect-src https://api.example.com\".")
        }
        return sources
    }

    /// Prints the address, and warns if nothing can be shown without a store.
    func announce(_ server: PageServer, shell: ClientShell, without refusal: UpdateFailure?) async throws {
        let next = await shell.nextLaunch
        let names = try await refusal == nil ? shell.clientNames() : next.map { [$0] } ?? []
        if let refusal, next == nil {
            Output.warn(
                "\(refusal.message) No client is shown until the store opens; serve tries again every 2 seconds.")
        }
        let url = "http://127.0.0.1:\(server.port)/"
        if server.port != server.wantedPort {
            Output.warn(
                "port \(server.wantedPort) is in use, so serve listens on \(server.port): pages cannot read data that they "
                    + "stored at \(server.wantedPort). Free the port, or choose one with --port.")
        }
        Output.give(
            json: common.json,
            [
                "url": .string(url), "port": .integer(server.port),
                "versions": .array(names.map { .string($0.description) }),
                "next": .string(orNull: next?.description),
            ], lines: [url])
    }
}

/// Waits for the verdict on the first client that `serve --once` shows.
final class FirstVerdict: Sendable {
    private enum Verdict { case good, failed(FailureCode), unseen(Duration) }

    /// The time for loading the page, in startup timeouts. The browser may still have to start.
    private static let loadTimeouts = 3

    private let isShown = Mutex(false)
    private let verdicts: AsyncStream<Verdict>
    private let given: AsyncStream<Verdict>.Continuation

    init() {
        (verdicts, given) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }

    func hear(_ event: ShellEvent) {
        if case .launched = event { isShown.withLock { $0 = true } }
        switch event {
        // A client that is not on trial has confirmed an earlier start or is the seed.
        case .confirmed, .launched(_, isTrial: false): given.yield(.good)
        case .rolledBack(_, _, let failure): given.yield(.failed(failure.code))
        case .launched, .updateAvailable, .downloading, .installed, .failed, .checked, .complained, .unconfirmed,
            .blank:
            break
        }
    }

    /// Fails the client if no browser loads the page in time, because such a page neither confirms nor fails.
    func limit(_ timeout: StartupTimeout) async {
        let limit = timeout.duration * Self.loadTimeouts
        do { try await Task.sleep(for: limit) } catch { return }
        if !isShown.withLock({ $0 }) { given.yield(.unseen(limit)) }
    }

    /// Ends the wait for a verdict.
    func stop() { given.finish() }

    /// Returns the exit status of the verdict. A stop before the verdict counts as a failure.
    func status() async -> Int32 {
        for await verdict in verdicts {
            switch verdict {
            case .good: return 0
            case .failed(let code): return code.exitStatus
            case .unseen(let limit):
                Output.warn(
                    "no browser has loaded the page within \(limit): open its address, or raise --startup-timeout"
                )
                return FailureCode.healthFailed.exitStatus
            }
        }
        Output.say("stopped before the client confirmed its start")
        return FailureCode.healthFailed.exitStatus
    }
}

/// Stores the errors of pages and of checks for `clientctl status`, which cannot ask a running `serve`.
struct StatusFiles {
    private let complaints: ComplaintFile
    private let check: CheckFile

    init(_ store: String) { (complaints, check) = (ComplaintFile(store: store), CheckFile(store: store)) }

    /// Stores the error in `event`. If the disk is full, the page is still shown, and the log has the error.
    func record(_ event: ShellEvent) {
        do {
            switch event {
            case .launched(let name, _): try complaints.clear(name)
            case .complained(let name, let complaint): try complaints.add(complaint, of: name)
            case .unconfirmed(let name, let what):
                try complaints.add(ComplaintFile.unconfirmed(what), of: name)
            case .blank(let name, isOver: false):
                try complaints.add("it confirmed its start, and its screen is blank", of: name)
            case .checked(let failure, _): try check.record(failure, at: .now)
            default: break
            }
        } catch {
            let subject = if case .checked = event { "the result of the check" } else { "the page error" }
            Log.note(
                LogLine(
                    level: .warning, event: "complained",
                    message: "\(subject) cannot be stored for `clientctl status`: \(UpdateFailure(error).message)"))
        }
    }
}
