import ArchiveChannel
public import BundleCore
import BundlePlatform
import BundleSigning
public import MeteorChannel
public import ShellBoot

/// Builds shells out of real collaborators, for programs that embed one.
public enum ShellContainer {
    /// Where releases come from, and whose are taken.
    public struct Feed: Sendable {
        /// A flat manifest or a channel document.
        public let source: ReleaseSource
        /// A PEM public key, a folder of them, or a trust root.
        public let trust: String
        /// The device's application; nil where it names none.
        public let appId: String?

        /// States a feed.
        public init(_ source: ReleaseSource, trust: String, appId: String?) {
            self.source = source
            self.trust = trust
            self.appId = appId
        }
    }

    /// What asks for updates over HTTP, under the name `userAgent`.
    public static func fetcher(userAgent: String) throws -> any Fetcher {
        // libcurl's TLS shares OpenSSL with our verification; no openssl.cnf may change either.
        try OpenSSLIsolation.begin()
        return CurlFetcher(options: FetchOptions(userAgent: userAgent))
    }

    /// The same for a feed at `url` that asks for a token: that of the session, which only the feed's origin is shown.
    ///
    /// `report` hears why the session could not be read or ended.
    public static func fetcher(
        userAgent: String, for url: FetchURL, sessions: any SessionRepository,
        report: @escaping @Sendable (any Error) -> Void
    ) throws -> any Fetcher {
        try OpenSSLIsolation.begin()
        return SessionFetcher(
            FetchOptions(userAgent: userAgent), origin: url.origin, sessions: sessions, now: { .now }, report: report)
    }

    /// What remembers who is signed in on the device with the store at `path`.
    public static func sessions(store path: String) -> any SessionRepository { FileSessionRepository(store: path) }

    /// A shell that takes its updates from `feed` by signed archives, from a Meteor `server` by hot code push, or from both.
    ///
    /// A shell that shows Meteor bundles needs a `MeteorBundles` as the layout of its device.
    public static func shell(
        _ configuration: ShellConfiguration, feed: Feed? = nil, server: MeteorSource? = nil, fetcher: any Fetcher,
        bridge: any ShellBridge, clock: any Clock<Duration> = SuspendingClock(),
        warn: @escaping @Sendable (String) -> Void
    ) throws -> ClientShell {
        var steps: [UpdateStep] = []
        if let server {
            let layout = MeteorBundles(platform: server.platform)
            let seed = try configuration.device.seed.map { try SeedFolder(at: $0, layout: layout) }
            let channel = try MeteorChannel(server, seed: seed, fetcher: fetcher, report: { _ in })
            steps.append(step(channel, configuration, appId: nil, warn))
        }
        if let feed {
            let channel = ArchiveChannel(
                source: feed.source, anchor: try TrustAnchor.read(at: feed.trust),
                deviceId: ArchiveChannel.DeviceId(machine: try MachineIdentity.deviceId()), limits: ArchiveLimits(),
                fetcher: fetcher, report: { _ in })
            steps.append(step(channel, configuration, appId: feed.appId, warn))
        }
        return try ClientShell(
            configuration, update: steps.isEmpty ? nil : allOf(steps), bridge: bridge, clock: clock, warn: warn)
    }

    private static func step<Channel: UpdateChannel>(
        _ channel: Channel, _ configuration: ShellConfiguration, appId: String?,
        _ warn: @escaping @Sendable (String) -> Void
    ) -> UpdateStep {
        let device = Updater<Channel>.Device(
            store: configuration.device.store, shell: configuration.device.shell, appId: appId,
            keep: configuration.keep, channels: configuration.device.channels)
        let runner = UpdateRunner(Updater(channel: channel, device: device, warn: warn))
        return { await .of(pace: { await runner.pace }) { _ = try await runner.check() } }
    }
}
