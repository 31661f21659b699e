import ArgumentParser
import BundleCore
import BundleDisk
import BundleShell
import ClientServer
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
            that lists devices (`fleet list`). The guide explains each member. With
            --picture, it also sends pictures of its screen: of the browser of --browser or
            of `clientctl kiosk --picture`, never while a session of a user is open.

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
              clientctl serve --store /var/lib/clientctl --seed /usr/share/kiosk/www \\
                --roster https://updates.example.com/roster --name "Lobby 3" --picture \\
                --browser "chromium --kiosk --user-data-dir={profile} {url}"
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
            "Consequence of a start that a page confirms while its screen stays blank: fail (rolls back a version on trial, and warns afterwards), warn, or allow. (default: fail)",
            valueName: "what"), completion: .list(BlankScreens.allCases.map(\.rawValue)))
    var blank: String?

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
        return (
            Confinement(folders: try agent.folders() + ProgramVariables.folders, made: store), screen.startsPrograms
        )
    }

    func run() async throws {
        let parts = try parts()
        defer { parts.agent.end() }
        // The disk can be mounted, cleared or repaired later, so an error of the store does not end the process.
        let shell = try parts.container.shell(bridge: parts.bridge)
        let refusal = await shell.storeRefusal
        if refusal == nil { try reporting.turn(on: parts.reporter != nil, update) }
        let screen = try pageScreen(parts, of: shell, without: refusal)
        try StartedProgram.reapOrphansAsInit()
        if once { try await shell.checkForUpdates() }
        let shown = try await showFirst(screen, parts, without: refusal)
        let server = try await startServer(screen, parts)
        // A program that reads the address can end this process at once.
        let signals = StopSignals()
        signals.then { screen.verdict.stop() }
        try await announce(server, shell: shell, without: refusal)
        parts.agent.ready(server)
        noteMissingFeed(parts)
        let isOnce = once
        let status = await Self.run(tasks(screen, parts, server, after: shown, without: refusal), parts.agent) {
            if isOnce { return await screen.verdict.status() }
            await Self.wait(signals, or: parts.program, of: shell)
            return 0
        }
        await Self.end(shell, server: server, reporter: isOnce ? parts.reporter : nil)
        if isOnce { await parts.roster?.sendOnce() }
        screen.file.settle()
        if status != 0 { throw ExitCode(status) }
    }
}
