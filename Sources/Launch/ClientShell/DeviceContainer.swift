package import ArchiveSource
public import BundleCore
public import BundleValues
public import BundlePlatform
import BundleSigning
public import MeteorSource
public import ShellBoot
import Synchronization

/// A device, composed out of real collaborators: the one place that does so, for the command line, for programs that embed a
/// shell, and for tests with a clock of their own.
public struct DeviceContainer: Sendable {
    /// Where archives come from, and whose are taken.
    public struct Feed: Sendable {
        /// A flat manifest or a channel document.
        public let source: FeedAddress
        /// A PEM public key, a folder of them, or a trust root.
        public let trust: String
        /// The device's application; nil where it names none.
        public let appId: String?
        /// What draws the device into rollouts; nil for what the store remembers, else the machine's id.
        public var deviceId: String?
        /// The groups that the device is in, which releases may name; nil for those that the store remembers. At most 16 names of 1 to 64
        /// of a to z, 0 to 9, dot, dash and underscore.
        public var groups: [String]?
        /// What archives may come to.
        package var limits = ArchiveLimits()
        fileprivate let fetcher: any Fetcher

        /// States a feed, and what it is asked with.
        public init(_ source: FeedAddress, trust: String, appId: String?, fetcher: any Fetcher) {
            self.source = source
            self.trust = trust
            self.appId = appId
            self.fetcher = fetcher
        }
    }

    /// A Meteor server that pushes code.
    public struct Server: Sendable {
        /// The server.
        public let source: MeteorServerOptions
        fileprivate let fetcher: any Fetcher

        /// States a server, and what it is asked with.
        public init(_ source: MeteorServerOptions, fetcher: any Fetcher) {
            self.source = source
            self.fetcher = fetcher
        }
    }

    /// How the device's shell runs, who it is and where.
    public private(set) var configuration: ShellConfiguration
    /// Where archives come from; nil where nobody named a feed.
    public var feed: Feed?
    /// Where hot code pushes come from; nil where nobody named a server.
    public var server: Server? {
        didSet {
            guard let server, configuration.device.layout == nil else { return }
            configuration.device.layout = MeteorBundles(platform: server.source.platform)
        }
    }
    /// Called before the download of a version that the rules accept. With false, the device keeps its client, and the next check
    /// calls it again. That is not reported as a failure.
    public var shouldDownload: @Sendable (ClientVersion) async -> Bool = { _ in true }
    /// What updates under way are told to.
    package var report: @Sendable (UpdateEvent) -> Void = { _ in }
    private let now: @Sendable () -> Timestamp
    private let warn: @Sendable (String) -> Void

    /// A device without sources. `now` is the time that signatures, rollouts and the ledger go by; `warn` hears about repairs.
    public init(
        _ configuration: ShellConfiguration, now: @escaping @Sendable () -> Timestamp = { .now },
        warn: @escaping @Sendable (String) -> Void
    ) {
        self.configuration = configuration
        self.now = now
        self.warn = warn
    }

    // MARK: Sources

    /// Whether a feed or a server is named, followed or not.
    public var hasSource: Bool { feed != nil || server != nil }

    /// The Meteor server whose pushes are taken; nil where none is named, or the device's sources leave it out.
    public var followedServer: MeteorServerOptions? { order.contains(.meteor) ? server?.source : nil }

    /// Whose turn it is when. The device leaves sources out that it does not name; what the store remembers only keeps their
    /// clients from running, so they come last.
    private var order: [SourceName] {
        let named = SourceName.allCases.filter { $0 == .archive ? feed != nil : server != nil }
        if let given = configuration.device.sources { return given.names.filter(named.contains) }
        return remembered.filter(named.contains) + named.filter { !remembered.contains($0) }
    }

    /// A ledger that cannot be read is the updater's to repair.
    private var remembered: [SourceName] {
        ((try? Inventory.read(at: configuration.device.store))?.ledger.sources ?? .standard).names
    }

    /// The sources that are followed, each joined to the device, in the order of their channels.
    package func sources() throws -> [any DeviceSource] {
        warnOfSources()
        return try order.compactMap(source)
    }

    /// Tells of sources that are followed and whose clients do not run.
    private func warnOfSources() {
        for name in order where configuration.device.sources == nil && !remembered.contains(name) {
            warn(
                "the source \(name) is switched off in this store: what it brings does not run until it is named with "
                    + "--sources")
        }
    }

    private func source(_ name: SourceName) throws -> (any DeviceSource)? {
        switch name {
        case .archive: try feed.map(archives)
        case .meteor: try server.map(pushes)
        }
    }

    private func archives(_ feed: Feed) throws -> any DeviceSource {
        let source = ArchiveSource(
            source: feed.source, anchor: try TrustAnchor.read(at: feed.trust),
            deviceId: ArchiveSource.DeviceId(
                given: feed.deviceId, machine: try MachineIdentity.deviceId(), groups: try groups(feed)),
            seed: configuration.device.seed,
            limits: feed.limits, fetcher: feed.fetcher, now: now, report: report)
        let archives = FeedArchives(source: feed.source, limits: feed.limits, fetcher: feed.fetcher, report: report)
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
        let source = try MeteorSource(server.source, seed: seed, fetcher: server.fetcher, report: report)
        if let trouble = seed?.trouble { warn(trouble) }
        return joined(source, appId: nil, nil)
    }

    private func joined<Source: UpdateSource>(
        _ source: Source, appId: String?, _ archives: FeedArchives?
    ) -> any DeviceSource {
        let device = Updater<Source>.Device(
            store: configuration.device.store, shell: configuration.device.shell, appId: appId,
            keep: configuration.keep, sources: configuration.device.sources)
        let (seed, now, warn) = (configuration.device.seed, now, warn)
        let layout = configuration.device.layout ?? MeteorBundles(platform: .android)
        return JoinedSource(
            Updater(source: source, device: device, shouldDownload: shouldDownload, now: now, warn: warn),
            repair: {
                StoreRepair(
                    store: device.store, seed: try seed.map { try SeedFolder(at: $0, layout: layout) },
                    layout: layout, archives: archives, now: now, warn: warn)
            }, warn: warn)
    }

    // MARK: The shell

    /// Chooses and launches clients, for a shell that shows them itself.
    public func launcher() throws -> Launcher { try Launcher(configuration.device, now: now, warn: warn) }

    /// Launches the client that runs next for a device whose session has this `status`; the seed where the disk takes no store. Guests
    /// get the seed, without a boot attempt. Throws `UpdateFailure` with `deviceLocked` if the device is locked, and with `loginRequired`
    /// if no user is logged in and the device has no seed.
    package func launch(for status: SessionStatus) throws -> Launched {
        let isForGuests: Bool
        switch status {
        case .locked:
            throw UpdateFailure(
                .deviceLocked, subject: configuration.device.store,
                "The device is locked, so no client is shown: `clientctl unlock` unlocks it.")
        case .unauthenticated where configuration.device.seed == nil:
            throw UpdateFailure(
                .loginRequired, subject: configuration.device.store,
                "No user is logged in, and there is no seed for guests: run `clientctl login`, or name a seed with --seed."
            )
        case .unauthenticated: isForGuests = true
        case .notRequired, .authenticated: isForGuests = false
        }
        do {
            let launcher = try launcher()
            return isForGuests ? try launcher.show(launcher.prepare(forGuests: true)) : try launcher.launch()
        } catch {
            return try Launcher.launch(configuration.device, withoutStore: error, warn: warn)
        }
    }

    /// A shell that takes its updates from the sources, in front of the web view behind `bridge`. Where a source cannot be asked, be
    /// it that its keys cannot be read, the device shows what it has, and each check fails and tries again.
    public func shell(bridge: any ShellBridge, clock: any Clock<Duration> = SuspendingClock()) throws -> ClientShell {
        let late = order.map { name in LateSource { try source(name)?.step ?? allOf([]) } }
        let step: UpdateStep? = hasSource ? allOf(late.map { $0.check }) : nil
        let shell = try ClientShell(
            configuration, update: step, bridge: bridge, clock: clock, now: now, warn: warn)
        warnOfSources()
        for trouble in late.compactMap({ $0.trouble() }) {
            warn("\(UpdateFailure(trouble).message) Until then the device shows what it has; each check tries again.")
        }
        return shell
    }

    /// The same with a step of its own in the place of the sources', and chance by `random`.
    public func shell(
        bridge: any ShellBridge, clock: any Clock<Duration>,
        random: @escaping @Sendable (ClosedRange<Double>) -> Double, update: @escaping UpdateStep
    ) throws -> ClientShell {
        try ClientShell(
            configuration, update: update, bridge: bridge, clock: clock, random: random, now: now, warn: warn)
    }
}

/// A source whose keys may come later: a disk may be mounted late.
private final class LateSource: Sendable {
    private let make: @Sendable () throws -> UpdateStep
    private let made = Mutex<UpdateStep?>(nil)

    init(_ make: @escaping @Sendable () throws -> UpdateStep) { self.make = make }

    private func step() throws -> UpdateStep {
        try made.withLock { made in
            let step = try made ?? make()
            made = step
            return step
        }
    }

    /// Why it cannot be asked now; nil where it can.
    func trouble() -> (any Error)? {
        do {
            _ = try step()
            return nil
        } catch {
            return error
        }
    }

    /// Asks it.
    func check() async -> CheckResult {
        do {
            return try await step()()
        } catch {
            return CheckResult(failures: [error], hasResponse: false, pace: nil)
        }
    }
}

// MARK: Fetchers

extension DeviceContainer {
    /// What remembers who is signed in on the device with the store at `path`.
    public static func sessions(store path: String) -> any SessionRepository { FileSessionRepository(store: path) }

    /// What asks for updates over HTTP, under the name `userAgent`.
    public static func fetcher(userAgent: String) throws -> any Fetcher {
        try fetcher(FetchOptions(userAgent: userAgent))
    }

    /// The same for a feed at `url` that asks for a token: that of the session, which only the feed's origin is shown.
    ///
    /// `report` hears why the session could not be read or ended.
    public static func fetcher(
        userAgent: String, for url: FetchURL, sessions: any SessionRepository,
        report: @escaping @Sendable (any Error) -> Void
    ) throws -> any Fetcher {
        try fetcher(FetchOptions(userAgent: userAgent), for: url, sessions: sessions, report: report)
    }

    /// Returns what asks for updates over HTTP, with a proxy, authorities and limits of the caller's choice.
    public static func fetcher(_ options: FetchOptions) throws -> any Fetcher {
        // libcurl's TLS shares OpenSSL with our verification; no openssl.cnf may change either.
        try OpenSSLIsolation.begin()
        return CurlFetcher(options: options)
    }

    /// The same for a feed at `url` that asks for a token: that of the session, which only the feed's origin is shown.
    ///
    /// `report` hears why the session could not be read or ended.
    public static func fetcher(
        _ options: FetchOptions, for url: FetchURL, sessions: any SessionRepository,
        report: @escaping @Sendable (any Error) -> Void
    ) throws -> any Fetcher {
        try OpenSSLIsolation.begin()
        return SessionFetcher(options, feed: url, sessions: sessions, now: { .now }, report: report)
    }
}
