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

    @OptionGroup var origins: OriginOptions

    @Option(
        help: ArgumentHelp(
            "Device features that pages may use, such as \"camera=(self)\". Repeat it for more. (default: no camera, microphone or geolocation)",
            valueName: "policy"))
    var permissions: [String] = []

    @Option(
        help: ArgumentHelp(
            "Isolation of pages from other windows: separate, popups (windows that a page opens can access it), or isolated (for SharedArrayBuffer). (default: separate)",
            valueName: "mode"), completion: .list(PagePolicies.Isolation.allCases.map(\.rawValue)))
    var crossOrigin: String?

    @Option(
        help: ArgumentHelp(
            "Requests that get the index page if their file does not exist: navigation, or everything as in Cordova. (default: navigation)",
            valueName: "requests"), completion: .list(["navigation", "everything"]))
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

    @Option(
        help: ArgumentHelp(
            "When a bar above the page reports that the newest version needs a newer shell: auto (after the first click, touch or key), on, or off. (default: auto)",
            valueName: "when"), completion: .list(UpdateNotice.Showing.allCases.map(\.rawValue)))
    var notice: String?

    @OptionGroup(title: "Screen") var screen: KioskOptions
    @OptionGroup(title: "Logs and metrics") var agent: AgentOptions
    @OptionGroup(title: "Reports") var reporting: ReportOptions
    @OptionGroup(title: "Reports") var listed: RosterOptions
    @OptionGroup var common: CommonOptions

    func needs() throws -> (confinement: Confinement, startsPrograms: Bool) {
        let store = FlagValue.folders(update.store)
        return (Confinement(folders: try agent.folders(), made: store), screen.startsPrograms)
    }

    func run() async throws {
        let endpoints = EndpointWatch(try FlagValue.startupTimeout(startupTimeout))
        let configuration = try shellConfiguration(endpoints)
        let roster = try listed.sender(update, configuration: configuration)
        let agent = try agent.agent(update.store, roster: roster)
        defer { agent.end() }
        var listening = try Wiring.listening(
            update, push: push, environment: Environment(log: { Output.say($0) }))
        listening.link = { agent.note(link: $0, isUp: $1) }
        let sessions = Wiring.sessions(configuration.device.store)
        let kiosk = try screen.kiosk(sessions)
        let renewal = try screen.renewal(configuration.device.store)
        let design = try design()
        let bridge = LoopbackBridge(design, within: try origins.bound())
        let observer = UpdateObserver { event in
            agent.note(event)
            bridge.note(event)
        }
        let container = try Wiring.container(update, configuration: configuration, report: observer)
        let isOnce = once
        let reporter = try reporting.reporter(update)
        // Opening the store counts a trial without a verdict as failed, so every flag is checked before.
        let pages = try pages(agent, kiosk: kiosk, server: container.followedServer)
        guard
            let begun = try await shell(
                container, bridge: bridge, kiosk: kiosk, agent: agent, sessions: sessions, pages: pages)
        else {
            return agent.stopping()
        }
        let (shell, port) = (begun.shell, begun.port)
        try reporting.turn(on: reporter != nil, update)
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
        try StartedProgram.reapOrphansAsInit()
        if isOnce { try await shell.checkForUpdates() }
        kiosk.follow(start: { host.browserStarts() }, hasPage: { host.hasPage })
        let boot = Self.boot(sessions, shell: shell, bridge: bridge, agent: agent, host: host, kiosk: kiosk)
        let shown = try await boot.first(waits: container.hasSource && !isOnce)
        let application = try await shell.meteorAppId()
        if let port { warn(aboutPort: port, application: application, pages) }
        screenFile.expect(ScreenNote(.started, since: .now))
        let server = try await PageServer.start(pages.configuration(port: port, application: application), host: host)
        // A program that reads the address can end this process at once.
        let signals = begun.signals ?? StopSignals()
        signals.then { verdict.stop() }
        try await announce(server, shell: shell, isKnown: port != nil, agent: agent)
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
            { await agent.run(server, shell: shell) },
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
        await Self.end(shell, server: server, reporter: isOnce ? reporter : nil)
        if isOnce { await roster?.sendOnce() }
        screenFile.settle()
        if status != 0 { throw ExitCode(status) }
    }
}
