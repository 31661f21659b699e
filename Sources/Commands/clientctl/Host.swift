import ArgumentParser
import BundleValues
import BundleDisk
import BundlePlatform
import BundleServe
import FeedHost

/// `clientctl host`.
struct Host: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serve a feed over HTTP, and announce changes to devices over WebSockets.",
        discussion: """
            Serves what publish writes, to one machine's network: GET and HEAD with ranges
            and entity tags; what is below releases/ may be kept for ever, the rest is
            asked about each time. Devices that open a WebSocket at /push are told the
            sequence of every channel, and at once when one changes, whoever changed it.
            /healthz answers "ok". With --token-file, everything else takes a bearer
            token. TLS is for a proxy in front, such as nginx or caddy. Any static web
            server does for a feed without push. Started by systemd it says when it is
            ready and, with WatchdogSec=, that it still works. Another folder or link that
            takes the feed's place is served at once. SIGHUP reads the tokens anew and
            opens the access log again. Ends on SIGTERM or SIGINT.

            With --reports it takes what devices tell (--report of serve and install):
            their facts are added up for good, and /metrics has the sums for Prometheus.
            Whoever can ask can report; only versions that the feed has are counted.

            Examples:
              clientctl host feed
              clientctl host /srv/feed --bind 0.0.0.0 --port 8080 \\
                --token-file /etc/clientctl/tokens \\
                --access-log /var/log/clientctl/access.log
              clientctl install --channel http://127.0.0.1:8080/channels/stable.json \\
                --token-file token --trust trust.json --store store --shell-version 1.2.0
            """)

    @Argument(help: ArgumentHelp("The feed's folder.", valueName: "feed"), completion: .directory)
    var feed: String?

    @Option(
        help: ArgumentHelp(
            "Address to listen on: 127.0.0.1 by default, 0.0.0.0 or :: for all of this machine.", valueName: "address"))
    var bind: String?

    @Option(help: ArgumentHelp("Port; any that is free by default.", valueName: "n"))
    var port: String?

    @Option(
        help: ArgumentHelp(
            "File with the bearer tokens that may ask, one a line; no one else may read it.", valueName: "file"),
        completion: .file())
    var tokenFile: String?

    @Option(
        help: ArgumentHelp("Write a line an answer to this file, not to standard error.", valueName: "file"),
        completion: .file())
    var accessLog: String?

    @Option(
        help: ArgumentHelp(
            "Take what devices report at /report, add it up in this file, and show the sums at /metrics.",
            valueName: "file"), completion: .file())
    var reports: String?

    @OptionGroup var logging: LogOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let manager = Wiring.serviceManager()
        let settings = try common.settings()
        try logging.begin(settings)
        var configuration = FeedConfiguration(feed: try folder(settings))
        configuration.address = try settings.optional("bind", bind) ?? configuration.address
        configuration.port = try settings.port(port) ?? 0
        let tokens = try settings.optional("token-file", tokenFile)
        configuration.tokens = try tokens.map { try BearerTokens(file: $0) }
        configuration.reports = try settings.optional("reports", reports).map {
            try counter($0, of: configuration.feed)
        }
        configuration.limits.connections = min(
            configuration.limits.connections, max(16, OpenFiles.raiseLimit() - 128))
        let log = try AccessLog(to: try settings.optional("access-log", accessLog))
        configuration.log = { log.note($0) }
        let host = try await FeedHost.start(configuration, at: configuration.feed.path) {
            Output.say("clientctl: \($0)")
        }
        let hangup = HangupSignal { Self.readAgain(tokens, host, log) }
        // Whoever reads the address may end it at once.
        let signals = StopSignals()
        try announce(configuration, host.port, settings)
        manager.ready("listening on port \(host.port)")
        await withTaskGroup { group in
            group.addTask { await manager.beat { await host.answer() } }
            await signals.wait()
            manager.stopping()
            group.cancelAll()
        }
        await host.stop(grace: .seconds(2))
        withExtendedLifetime(hangup) { log.finish() }
    }

    /// What cannot be read stays as it was.
    private static func readAgain(_ tokens: String?, _ host: FeedHost, _ log: AccessLog) {
        do {
            if let tokens { host.admit(try BearerTokens(file: tokens)) }
            try log.reopen()
            Output.say("clientctl: SIGHUP: the tokens were read anew, the access log opened again")
        } catch {
            Output.say("clientctl: SIGHUP: \(UpdateFailure(error).message) What was read before stays.")
        }
    }

    private func counter(_ path: String, of feed: Directory) throws -> ReportCounter {
        let path = try Wiring.absolute(path)
        let parts = path.split(separator: "/", omittingEmptySubsequences: true)
        guard let name = parts.last else { throw ValidationError("--reports takes the path of a file.") }
        let parent = try Directory.open("/" + parts.dropLast().joined(separator: "/"))
        return try ReportCounter(String(name), in: parent, of: feed)
    }

    private func folder(_ settings: Settings) throws -> Directory {
        guard let given = try settings.optional("feed", feed), !given.isEmpty else {
            throw ValidationError("Missing <feed>: name the folder that publish writes.")
        }
        let path = try settings.feedFolder(given)
        do throws(DiskError) {
            return try Directory.open(path)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The feed cannot be served: \(error). Name the folder that publish writes.")
        }
    }

    private func announce(_ configuration: FeedConfiguration, _ port: Int, _ settings: Settings) throws {
        let address = configuration.address
        let url = "http://\(address.contains(":") ? "[\(address)]" : address):\(port)/"
        if configuration.tokens != nil && !ThisMachine.isNamed(by: address) {
            Output.say("clientctl: tokens go over the network as they are: put a proxy with TLS in front")
        }
        Output.give(
            json: try settings.isOn("json", common.json), ["url": .string(url), "port": .integer(port)], [url])
    }
}
