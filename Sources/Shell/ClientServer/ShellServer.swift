package import BundleServe
import BundleCore
public import BundleShell
import BundleValues
package import MeteorSource

/// Serves the client of a device to a browser on the same machine, as `clientctl serve` does: pages have the interface of
/// `WebAppLocalServer` and of Capacitor's plugin. It runs the shell of the device.
///
/// Create one with `start`, call `run` for the lifetime of the program, and `stop` at its end.
public final class ShellServer: Sendable {
    /// The settings of a server, besides those of its device.
    public struct Options: Sendable {
        /// The port; 0 for any free one, nil for the port that is derived from the application's ID. Browsers keep the data of a page by
        /// its port.
        public var port: Int?
        /// The path of a JSON file with texts of the state pages, by language; nil for the standard texts.
        public var texts: String?
        /// The path of a CSS file for the state pages; nil for the standard style.
        public var style: String?

        /// Creates the standard settings.
        public init(port: Int? = nil) { self.port = port }
    }

    /// The shell.
    public let shell: ClientShell
    /// The port on which it listens, at 127.0.0.1.
    public let port: Int
    /// The events of the shell in order. The newest thousand are kept for a slow observer. They replace the `events` of the shell, which the
    /// server reads.
    public let events: AsyncStream<ShellEvent>

    private let host: LoopbackHost
    private let server: PageServer
    private let boot: ShellBootSequence
    private let shown: ShellBootSequence.Shown
    private let storeInterval: Duration

    /// The address of the page.
    public var url: String { "http://127.0.0.1:\(port)/" }

    private init(
        _ host: LoopbackHost, _ shell: ClientShell, _ server: PageServer, _ boot: ShellBootSequence,
        _ shown: ShellBootSequence.Shown, _ events: AsyncStream<ShellEvent>
    ) {
        (self.host, self.shell, self.server, self.boot, self.shown) = (host, shell, server, boot, shown)
        self.events = events
        port = server.port
        storeInterval = shell.configuration.storeInterval
    }

    /// Opens the store of `device`, selects its client, and listens. Throws if the store is in use, if nothing can be shown and the device
    /// has no source, or if a port that `options` names is in use. A derived port that is in use is replaced by the next free one, with a
    /// message in the log.
    public static func start(_ device: DeviceContainer, _ options: Options = Options()) async throws -> ShellServer {
        var device = device
        let endpoints = EndpointWatch(device.configuration.startupTimeout)
        device.configuration.visibility = .reported
        device.configuration.endpointWatch = endpoints
        if device.configuration.device.layout == nil {
            device.configuration.device.layout = MeteorBundles(platform: .android)
        }
        let bridge = LoopbackBridge(
            ScreenDesign(
                texts: try options.texts.map { try ScreenTexts(file: $0) } ?? .standard,
                style: try options.style.map { try ScreenStyle(file: $0) }, device: MachineIdentity.hostName))
        let shell = try device.shell(bridge: bridge)
        let (events, observers) = AsyncStream<ShellEvent>.makeStream(bufferingPolicy: .bufferingNewest(1000))
        let host = try LoopbackHost(shell, bridge, endpoints: endpoints) { observers.yield($0) }
        let (sessions, environment) = (device.sessions, device.environment)
        let launch = ShellLaunch(shell) { await bridge.noteEnded(sessions, at: environment.now()) }
        let boot = ShellBootSequence(
            sessions: sessions, launch: launch, bridge: bridge, log: environment.log,
            userDidSignIn: { await shell.checkSoon(within: .zero) })
        let shown = try await boot.first(waits: device.hasSource)
        let meteorId = try await shell.meteorAppId()
        let appId = device.feed?.appId ?? device.server?.source.appId ?? meteorId
        var configuration = ServerConfiguration(
            port: options.port.map { .fixed($0) } ?? .derived(appId: appId), bridge: try .page())
        configuration.opensSockets = true
        configuration.environment = environment
        configuration.allowConnections(to: device.followedServer)
        let server = try await PageServer.start(configuration, host: host)
        if server.port != server.wantedPort {
            environment.log(
                "port \(server.wantedPort) is in use, so the server listens on \(server.port): pages cannot read data that they stored at "
                    + "\(server.wantedPort).")
        }
        return ShellServer(host, shell, server, boot, shown, events)
    }

    /// Runs the shell, until the task is cancelled. It checks for updates as the device's `polling` says, and follows sessions and locks.
    public func run() async {
        await withTaskGroup { group in
            group.addTask { await self.host.run() }
            group.addTask { await self.boot.again(every: self.storeInterval, after: self.shown) }
            await group.waitForAll()
        }
    }

    /// Ends the shell and closes all connections within two seconds. Call it after the task of `run` has been cancelled and has ended. A
    /// client on trial is neither failed nor confirmed.
    public func stop() async {
        await shell.stop()
        await server.stop(grace: .seconds(2))
    }
}

extension ServerConfiguration {
    /// Allows pages to connect to the Meteor server that the device follows, over HTTP and WebSockets.
    package mutating func allowConnections(to server: MeteorServerOptions?) {
        guard let origin = server?.rootURL.origin else { return }
        let schemes = origin.scheme == .https ? ["https", "wss"] : ["http", "ws"]
        extraSources["connect-src", default: []] += schemes.map { "\($0)://\(origin.host):\(origin.port)" }
    }
}
