import ArgumentParser
import BundleCore
import BundleDisk
import ClientShell
import BundleValues
import BundleServe
import MeteorSource

/// `clientctl serve`.
struct Serve: AsyncParsableCommand, ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve the client to a browser on this machine, and roll it back when it fails.",
        discussion: """
            Prints its address when it listens. Open that address in a browser. The page
            calls WebAppLocalServer.startupDidComplete() when it works. A new version that
            does not call it in time is rolled back in the same window. It is tried once
            more, then blocked. SIGTERM and SIGINT end the command.

            With --meteor, or --trust and --channel or --manifest, it checks for updates.
            Without them, it detects the versions that `clientctl install` adds. With
            --push, a host (`clientctl feed serve`) announces changes of the channel, and
            the command checks at once, or at a random moment within the jitter of the
            channel. A Meteor server announces new versions over DDP, and the command
            checks within 30 seconds.

            It checks for updates every 15 minutes. Change the interval with
            --check-interval, or for a whole fleet with `clientctl channel set --poll`.
            Checks are spread out at random. The first comes within a minute, and at once
            on a device that has nothing to show. While the feed fails, the pause between
            checks grows from a minute to four intervals. A server can request a longer
            wait (Retry-After), up to four intervals and an hour.

            A new client appears when the page loads again. With --activation-window, it
            appears by itself, and only in these times: `always` for a screen without a
            user, or the night. At other times, it waits until the page requests it or
            the shell starts.
            --once checks at once and ends with the verdict: 0 if the client confirms its
            start, 40 if it is rolled back, 41 if the device has blocked it.

            After the first `clientctl session login`, the device requires a session.
            Users who are logged in see the client. Other users see the seed. A locked
            device shows a single message. Changes appear within a second.

            With --browser, it also starts the browser. It starts the browser again when
            the browser ends, or when the visible page sends no heartbeat for the time of
            --heartbeat. `clientctl kiosk` runs the browser as another user, who cannot
            read the store.

            With --report, it sends the events of each version to a host or to
            VictoriaMetrics. It sends each event once, without the device's identity.

            With --roster, it sends the state of this device, with its name, to a host
            that lists devices (`fleet list`). The guide explains each member.

            Under systemd, it reports when it is ready. With WatchdogSec=, it also reports
            that it works. GET /__clientctl/v1/metrics returns metrics in the text format
            of Prometheus, to this machine only. --metrics-file writes the same metrics to
            a file for node_exporter.

            Examples:
              clientctl serve --store /var/lib/clientctl \\
                --seed /usr/share/kiosk/www
              clientctl serve --store /var/lib/clientctl \\
                --manifest https://updates.example.com/manifest.json \\
                --trust /etc/kiosk/keys --check-interval 15m \\
                --csp "connect-src https://api.example.com; script-src 'unsafe-eval'"
              clientctl serve --store /var/lib/clientctl \\
                --channel https://updates.example.com/channels/stable.json \\
                --trust /etc/kiosk/trust.json --push wss://updates.example.com/push
              clientctl serve --store /var/lib/clientctl \\
                --meteor https://app.example.com/ --seed /usr/share/kiosk/www
              clientctl serve --store /var/lib/clientctl \\
                --channel https://updates.example.com/channels/stable.json \\
                --trust /etc/kiosk/trust.json --activation-window "Mon-Fri 02:00-04:00"
            """)

    @OptionGroup var update: UpdateOptions

    @Flag(help: "Compare every file with its install record before a client is launched.")
    var verifyOnLaunch = false

    @Option(
        help: ArgumentHelp(
            "Port to listen on. If it is derived and in use, the next free port. (default: from the ID of the application, which --app-id or a Meteor client names, otherwise 12000)",
            valueName: "n"))
    var port: String?

    @Option(
        help: ArgumentHelp("Time in which a new version must confirm its start. (default: 10s)", valueName: "duration"))
    var startupTimeout: String?

    @Option(
        help: ArgumentHelp(
            "Time between two checks for updates. (default: the interval of the channel, otherwise 15m)",
            valueName: "duration"))
    var checkInterval: String?

    @Option(
        help: ArgumentHelp(
            "Address at which a host announces changes of the feed, such as wss://updates.example.com/push.",
            valueName: "url"))
    var push: String?

    @Option(
        help: ArgumentHelp(
            "Local times in which a new client appears by itself: always, or such as 02:00-04:00 or \"Mon-Fri 22:00-01:30\". (default: when the page loads again)",
            valueName: "times"))
    var activationWindow: String?

    @Flag(help: "Check for updates once, show the client, and end with its verdict.")
    var once = false

    @Option(
        help: ArgumentHelp(
            "Additional sources for directives of the content security policy. The log names the sources that a page lacks. Repeat it for more.",
            valueName: "policy"))
    var csp: [String] = []

    @Option(
        help: ArgumentHelp(
            "Device features that pages may use, such as \"camera=(self)\". Repeat it for more. (default: no camera, microphone or geolocation)",
            valueName: "policy"))
    var permissions: [String] = []

    @Option(
        help: ArgumentHelp(
            "Isolation of pages from other windows: separate, popups (windows that a page opens can access it), or isolated (for SharedArrayBuffer). (default: separate)",
            valueName: "mode"))
    var crossOrigin: String?

    @Option(
        help: ArgumentHelp(
            "Requests that get the index page if their file does not exist: navigation, or everything as in Cordova. (default: navigation)",
            valueName: "requests"))
    var fallback: String?

    @Option(
        help: ArgumentHelp(
            "Platform that Capacitor's getPlatform() returns in pages that ask for a native one, such as electron. (default: web)",
            valueName: "name"))
    var capacitorPlatform: String?

    @Option(
        help: ArgumentHelp(
            "JSON file with texts of the pages that serve shows itself, by language. (default: English, French, German, Japanese and Spanish)",
            valueName: "file"), completion: .file())
    var texts: String?

    @Option(
        help: ArgumentHelp(
            "CSS file for the pages that serve shows itself. It cannot load resources.", valueName: "file"),
        completion: .file())
    var style: String?

    @OptionGroup var screen: KioskOptions
    @OptionGroup var agent: AgentOptions
    @OptionGroup var reporting: ReportOptions
    @OptionGroup var listed: RosterOptions
    @OptionGroup var common: CommonOptions

    func needs(_ settings: Settings) throws -> (confinement: Confinement, startsPrograms: Bool) {
        let store = try settings.folders("store", update.store)
        return (Confinement(folders: try agent.folders(settings), made: store), try screen.startsPrograms(settings))
    }

    func run() async throws {
        let settings = try common.settings()
        let endpoints = EndpointWatch(try timeout(settings))
        let configuration = try shellConfiguration(settings, endpoints)
        let roster = try listed.sender(update, configuration, settings)
        let agent = try agent.agent(update.store, roster: roster, settings)
        defer { agent.end() }
        var listening = try Wiring.listening(update, push: push, settings, say: { Output.say($0) })
        listening.link = { agent.note(link: $0, isUp: $1) }
        let sessions = Wiring.sessions(configuration.device.store)
        let kiosk = try screen.kiosk(settings, sessions)
        let renewal = try screen.renewal(settings, configuration.device.store)
        let design = try design(settings)
        let bridge = LoopbackBridge(design)
        let container = try Wiring.container(update, configuration, settings) { event in
            agent.note(event)
            bridge.note(event)
        }
        let isOnce = try settings.isOn("once", once)
        let reporter = try reporting.reporter(update, settings)
        // Opening the store counts a trial without a verdict as failed, so every flag is checked before.
        let pages = try pages(settings, agent, kiosk, server: container.followedServer)
        guard let begun = try await shell(container, bridge, kiosk, agent, sessions, pages, settings)
        else {
            return agent.stopping()
        }
        let (shell, port) = (begun.shell, begun.port)
        try reporting.turn(on: reporter != nil, update, settings)
        let verdict = FirstVerdict()
        let complaints = PageComplaints(configuration.device.store)
        let lose: @Sendable (String) -> Void = { reason in
            agent.notePageLost()
            kiosk.lose(reason)
        }
        let screenFile = ScreenFile(store: configuration.device.store)
        let host = try LoopbackHost(
            shell, bridge, heartbeat: kiosk.heartbeat, isKiosk: kiosk.startsBrowser, screenFile: screenFile,
            endpoints: endpoints, isFollowed: { kiosk.isFollowed }, lose: lose
        ) { event in
            kiosk.observe(event)
            agent.note(event, isTimed: configuration.activation != nil)
            verdict.hear(event)
            complaints.hear(event)
        }
        if isOnce { try await shell.checkForUpdates() }
        kiosk.onStart { host.browserStarts() }
        let boot = Self.boot(sessions, shell, bridge, agent, host, kiosk)
        let shown = try await boot.first(waits: container.hasSource && !isOnce)
        let application = try await shell.meteorAppId()
        if let port { warn(aboutPort: port, application: application, pages) }
        screenFile.expect(ScreenNote(.started, since: .now))
        let server = try await PageServer.start(
            pages.configuration(port: port, application: application), host: host)
        // A program that reads the address can end this process at once.
        let signals = begun.signals ?? StopSignals()
        signals.then { verdict.stop() }
        try await announce(server, shell, isKnown: port != nil, settings, agent)
        if !container.hasSource, !isOnce {
            let text = "no feed is named, so only clients that `clientctl install` adds are shown"
            Log.note(LogLine(level: .info, event: "noFeed", message: text))
        }
        let tasks: [@Sendable () async -> Void] = [
            { await host.run() },
            {
                await kiosk.keepBrowser(
                    at: server.port, of: configuration.device.store, starting: { host.browserStarts() },
                    restarting: agent.noteBrowserRestart)
            },
            { await kiosk.runHook() },
            { await renewal?.run() },
            { await boot.again(every: configuration.storeInterval, after: shown) },
            { await agent.run(server, shell) },
            { if !isOnce { await reporter?.run(ReportCommand.note) } },
            { if !isOnce { await agent.sendStates() } },
            { [listening] in
                if isOnce { await verdict.limit(configuration.startupTimeout) } else { await listening.run(shell) }
            },
        ]
        let status = await Self.run(tasks, agent) {
            if isOnce { return await verdict.status() }
            await signals.wait()
            return 0
        }
        await Self.end(shell, server, isOnce ? reporter : nil)
        if isOnce { await roster?.sendOnce() }
        screenFile.settle()
        if status != 0 { throw ExitCode(status) }
    }
}

extension Serve {
    /// Returns the check of a client on trial: its required endpoints, then the command of `--health-command`.
    private static func healthCheck(_ endpoints: EndpointWatch, then command: HealthCheck?) -> HealthCheck {
        { client in
            let (required, command) = (client.requiredEndpoints, command?(client))
            if required.isEmpty { return command }
            return {
                let result = await endpoints.check(required)
                return result == .passed ? await command?() ?? .passed : result
            }
        }
    }

    private static func boot(
        _ sessions: FileSessionRepository, _ shell: ClientShell, _ bridge: LoopbackBridge, _ agent: ServeAgent,
        _ host: LoopbackHost, _ kiosk: Kiosk
    ) -> ShellBootSequence {
        let launch = ShellLaunch(shell) {
            guard await bridge.noteEnded(sessions, at: .now) else { return false }
            kiosk.endSession()
            host.expectNextPage(isLocked: false)
            return true
        }
        // A user who has just logged in waits for the client that their token allows.
        return ShellBootSequence(
            sessions: sessions, launch, bridge, say: logState,
            tell: { state in
                agent.note(state)
                if state.isLock { host.expectNextPage(isLocked: true) }
            },
            welcome: { await shell.checkSoon(within: .zero) })
    }

    private static func logState(_ message: String) {
        Log.note(LogLine(level: .info, event: "state", message: message))
    }

    /// Runs `tasks` until `end` returns. Returns the exit status of `end`.
    private static func run(
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
    private static func end(_ shell: ClientShell, _ server: PageServer, _ reporter: ReportSender?) async {
        await shell.stop()
        await server.stop(grace: .seconds(2))
        await reporter?.sendOnce()
    }

    private func timeout(_ settings: Settings) throws -> StartupTimeout {
        guard let text = try settings.optional("startup-timeout", startupTimeout) else { return .standard }
        return try settings.parsed("startup-timeout", text) {
            try StartupTimeout(try DurationText(parsing: $0).duration)
        }
    }

    private func shellConfiguration(
        _ settings: Settings, _ endpoints: EndpointWatch
    ) throws -> ShellConfiguration {
        var configuration = try Wiring.configuration(update, verifies: verifyOnLaunch, settings)
        configuration.visibility = .reported
        configuration.healthCheck = Self.healthCheck(endpoints, then: try screen.healthCheck(settings))
        configuration.startupTimeout = try timeout(settings)
        (configuration.polling, configuration.retryPause) = try polling(settings)
        configuration.activation = try settings.optional("activation-window", activationWindow).map { text in
            try settings.parsed("activation-window", text) { try ActivationWindows(parsing: $0) }
        }
        return configuration
    }

    /// Returns how often the device checks, and how long it does not try a failed client again. `polling` is nil without a feed, and with
    /// `--once`.
    private func polling(
        _ settings: Settings
    ) throws -> (polling: ShellConfiguration.Polling?, retryPause: Duration) {
        let given = try settings.optional("check-interval", checkInterval)
        let text = given ?? "15m"
        let interval = try settings.parsed("check-interval", text) { try DurationText(parsing: $0).duration }
        if interval < .seconds(1) { throw ValidationError("--check-interval takes 1s or more, not \(text).") }
        if try settings.isOn("once", once) { return (nil, interval) }
        let (feed, meteor) = try Wiring.places(update, settings)
        let polling = ShellConfiguration.Polling(PollPace(every: interval), yields: given == nil)
        return (feed != nil || meteor != nil ? polling : nil, interval)
    }

    /// The server configuration from the flags.
    private struct Pages: Sendable {
        /// The configuration without its final port.
        var configuration: ServerConfiguration
        /// The port of `--port`; nil if it is derived.
        let port: Int?
        /// The application of `--app-id`; nil if the client names it.
        let appId: String?

        /// Returns the configuration with its port: `given`, on which the seed is already shown, `--port`, or the port that is derived
        /// from `--app-id` or from `application`, which a Meteor bundle names.
        func configuration(port given: Int?, application: String?) -> ServerConfiguration {
            var configuration = configuration
            configuration.port = (given ?? port).map { .fixed($0) } ?? .derived(appId: appId ?? application)
            return configuration
        }
    }

    /// Reads the flags of the server. Allows pages to connect to `server`, the Meteor server that the device follows.
    private func pages(
        _ settings: Settings, _ agent: ServeAgent, _ kiosk: Kiosk, server: MeteorServerOptions?
    ) throws -> Pages {
        let appId = try settings.optional("app-id", update.appId)
        let platform = try settings.optional("capacitor-platform", capacitorPlatform).map { text in
            guard let platform = CapacitorPlatform(text) else {
                throw ValidationError(
                    "--capacitor-platform takes a name of lower-case letters, digits and hyphens, not "
                        + "\(UntrustedName.display(text)).")
            }
            return platform
        }
        var configuration = ServerConfiguration(
            port: .derived(appId: appId), bridge: try .page(platform: platform))
        configuration.metrics = agent.metrics
        configuration.kiosk = kiosk.ordersForKiosk
        configuration.heartbeat = kiosk.heartbeat / 4
        switch try settings.optional("fallback", fallback) {
        case nil, "navigation"?: configuration.fallback = .navigation
        case "everything"?: configuration.fallback = .everything
        case let text?:
            throw ValidationError("--fallback takes navigation or everything, not \(UntrustedName.display(text)).")
        }
        for text in try settings.list("csp", csp) {
            configuration.extraSources.merge(try Self.sources(text), uniquingKeysWith: +)
        }
        configuration.policies = try policies(settings)
        configuration.say = { Output.warn($0) }
        if let server {
            configuration.extraSources["connect-src", default: []] += Self.connections(to: server.rootURL.origin)
        }
        return Pages(configuration: configuration, port: try settings.port(port), appId: appId)
    }

    private func design(_ settings: Settings) throws -> ScreenDesign {
        ScreenDesign(
            texts: try settings.optional("texts", texts).map { try ScreenTexts(file: $0) } ?? .standard,
            style: try settings.optional("style", style).map { try ScreenStyle(file: $0) })
    }

    /// Warns if the seed was shown on a port other than that of `application`, which is unknown until the store opens.
    private func warn(aboutPort port: Int, application: String?, _ pages: Pages) {
        guard let application, pages.port == nil, pages.appId == nil else { return }
        let own = PortChoice.port(forAppId: application)
        if own == port { return }
        Output.warn(
            "the client's own port is \(own), but serve uses \(port) until it restarts: pages cannot read data that they "
                + "stored at \(own). Choose a port with --port.")
    }

    private func policies(_ settings: Settings) throws -> PagePolicies {
        var policies = PagePolicies()
        for item in try settings.list("permissions", permissions).flatMap({ $0.split(separator: ",") }) {
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
        if let text = try settings.optional("cross-origin", crossOrigin) {
            guard let isolation = PagePolicies.Isolation(rawValue: text) else {
                throw ValidationError(
                    "--cross-origin takes separate, popups or isolated, not \(UntrustedName.display(text)).")
            }
            policies.isolation = isolation
        }
        return policies
    }

    /// Returns the sources of a Meteor server, to which its pages connect over HTTP and WebSockets.
    private static func connections(to origin: FetchURL.Origin) -> [String] {
        let host = "\(origin.host):\(origin.port)"
        return origin.scheme == .https ? ["https://\(host)", "wss://\(host)"] : ["http://\(host)", "ws://\(host)"]
    }

    /// Parses a policy in the form of its header: directives with their sources, separated by semicolons.
    private static func sources(_ policy: String) throws -> [String: [String]] {
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

    private func announce(
        _ server: PageServer, _ shell: ClientShell, isKnown: Bool, _ settings: Settings, _ agent: ServeAgent
    ) async throws {
        if !isKnown {
            try announce(server, try await shell.clientNames(), next: await shell.nextLaunch, settings)
        }
        agent.ready(server)
    }

    private func announce(
        _ server: PageServer, _ names: [ClientName], next: ClientName?, _ settings: Settings
    ) throws {
        let url = "http://127.0.0.1:\(server.port)/"
        if server.port != server.wantedPort {
            Output.warn(
                "port \(server.wantedPort) is in use, so serve listens on \(server.port): pages cannot read data that they "
                    + "stored at \(server.wantedPort). Free the port, or choose one with --port.")
        }
        Output.give(
            json: try settings.isOn("json", common.json),
            [
                "url": .string(url), "port": .integer(server.port),
                "versions": .array(names.map { .string($0.description) }),
                "next": .string(orNull: next?.description),
            ], [url])
    }
}

// MARK: Without a store

extension Serve {
    private static let diskInterval = Duration.seconds(2)

    /// Returns the shell when its store opens. The disk can be mounted, cleared or repaired later, so an error of the store does not end
    /// the process. Until the store opens, serves the seed from its folder. In that case, also returns the port and the signal handler.
    /// Returns nil if a signal to stop arrives first.
    private func shell(
        _ container: DeviceContainer, _ bridge: LoopbackBridge, _ kiosk: Kiosk, _ agent: ServeAgent,
        _ sessions: FileSessionRepository, _ pages: Pages, _ settings: Settings
    ) async throws -> (shell: ClientShell, port: Int?, signals: StopSignals?)? {
        let refusal: any Error
        do {
            return (try container.shell(bridge: bridge), nil, nil)
        } catch  where Launcher.isWithoutStore(error) {
            // `--once` does not wait for a store. Without a seed, there is nothing to show while a path is wrong.
            let canRecover = (error as? DiskError)?.isWriteRefusal == true
            if try settings.isOn("once", once) || (container.configuration.device.seed == nil && !canRecover) {
                throw error
            }
            refusal = error
        }
        // A program that reads the output can end this process at once.
        let (running, end) = AsyncStream<Void>.makeStream()
        let signals = StopSignals()
        signals.then { end.finish() }
        let screen = try await screenWithoutStore(container, refusal, kiosk, agent, sessions, pages, settings)
        let shell = try await withThrowingTaskGroup(of: ClientShell?.self) { group in
            group.addTask {
                await withTaskGroup { group in
                    group.addTask { await kiosk.keepBrowser(at: screen.server.port) }
                    group.addTask {
                        await screen.boot.again(every: container.configuration.storeInterval, after: screen.shown)
                    }
                    group.addTask { await agent.run(screen.server) }
                    group.addTask { await agent.sendStates() }
                    for await _ in running {}
                    group.cancelAll()
                }
                return nil
            }
            group.addTask { try await Self.shell(container, bridge, after: refusal) }
            defer { group.cancelAll() }
            return try await group.next().flatMap(\.self)
        }
        await screen.server.stop(grace: .zero)
        return shell.map { ($0, screen.server.port, signals) }
    }

    /// Returns the shell when the store opens. Logs each new reason why it does not open.
    private static func shell(
        _ container: DeviceContainer, _ bridge: LoopbackBridge, after refusal: any Error
    ) async throws -> ClientShell {
        var logged = UpdateFailure(refusal).message
        while true {
            try await Task.sleep(for: diskInterval)
            do {
                return try container.shell(bridge: bridge)
            } catch {
                let message = UpdateFailure(error).message
                if message != logged { Output.warn("\(message) serve tries again every 2 seconds.") }
                logged = message
            }
        }
    }

    /// Starts a server that shows the seed, or the reason why there is no seed, until the store opens.
    private func screenWithoutStore(
        _ container: DeviceContainer, _ refusal: any Error, _ kiosk: Kiosk, _ agent: ServeAgent,
        _ sessions: FileSessionRepository, _ pages: Pages, _ settings: Settings
    ) async throws -> (server: PageServer, boot: ShellBootSequence, shown: ShellBootSequence.Shown) {
        let device = container.configuration.device
        let reason = UpdateFailure(refusal)
        let bridge = LoopbackBridge(try design(settings))
        let host = try SeedHost(bridge, because: reason, say: { Output.warn($0) }) { warn in
            try Launcher.launch(device, withoutStore: refusal, warn: warn)
        }
        let boot = ShellBootSequence(
            sessions: sessions,
            SeedLaunch(host) { if await bridge.noteEnded(sessions, at: .now) { kiosk.endSession() } }, bridge,
            say: { if $0 != reason.message { Self.logState($0) } }, tell: { agent.note($0) })
        let shown = try await boot.first(waits: true)
        let name = host.seed
        if name == nil {
            Output.warn(
                "\(reason.message) No client is shown until the store opens; serve tries again every 2 seconds.")
        }
        let application = try? device.seed.flatMap { try SeedFolder(at: $0, layout: device.layout).facts?.appId }
        let server = try await PageServer.start(
            pages.configuration(port: nil, application: application), host: host)
        try announce(server, name.map { [$0] } ?? [], next: name, settings)
        agent.ready(server)
        return (server, boot, shown)
    }
}
