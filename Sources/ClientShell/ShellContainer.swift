import ArchiveChannel
public import BundleCore
import BundlePlatform
import BundleSigning

/// Builds shells out of real collaborators, for programs that embed one.
public enum ShellContainer {
    /// Where releases come from, and whose are taken.
    public struct Feed: Sendable {
        /// The manifest.
        public let manifest: FetchURL
        /// A PEM public key, or a folder of them.
        public let trust: String
        /// The device's application; nil where it names none.
        public let appId: String?

        /// States a feed.
        public init(manifest: FetchURL, trust: String, appId: String?) {
            self.manifest = manifest
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

    /// A shell that takes its updates from `feed` by signed archives.
    public static func shell(
        _ configuration: ShellConfiguration, feed: Feed, fetcher: any Fetcher, bridge: any ShellBridge,
        clock: any Clock<Duration> = SuspendingClock(), warn: @escaping @Sendable (String) -> Void
    ) throws -> ClientShell {
        let channel = ArchiveChannel(
            manifestURL: feed.manifest, trusted: try TrustedKeys.read(at: feed.trust), limits: ArchiveLimits(),
            fetcher: fetcher, report: { _ in })
        let device = Updater<ArchiveChannel>.Device(
            store: configuration.device.store, shell: configuration.device.shell, appId: feed.appId,
            keep: configuration.keep)
        let updater = Updater(channel: channel, device: device, warn: warn)
        return try ClientShell(
            configuration, update: { _ = try await updater.update() }, bridge: bridge, clock: clock, warn: warn)
    }
}
