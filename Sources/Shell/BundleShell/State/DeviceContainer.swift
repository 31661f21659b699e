import ArchiveSource
public import BundleCore
public import BundleFetch
import BundleSigning
public import BundleValues
public import MeteorSource
import Synchronization

/// The composition root of a device, for the command line, for programs that embed a shell, and for tests with their
/// own clock.
public struct DeviceContainer: Sendable {
    /// A feed of archives, and the keys that verify them.
    public struct Feed: Sendable {
        /// A flat manifest or a channel file.
        public let source: FeedAddress
        /// The path of a PEM public key, of a folder with such keys, or of a trust root.
        public let trust: String
        /// The application of the device; nil for the one of the first release.
        public let appId: String?
        /// The ID that places the device in rollouts; nil for the stored one, or else the ID of the machine.
        public var deviceId: String?
        /// The groups of the device, which releases may name; nil for the stored ones. At most 16 names of 1 to 64 of
        /// the characters a to z, 0 to 9, dot, dash and underscore.
        public var groups: [String]?
        /// The kind of an empty store. A store that has a release keeps its kind.
        package var kind = ReleaseKind.client
        /// The limits of archives.
        package var limits = ArchiveLimits()
        /// Fetches from mirrors of the feed; nil to use the fetcher of the feed.
        package var mirrorFetcher: (any Fetcher)?
        fileprivate let fetcher: (any Fetcher)?

        /// Describes the feed at `source`.
        ///
        /// - Parameters:
        ///   - source: The address of its manifest, or of a channel file.
        ///   - trust: The path of the public key, or of the trust root, that verifies releases.
        ///   - appId: The application whose releases are accepted; nil for the one of the first release.
        ///   - fetcher: Downloads from the feed; nil for the `fetcher(for:)` of the container.
        public init(_ source: FeedAddress, trust: String, appId: String? = nil, fetcher: (any Fetcher)? = nil) {
            self.source = source
            self.trust = trust
            self.appId = appId
            self.fetcher = fetcher
        }
    }

    /// A Meteor server with hot code pushes.
    public struct Server: Sendable {
        /// The options of the server.
        public let source: MeteorServerOptions
        fileprivate let fetcher: (any Fetcher)?

        /// Describes a server. Without a `fetcher`, the `fetcher(for:)` of the container downloads from it.
        public init(_ source: MeteorServerOptions, fetcher: (any Fetcher)? = nil) {
            self.source = source
            self.fetcher = fetcher
        }
    }

    /// The configuration of the device's shell. Its store has to stay that with which the container was created.
    public var configuration: ShellConfiguration {
        didSet {
            if configuration.device.layout == nil { configuration.device.layout = oldValue.device.layout }
        }
    }
    /// The source of archives; nil if there is none.
    public var feed: Feed?
    /// The source of hot code pushes; nil if there is none.
    public var server: Server? {
        didSet {
            guard let server, configuration.device.layout == nil else { return }
            configuration.device.layout = MeteorBundles(platform: server.source.platform)
        }
    }
    /// The URL of the WebSocket of a host that announces releases of the feed; nil if there is none.
    public var push: String?
    /// The user agent, the proxy, the authorities and the time limits of all requests and sockets.
    public var network: FetchOptions
    /// The sessions of the users, whose token is sent to the feed, to the host that announces it if it has the same origin, and to the
    /// Meteor server; those in the store by default.
    public var sessions: any SessionRepository
    /// Decides on the download of a version that the rules accept. With false, the device keeps its client, and the
    /// next check asks again. This is not a failure.
    public var shouldDownload: @Sendable (ClientVersion) async -> Bool = { _ in true }
    /// Receives the events of running updates.
    package var report = UpdateObserver()
    /// The conditions for downloads of releases. A channel can only make them stricter. The rate applies to all fetchers of the process
    /// that containers make.
    public var fetchPolicy: FetchPolicy {
        get { gate.policy }
        set {
            gate.policy = newValue
            gate.traffic.limit(rate: newValue.rate)
        }
    }
    /// Returns whether bytes cost money on the network of the device, and is called only if a budget applies. By default,
    /// NetworkManager decides, and without it bytes cost nothing.
    public var isMetered: @Sendable () async -> Bool {
        get { gate.isMetered }
        set { gate.isMetered = newValue }
    }
    /// Admits the downloads of releases.
    package var gate: FetchGate
    package let environment: Environment

    /// Creates a device without sources, whose requests have the header `User-Agent: userAgent`. The clocks of `environment` date signatures, rollouts and the ledger, and measure the
    /// start of a client. Its log receives warnings and the results of repairs.
    public init(_ configuration: ShellConfiguration, userAgent: String, environment: Environment = Environment()) {
        self.init(configuration, network: FetchOptions(userAgent: userAgent), environment: environment)
    }

    /// Creates a device without sources, which sends requests with the options `network`.
    package init(_ configuration: ShellConfiguration, network: FetchOptions, environment: Environment) {
        self.configuration = configuration
        self.network = network
        sessions = Self.sessions(store: configuration.device.store)
        gate = FetchGate(store: configuration.device.store, hasSeed: configuration.device.seed != nil)
        gate.localTime = { .now }
        gate.environment = Environment(now: environment.now)
        gate.traffic = Self.traffic
        gate.isMetered = { await MeteredLink.isMetered() }
        self.environment = environment
    }

    /// Whether a feed or a server is set, even if the device does not follow it.
    public var hasSource: Bool { feed != nil || server != nil }

    /// The Meteor server whose pushes are installed; nil if there is none or the device's sources exclude it.
    public var followedServer: MeteorServerOptions? { order.contains(.meteor) ? server?.source : nil }

    /// The sources in the order of their checks. A source that the device's settings omit is not checked. A source that only
    /// the stored settings omit is checked last, and its clients do not run.
    private var order: [SourceName] {
        let named = SourceName.allCases.filter { $0 == .archive ? feed != nil : server != nil }
        if let given = configuration.device.sources { return given.names.filter(named.contains) }
        return remembered.filter(named.contains) + named.filter { !remembered.contains($0) }
    }

    /// The stored settings; the standard ones if the ledger is unreadable, which the updater repairs.
    private var remembered: [SourceName] {
        ((try? Inventory.read(at: configuration.device.store))?.ledger.sources ?? .standard).names
    }

    /// Returns the sources that the device follows, in the order of their checks.
    package func sources() throws -> [any DeviceSource] {
        warnOfSources()
        return try order.compactMap(source)
    }

    /// Warns of sources that are checked and whose clients do not run.
    private func warnOfSources() {
        for name in order where configuration.device.sources == nil && !remembered.contains(name) {
            environment.log(
                "the source \(name) is switched off in this store, so its clients do not run; name it with --sources to run them"
            )
        }
    }

    func source(_ name: SourceName) throws -> (any DeviceSource)? {
        switch name {
        case .archive: try feed.map(archives)
        case .meteor: try server.map(pushes)
        }
    }

    private func archives(_ feed: Feed) throws -> any DeviceSource {
        let store = configuration.device.store
        if feed.kind == .program { try StoreKind.require(.program, at: store) }
        let fetcher = try feed.fetcher ?? self.fetcher(for: feed.source.url)
        let source = ArchiveSource(
            source: feed.source, anchor: try TrustAnchor.read(at: feed.trust),
            kind: try StoreKind.read(at: store) ?? feed.kind,
            deviceId: ArchiveSource.DeviceId(
                given: feed.deviceId, machine: try MachineIdentity.deviceId(), groups: try groups(feed)),
            seed: configuration.device.seed,
            limits: feed.limits, fetcher: fetcher, mirrorFetcher: feed.mirrorFetcher, gate: gate,
            environment: environment,
            report: report)
        let archives = FeedArchives(
            source: feed.source, limits: feed.limits, fetcher: fetcher, gate: gate, report: report)
        return joined(source, appId: feed.appId, archives)
    }

    private func groups(_ feed: Feed) throws -> [String]? {
        guard let groups = feed.groups else { return nil }
        guard groups.count <= DeviceGroup.most, groups.allSatisfy(DeviceGroup.isName) else {
            throw UpdateFailure(
                .configInvalid, subject: "group",
                "The groups of a device are at most \(DeviceGroup.most) names: \(DeviceGroup.rule).")
        }
        return Set(groups).sorted()
    }

    private func pushes(_ server: Server) throws -> any DeviceSource {
        let layout = MeteorBundles(platform: server.source.platform)
        let seed = try configuration.device.seed.map { try SeedFolder(at: $0, layout: layout) }
        let fetcher = try server.fetcher ?? self.fetcher(for: server.source.rootURL)
        let source = try MeteorSource(server.source, seed: seed, fetcher: fetcher, gate: gate, report: report)
        if let failure = seed?.manifestFailure { environment.log(failure) }
        return joined(source, appId: nil, nil)
    }

    private func joined<Source: UpdateSource>(
        _ source: Source, appId: String?, _ archives: FeedArchives?
    ) -> any DeviceSource {
        let device = Updater<Source>.UpdateDevice(
            store: configuration.device.store, shell: configuration.device.shell, appId: appId,
            keep: configuration.keep, sources: configuration.device.sources)
        return JoinedSource(
            Updater(
                source: source, device: device, gate: gate, shouldDownload: shouldDownload, environment: environment),
            of: configuration.device, archives, environment)
    }

    // MARK: Shell

    /// Returns a launcher for a shell that shows clients itself.
    package func launcher() throws -> Launcher { try Launcher(configuration.device, environment: environment) }

    /// Launches the next client for a device whose session has this `status`, or the seed if there is no store and none can be
    /// created. Guests get the seed, without a boot attempt. Throws `UpdateFailure` with `deviceLocked` if the device is locked,
    /// and with `loginRequired` if no user is logged in and the device has no seed.
    package func launch(for status: SessionStatus) throws -> Launched {
        let isForGuests: Bool
        switch status {
        case .locked:
            throw UpdateFailure(
                .deviceLocked, subject: configuration.device.store,
                "The device is locked, so no client is shown: `clientctl screen unlock --store \(configuration.device.store)` unlocks it."
            )
        case .unauthenticated where configuration.device.seed == nil:
            throw UpdateFailure(
                .loginRequired, subject: configuration.device.store,
                "No user is logged in, and no seed is set for guests: run `clientctl session login --store "
                    + "\(configuration.device.store)`, or name a seed with --seed."
            )
        case .unauthenticated: isForGuests = true
        case .notRequired, .authenticated: isForGuests = false
        }
        do {
            let launcher = try launcher()
            return isForGuests ? try launcher.show(launcher.prepare(forGuests: true)) : try launcher.launch()
        } catch {
            return try Launcher(configuration.device, without: error, environment: environment).launch()
        }
    }

    /// Creates a shell that installs updates from the sources, for the web view behind `bridge`. If a source cannot be opened,
    /// for example because its keys are unreadable, the shell shows the installed client, and each check tries again.
    public func shell(bridge: any ShellBridge) throws -> ClientShell {
        let progress = DownloadProgress(environment.clock)
        var device = self
        device.report = UpdateObserver { event in
            report(event)
            progress.note(event)
        }
        let sources = FollowedSources(order, of: device)
        device.configuration.endpointFetcher = try feed.map { feed in
            try feed.fetcher ?? fetcher(for: feed.source.url)
        }
        let shell = try ClientShell(
            device.configuration, update: hasSource ? sources.check : nil, bridge: bridge, environment: environment)
        progress.pass(to: shell.observers)
        warnOfSources()
        for trouble in sources.troubles() {
            environment.log(
                "\(UpdateFailure(trouble).message) The device shows its installed client, and each check tries again.")
        }
        return shell
    }

    /// Creates a shell with another update step.
    public func shell(bridge: any ShellBridge, update: @escaping UpdateStep) throws -> ClientShell {
        try ClientShell(configuration, update: update, bridge: bridge, environment: environment)
    }
}

extension DeviceContainer {
    /// Returns the saved sessions of the device with the store at `path`.
    public static func sessions(store path: String) -> any SessionRepository { FileSessionRepository(store: path) }

    /// Counts and limits the bytes of all fetchers of this process.
    package static let traffic = Traffic()

    /// Returns the standard fetcher for a server at `url`. It uses `network`, and sends the token of `sessions` to the origin of `url`
    /// only; later changes of both do not reach it. A program that changes requests or counts them wraps it in a fetcher of its own.
    public func fetcher(for url: FetchURL) throws -> any Fetcher {
        try Self.fetcher(network, for: url, sessions: sessions, environment: environment)
    }

    /// Returns a fetcher with the proxy, authorities and limits of `options`.
    package static func fetcher(_ options: FetchOptions) throws -> any Fetcher {
        // The TLS of libcurl shares OpenSSL with the verification of signatures, and no openssl.cnf may change either.
        try OpenSSLIsolation.begin()
        return CurlFetcher(options: limited(options))
    }

    /// Returns a fetcher with `options` for a server at `url` that requires a token. The token of the session is sent to its origin
    /// only. The log of `environment` receives errors in reading or ending the session.
    package static func fetcher(
        _ options: FetchOptions, for url: FetchURL, sessions: any SessionRepository, environment: Environment
    ) throws -> any Fetcher {
        try OpenSSLIsolation.begin()
        return SessionFetcher(limited(options), feed: url, sessions: sessions, environment: environment)
    }

    private static func limited(_ options: FetchOptions) -> FetchOptions {
        var options = options
        options.traffic = traffic
        return options
    }
}

/// Passes the progress of downloads to the observers of a shell, at most twice a second, and the end of each.
final class DownloadProgress: Sendable {
    private static let pause = Duration.milliseconds(500)

    private let stopwatch: Stopwatch
    private let state = Mutex<(observers: AsyncStream<ShellEvent>.Continuation?, last: Duration?)>((nil, nil))

    init(_ clock: any Clock<Duration>) { stopwatch = Stopwatch(clock) }

    func pass(to observers: AsyncStream<ShellEvent>.Continuation) { state.withLock { $0.observers = observers } }

    func note(_ event: UpdateEvent) {
        guard case .downloading(let bytes, let size) = event else { return }
        let now = stopwatch.elapsed
        state.withLock { state in
            guard state.last.map({ now - $0 >= Self.pause }) ?? true || bytes == size else { return }
            state.last = now
            state.observers?.yield(.downloading(bytes: bytes, of: size))
        }
    }
}

/// The sources that a shell follows. Each is opened at the first successful attempt, because the disk with its keys may be mounted late.
private final class FollowedSources: Sendable {
    private let names: [SourceName]
    private let device: DeviceContainer
    private let opened = Mutex<[SourceName: any DeviceSource]>([:])

    /// Creates the sources of `device` with these `names`, in the order of their checks.
    init(_ names: [SourceName], of device: DeviceContainer) {
        self.names = names
        self.device = device
    }

    private func source(_ name: SourceName) throws -> (any DeviceSource)? {
        try opened.withLock { opened in
            if opened[name] == nil { opened[name] = try device.source(name) }
            return opened[name]
        }
    }

    /// Returns the reasons why sources cannot be opened now.
    func troubles() -> [any Error] {
        names.compactMap { name in
            do {
                _ = try source(name)
                return nil
            } catch {
                return error
            }
        }
    }

    /// Checks each source, even if an earlier one fails. A source that cannot be opened fails its check.
    func check() async -> CheckResult {
        var results: [CheckResult] = []
        for name in names {
            do {
                if let source = try source(name) { results.append(await source.follow()) }
            } catch {
                results.append(CheckResult(failures: [error], hasResponse: false, pace: nil))
            }
        }
        return CheckResult(joining: results)
    }
}
