import ArgumentParser
import BundleDisk
import BundleFleet
import BundleFormats
import BundleServe
import BundleValues
import BundleShell
import Synchronization

/// `clientctl feed serve`.
struct FeedServe: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve a feed over HTTP, and announce changes to devices over WebSockets.",
        discussion: """
            Serves the folder of a feed over HTTP: GET and HEAD with ranges and entity
            tags. Caches keep the files below releases/ and revalidate all others. A device
            that opens a WebSocket at /push receives the sequence of every channel, and
            each change at once. /healthz answers "ok". With --token-file, every other path
            requires a bearer token. For TLS, put a proxy such as nginx or caddy in front.
            A feed without push needs only a static web server. Under systemd, the host
            reports when it is ready and, with WatchdogSec=, that it works. If another
            folder or link replaces the feed, the host serves it at once. SIGHUP reads the
            tokens and --expect again and reopens the access log. SIGTERM and SIGINT stop
            the host.

            With --reports, the host counts the events that devices send (--report of serve
            and install). /metrics provides the counts for Prometheus. Every client that
            can fetch the feed can report. Only versions in the feed are counted. Only one
            host at a time can use the file.

            With --roster, the host lists the devices that send their state (--roster of
            serve and install) in an SQLite database. GET /roster shows them as a page, and
            GET /roster.json as JSON, both with a token of --roster-token-file only. With
            --expect, it also shows the devices that were never seen. With
            --roster-pictures, it keeps the last picture of each screen and that of the
            last failed start (--picture of serve). /metrics provides the totals. A relay
            passes messages and pictures to the roster at a URL.

            With --upstream, the host is a relay and serves no files. It watches the
            channels of a feed on another server, such as a CDN, and announces changes. It
            requests each channel file once a second (If-None-Match), and less often while
            the feed fails. Any number of relays can run side by side. Devices name their
            channel in the address: /push?channel=stable.

            With --cache, a relay also serves the files below releases/. It fetches each
            one once, compares it with the digest in the feed's documents, and removes the
            least recently used ones. Devices name it with --mirror and need not trust it.
            If the feed requires a token (--upstream-token-file), a cache for other
            machines requires one, too (--token-file, and --mirror-token-file of devices).

            With --phones, the host answers the updater plugins of Capacitor apps, those of
            Capgo and of Capawesome, by the channels of the feed. Releases need publish
            --phone. Events of Capgo's plugin count as reports (--reports).

            Examples:
              clientctl feed serve feed
              clientctl feed serve feed --phones --trust trust.json \\
                --public-url https://updates.example.com/ --reports counts.json
              clientctl feed serve /srv/feed --bind 0.0.0.0 --port 8080 \\
                --token-file /etc/clientctl/tokens \\
                --access-log /var/log/clientctl/access.log
              clientctl feed serve --upstream https://cdn.example.com/ --channel stable \\
                --bind 0.0.0.0 --port 8080
              clientctl feed serve --upstream https://cdn.example.com/ \\
                --cache /var/cache/clientctl --cache-size 2GB --bind 0.0.0.0 --port 8080
              clientctl install --channel http://127.0.0.1:8080/channels/stable.json \\
                --token-file token --trust trust.json --store store
            """)

    @Argument(
        help: ArgumentHelp("(required, or --upstream) The folder of the feed.", valueName: "feed"),
        completion: .directory)
    var feed: String?

    @OptionGroup(title: "Relay") var relay: RelayOptions

    @Option(
        help: ArgumentHelp(
            "Address to listen on; 0.0.0.0 or :: for all addresses of this machine (default: 127.0.0.1).",
            valueName: "address"))
    var bind: String?

    @Option(help: ArgumentHelp("Port to listen on (default: any free port).", valueName: "n"))
    var port: String?

    @Option(
        help: ArgumentHelp(
            "File of the valid bearer tokens, one per line. Other users must not have access to it.", valueName: "file"),
        completion: .file())
    var tokenFile: String?

    @Option(
        help: ArgumentHelp("Write the access log to this file instead of standard error.", valueName: "file"),
        completion: .file())
    var accessLog: String?

    @Option(
        help: ArgumentHelp(
            "Accept the reports of devices at /report, count them in this file, and provide the counts at /metrics.",
            valueName: "file"), completion: .file())
    var reports: String?

    @OptionGroup(title: "Phones") var phoneHost: PhoneHostOptions
    @OptionGroup(title: "Roster") var devices: RosterHostOptions
    @OptionGroup var logging: LogOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let manager = Wiring.serviceManager()
        try logging.begin()
        let source = try source()
        try requireClosed(source)
        var configuration = FeedConfiguration()
        configuration.address = bind ?? configuration.address
        configuration.port = try FlagValue.port(port) ?? 0
        let tokens = tokenFile
        configuration.tokens = try tokens.map { try BearerTokens(file: $0) }
        let counts = try reports.map { try counter($0, of: source) }
        configuration.reports = counts
        configuration.phones = try phoneHost.desk(source.folder, reports: counts, needsToken: tokens != nil)
        let operators = devices.rosterTokenFile
        let roster = try roster(of: source, operators)
        configuration.roster = roster
        configuration.limits.connections = min(configuration.limits.connections, max(16, OpenFiles.raiseLimit() - 128))
        let log = try AccessLog(to: accessLog)
        configuration.log = { log.note($0) }
        let host = try await source.start(configuration, environment: Environment(log: { Output.say($0) }))
        let (expect, store) = (devices.expect, roster?.store)
        let hangup = HangupSignal {
            Self.readAgain(tokens, operators: operators, expect: expect, host: host, store: store, log: log)
        }
        // A program that reads the address can stop the host at once.
        let signals = StopSignals()
        try announce(configuration, port: host.port)
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

    /// Reads the tokens and the expected devices again, reopens the access log, and logs what was done. If a file cannot be opened, the
    /// previous one stays in use.
    private static func readAgain(
        _ tokens: String?, operators: String?, expect: String?, host: FeedHost, store: RosterStore?, log: AccessLog
    ) {
        do {
            if let tokens { host.admit(try BearerTokens(file: tokens)) }
            if let operators { host.admitOperators(try BearerTokens(file: operators)) }
            if let expect, let store {
                let devices = try ExpectedDevices(file: expect)
                Task { await store.expect(devices) }
            }
            try log.reopen()
            let done = [
                tokens == nil && operators == nil ? nil : "the tokens were read again",
                expect == nil ? nil : "the expected devices were read again",
                log.isFile ? "the access log was reopened" : nil,
            ].compactMap(\.self)
            Output.say(
                "SIGHUP: "
                    + (done.isEmpty
                        ? "there is nothing to read again: the host has neither --token-file nor --access-log"
                        : done.joined(separator: ", ")))
        } catch {
            Output.warn("SIGHUP: \(UpdateFailure(error).message) The host continues with its present tokens and log.")
        }
    }

    private func counter(_ path: String, of source: ServedFeed) throws -> ReportCounter {
        guard case .folder(let feed) = source else {
            throw ValidationError(
                "--reports needs the folder of a feed, because only its versions are counted. Give it to the host of the feed."
            )
        }
        let path = try Wiring.absolute(path)
        let parts = path.split(separator: "/", omittingEmptySubsequences: true)
        guard let name = parts.last else { throw ValidationError("--reports takes the path of a file.") }
        let parent = try Directory.open("/" + parts.dropLast().joined(separator: "/"))
        return try ReportCounter(String(name), in: parent, of: feed)
    }

    /// Returns the roster: the file of a host, or the roster to which a relay passes messages.
    private func roster(
        of source: ServedFeed, _ operators: String?
    ) throws -> RosterService? {
        let expect = devices.expect
        guard let place = devices.roster else {
            if expect != nil { throw ValidationError("--expect needs --roster, which lists the devices.") }
            if devices.rosterPictures {
                throw ValidationError("--roster-pictures needs --roster, which lists the devices.")
            }
            return nil
        }
        switch (source, place.contains("://")) {
        case (.folder(let feed), false):
            guard let operators else { throw MissingFlag(flags: ["roster-token-file"]) }
            let store = try RosterStore(
                try Wiring.absolute(place), of: feed, expecting: try expect.map { try ExpectedDevices(file: $0) },
                keepsPictures: devices.rosterPictures)
            return .store(store, operators: try BearerTokens(file: operators))
        case (.upstream, true) where expect != nil:
            throw ValidationError("A relay lists no devices. Give --expect to the host of the roster.")
        case (.upstream, true) where devices.rosterPictures:
            throw ValidationError("A relay keeps no pictures. Give --roster-pictures to the host of the roster.")
        case (.upstream, true):
            let url = try FlagValue.url(place, of: "roster")
            // A relay lends its token only to senders that it has authorized itself.
            let lends = tokenFile != nil || isLocal
            let fetcher = try lends ? Wiring.fetcher(relay, for: url) : Wiring.tokenlessFetcher(relay)
            return .relay(RosterRelay(to: url, by: fetcher, passesTokens: !lends))
        case (.folder, true):
            throw ValidationError("--roster takes a file. Only a relay (--upstream) passes messages to a URL.")
        case (.upstream, false):
            throw ValidationError("--roster takes the URL of a roster with --upstream, because a relay has no files.")
        }
    }

    /// Whether only programs on this machine can connect.
    private var isLocal: Bool { bind.map(ThisMachine.isNamed) ?? true }

    /// Throws if the cache would serve a feed that requires a token to every client.
    private func requireClosed(_ source: ServedFeed) throws {
        guard case .upstream(_, .some) = source, relay.upstreamTokenFile != nil, tokenFile == nil, !isLocal else {
            return
        }
        throw ValidationError(
            "The upstream requires a token, and this cache would serve its releases without one. Give --token-file; devices send its "
                + "token with --mirror-token-file. Or let a proxy on this machine check them, and bind to 127.0.0.1.")
    }

    /// The feed whose changes the host announces.
    private enum ServedFeed {
        case folder(Directory)
        case upstream(Upstream, cache: (folder: Directory, bytes: Int)?)

        var folder: Directory? { if case .folder(let feed) = self { feed } else { nil } }

        func start(_ configuration: FeedConfiguration, environment: Environment) async throws
            -> FeedHost
        {
            switch self {
            case .folder(let feed): try await FeedHost.start(configuration, serving: feed, environment: environment)
            case .upstream(let upstream, let cache):
                try await FeedHost.start(configuration, relaying: upstream, cache: cache, environment: environment)
            }
        }
    }

    /// Returns the feed to announce. If the command line names one, the environment and the configuration file are ignored.
    private func source() throws -> ServedFeed {
        let isNamed = feed != nil || CommandLineFlags.contain("upstream")
        let folder = isNamed ? feed : try Settings.value(of: "feed")
        let upstream = isNamed && !CommandLineFlags.contain("upstream") ? nil : relay.upstream
        switch (folder.flatMap { $0.isEmpty ? nil : $0 }, upstream.flatMap { $0.isEmpty ? nil : $0 }) {
        case (let folder?, nil):
            try relay.refuseFlags()
            return .folder(try self.folder(folder))
        case (nil, let upstream?): return .upstream(try relay.upstream(at: upstream), cache: try relay.openCache())
        case (nil, nil):
            throw ValidationError(
                "Missing <feed>: name the folder that publish writes, or give the address of a feed on another server with --upstream."
            )
        case (_?, _?):
            throw ValidationError(
                "Give the folder of a feed or --upstream, not both. A relay announces a feed on another server.")
        }
    }

    private func folder(_ path: String) throws -> Directory {
        guard !path.contains("://") else {
            throw ValidationError("This command serves a folder, not the URL \(UntrustedName.display(path)).")
        }
        do throws(DiskError) {
            let feed = try Directory.open(path)
            let (manifest, channels) = (try feed.kind(of: "manifest.json"), try feed.kind(of: "channels"))
            if manifest == nil && channels == nil {
                Output.warn(
                    "\(path) has no manifest.json and no channels: there is nothing to serve until publish writes there"
                )
            }
            return feed
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The feed cannot be served: \(error). Name the folder that publish writes.")
        }
    }

    private func announce(_ configuration: FeedConfiguration, port: Int) throws {
        let address = configuration.address
        let url = "http://\(address.contains(":") ? "[\(address)]" : address):\(port)/"
        if (configuration.tokens != nil || configuration.roster != nil) && !ThisMachine.isNamed(by: address) {
            Output.warn("tokens cross the network without encryption. Put a proxy with TLS in front.")
        }
        if configuration.tokens == nil && !isLocal {
            if relay.upstreamTokenFile != nil {
                Output.warn(
                    "the upstream requires a token, and this relay announces its changes to every client of this port. Give --token-file."
                )
            }
            if let place = devices.roster, !place.contains("://") {
                Output.warn(
                    "every client of this port can add devices to the roster, and /metrics shows their number. Give --token-file."
                )
            }
        }
        if configuration.reports != nil && configuration.tokens == nil && !ThisMachine.isNamed(by: address) {
            Output.warn(
                "/metrics shows the size of the fleet to every client of this port. Give --token-file, or "
                    + "let only your metrics server connect to it.")
        }
        Output.give(json: common.json, ["url": .string(url), "port": .integer(port)], lines: [url])
    }
}

/// Writes one line per response on a separate thread, so that a slow reader of the log does not slow the server.
private final class AccessLog: Sendable {
    private static let mostWaiting = 4096

    private let path: String?
    private let file: Mutex<File?>
    private let worker: SerialWorker
    private let waiting = Atomic(0)
    private let lost = Atomic(0)

    /// Appends to the file at `path`; nil writes to standard error.
    init(to path: String?) throws {
        self.path = path
        file = Mutex(try path.map { try File.open(appending: $0) })
        worker = try SerialWorker()
    }

    /// Whether the log is a file, which can be reopened.
    var isFile: Bool { path != nil }

    /// Queues an entry. If 4096 entries are queued, further entries are only counted.
    func note(_ entry: AccessEntry) {
        if waiting.wrappingAdd(1, ordering: .relaxed).newValue > Self.mostWaiting {
            waiting.wrappingSubtract(1, ordering: .relaxed)
            lost.wrappingAdd(1, ordering: .relaxed)
            return
        }
        worker.submit { [self] in
            waiting.wrappingSubtract(1, ordering: .relaxed)
            let lost = lost.exchange(0, ordering: .relaxed)
            if lost > 0 { write("- \(lost) \(lost == 1 ? "line" : "lines") lost, written too slowly") }
            write(entry.line)
        }
    }

    private func write(_ line: String) {
        guard let file = file.withLock({ $0 }) else { return Output.line(line) }
        // A full disk loses lines of the log, but does not stop the server.
        try? Array("\(PrintableText.line(line))\n".utf8).withUnsafeBytes { try file.write($0) }
    }

    /// Opens the file at the path again, after the queued entries are written. A renamed log does not change then.
    func reopen() throws {
        guard let path else { return }
        let fresh = try File.open(appending: path)
        worker.submit { [self] in file.withLock { $0 = fresh } }
    }

    /// Writes the queued entries. Call this last.
    func finish() { worker.finish() }
}
