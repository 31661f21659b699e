import ClientShell
import ArchiveSource
import ArgumentParser
import BundleValues
import BundleDisk
import BundleServe
import BundleFleet
import ClientShell

/// `clientctl host`.
struct Host: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "host",
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
            One host at a time adds up in a file.

            With --upstream it is a relay: it has no files. It watches the channels of a
            feed that is served elsewhere, such as by a CDN, and announces changes. It asks
            for each document once a second (If-None-Match), and less often while the feed
            fails. Any number of relays work side by side. Devices name their channel in
            the address: /push?channel=stable.

            Examples:
              clientctl host feed
              clientctl host /srv/feed --bind 0.0.0.0 --port 8080 \\
                --token-file /etc/clientctl/tokens \\
                --access-log /var/log/clientctl/access.log
              clientctl host --upstream https://cdn.example.com/ --channel stable \\
                --bind 0.0.0.0 --port 8080
              clientctl install --channel http://127.0.0.1:8080/channels/stable.json \\
                --token-file token --trust trust.json --store store --shell-version 1.2.0
            """)

    @Argument(help: ArgumentHelp("The feed's folder.", valueName: "feed"), completion: .directory)
    var feed: String?

    @OptionGroup var relay: RelayOptions

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
        let source = try source(settings)
        var configuration = FeedConfiguration()
        configuration.address = try settings.optional("bind", bind) ?? configuration.address
        configuration.port = try settings.port(port) ?? 0
        let tokens = try settings.optional("token-file", tokenFile)
        configuration.tokens = try tokens.map { try BearerTokens(file: $0) }
        configuration.reports = try settings.optional("reports", reports).map {
            try counter($0, of: source)
        }
        configuration.limits.connections = min(
            configuration.limits.connections, max(16, OpenFiles.raiseLimit() - 128))
        let log = try AccessLog(to: try settings.optional("access-log", accessLog))
        configuration.log = { log.note($0) }
        let host = try await source.start(configuration) { Output.say("clientctl: \($0)") }
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

    /// Reads the tokens again and reopens the access log, and logs which of the two the host has. A file that cannot be read changes
    /// nothing.
    private static func readAgain(_ tokens: String?, _ host: FeedHost, _ log: AccessLog) {
        do {
            if let tokens { host.admit(try BearerTokens(file: tokens)) }
            try log.reopen()
            let done = [
                tokens == nil ? nil : "the tokens were read again", log.isFile ? "the access log was reopened" : nil,
            ].compactMap(\.self)
            Output.say(
                "clientctl: SIGHUP: "
                    + (done.isEmpty
                        ? "there is nothing to read again: the host has neither --token-file nor --access-log"
                        : done.joined(separator: ", ")))
        } catch {
            Output.say("clientctl: SIGHUP: \(UpdateFailure(error).message) What was read before stays.")
        }
    }

    private func counter(_ path: String, of source: Source) throws -> ReportCounter {
        guard case .folder(let feed) = source else {
            throw ValidationError(
                "--reports goes with a feed's folder, which says what can be reported: give it to the feed's own host.")
        }
        let path = try Wiring.absolute(path)
        let parts = path.split(separator: "/", omittingEmptySubsequences: true)
        guard let name = parts.last else { throw ValidationError("--reports takes the path of a file.") }
        let parent = try Directory.open("/" + parts.dropLast().joined(separator: "/"))
        return try ReportCounter(String(name), in: parent, of: feed)
    }

    /// What is announced. The command line names it; where it does not, the environment and the file.
    private enum Source {
        case folder(Directory)
        case upstream(Upstream)

        func start(_ configuration: FeedConfiguration, say: @escaping @Sendable (String) -> Void) async throws
            -> FeedHost
        {
            switch self {
            case .folder(let feed): try await FeedHost.start(configuration, serving: feed, say: say)
            case .upstream(let upstream): try await FeedHost.start(configuration, relaying: upstream, say: say)
            }
        }
    }

    private func source(_ settings: Settings) throws -> Source {
        let isNamed = feed != nil || relay.upstream != nil
        let folder = isNamed ? feed : try settings.optional("feed", nil)
        let upstream = isNamed ? relay.upstream : try settings.optional("upstream", nil)
        switch (folder.flatMap { $0.isEmpty ? nil : $0 }, upstream.flatMap { $0.isEmpty ? nil : $0 }) {
        case (let folder?, nil):
            try relay.refuseFlags()
            return .folder(try self.folder(folder, settings))
        case (nil, let upstream?): return .upstream(try relay.upstream(at: upstream, settings))
        case (nil, nil):
            throw ValidationError(
                "Missing <feed>: name the folder that publish writes, or with --upstream a feed that is served elsewhere."
            )
        case (_?, _?):
            throw ValidationError(
                "Give a feed's folder or --upstream, not both: a relay announces a feed that is served elsewhere.")
        }
    }

    private func folder(_ given: String, _ settings: Settings) throws -> Directory {
        let path = try settings.feedFolder(given)
        do throws(DiskError) {
            let feed = try Directory.open(path)
            let (manifest, channels) = (try feed.kind(of: "manifest.json"), try feed.kind(of: "channels"))
            if manifest == nil && channels == nil {
                Output.say(
                    "clientctl: \(path) has no manifest.json and no channels: there is nothing to serve until publish writes there"
                )
            }
            return feed
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
        if configuration.reports != nil && configuration.tokens == nil && !ThisMachine.isNamed(by: address) {
            Output.say(
                "clientctl: /metrics shows the size of the fleet to everyone who reaches this port. Give --token-file, or "
                    + "let only your metrics server reach it.")
        }
        Output.give(
            json: try settings.isOn("json", common.json), ["url": .string(url), "port": .integer(port)], [url])
    }
}

/// What makes a host a relay.
struct RelayOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Instead of a folder, the address of a feed that is served elsewhere: announce its changes, serve no files.",
            valueName: "url"))
    var upstream: String?

    @Option(
        help: ArgumentHelp(
            "With --upstream, a channel to watch; may be repeated. By default those that devices ask for, at most 64.",
            valueName: "name"))
    var channel: [String] = []

    @Option(
        help: ArgumentHelp("With --upstream, file with a bearer token that is sent there.", valueName: "file"),
        completion: .file())
    var upstreamTokenFile: String?

    @OptionGroup var way: WayOptions

    /// The feed that is served elsewhere.
    func upstream(at text: String, _ settings: Settings) throws -> Upstream {
        let channels = try settings.list("channel", channel)
        if let other = channels.first(where: { !ChannelFileName.isName($0) }) {
            throw ValidationError(
                "--channel takes the name of a channel with --upstream, such as stable, not \(UntrustedName.display(other))."
            )
        }
        let url = try settings.parsed("upstream", text) { try FetchURL(parsing: $0) }
        let fetcher = try Wiring.fetcher(self, for: url, settings)
        return try settings.parsed("upstream", text) { _ in try Upstream(url, channels: channels, fetcher: fetcher) }
    }

    /// What would be ignored is refused, where it is on the command line: a file of settings may be shared.
    func refuseFlags() throws {
        let given = [
            ("channel", !channel.isEmpty), ("upstream-token-file", upstreamTokenFile != nil),
            ("ca-file", way.caFile != nil),
            ("proxy", way.proxy != nil),
        ]
        guard let flag = given.first(where: \.1)?.0 else { return }
        throw ValidationError(
            "--\(flag) is for --upstream: a folder's channels are all announced, and nothing is fetched.")
    }
}
