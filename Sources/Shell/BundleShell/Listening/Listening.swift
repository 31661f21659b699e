import ArchiveSource
package import BundleCore
public import BundleTransport
package import BundleValues
import MeteorSource

/// Notifications that let a shell check at once: from a host that announces releases, and from a Meteor server that
/// publishes versions.
///
/// They are optional: without a connection, periodic checks find updates.
public struct Listening: Sendable {
    /// A host that announces changes of the followed feed.
    package struct Host: Sendable {
        /// The URL as the operator named it.
        let url: SocketURL
        /// The URL with the subscribed channel.
        let address: SocketURL
        let channel: String
        let connector: any TransportConnector
        private let store: String
        /// Whether the store follows the channel. A flat manifest has no sequence.
        private let isFollowed: Bool

        /// Creates the host at `url`, which announces the feed that the store at `store` follows. The flat manifest of a feed is
        /// the newest release of its standard channel.
        package init(url: SocketURL, of feed: FeedAddress, store: String, connector: any TransportConnector) throws {
            switch feed {
            case .channel(let document): (channel, isFollowed) = (try ChannelFileName.name(in: document), true)
            case .manifest: (channel, isFollowed) = (ChannelFileName.standard, false)
            }
            self.url = url
            address = try ChannelSubscription.url(url, for: channel)
            self.connector = connector
            self.store = store
        }

        /// The sequence of the last accepted channel file.
        var sequence: Int? {
            isFollowed ? (try? Inventory.read(at: store))?.ledger.feed.channel(channel)?.sequence : nil
        }
    }

    /// The Meteor server that the device follows.
    package struct PushedServer: Sendable {
        let rootURL: FetchURL
        let connector: any TransportConnector

        /// Creates a server with a connector for its sockets.
        package init(rootURL: FetchURL, connector: any TransportConnector) {
            self.rootURL = rootURL
            self.connector = connector
        }
    }

    /// The interval at which the shown page is read, because another page may name another server.
    private static let pageInterval = Duration.seconds(2)
    private static let networkInterval = Duration.seconds(1)

    /// The host; nil if there is none.
    package let host: Host?
    /// The Meteor server; nil if there is none.
    package let server: PushedServer?
    private let environment: Environment
    /// Detects new network routes; nil if nothing is downloaded over a network, or the system reports no routes.
    private let network: NetworkWatch?
    /// Receives the state of each connection, with the name of its peer: `host` or `meteor`.
    public var link: @Sendable (_ peer: String, _ isUp: Bool) -> Void = { _, _ in }

    /// Creates notifications. The log of `environment` receives messages for operators.
    package init(host: Host?, server: PushedServer?, network: NetworkWatch?, environment: Environment) {
        self.host = host
        self.server = server
        self.network = network
        self.environment = environment
    }

    /// Requests checks of `shell` after notifications, until the task is cancelled.
    public func run(_ shell: ClientShell) async {
        await withTaskGroup { group in
            if let host { group.addTask { await follow(host, shell) } }
            if let server { group.addTask { await follow(server, shell) } }
            if let network { group.addTask { await follow(network, shell) } }
        }
    }

    // MARK: Network

    /// Checks as soon as the device is online again. An outage has delayed its next planned check.
    private func follow(_ network: NetworkWatch, _ shell: ClientShell) async {
        while (try? await Task.sleep(for: Self.networkInterval)) != nil {
            guard network.hasNewRoute() else { continue }
            environment.log("the network is available again: checking")
            await shell.checkSoon()
        }
    }

    // MARK: Host

    private func follow(_ host: Host, _ shell: ClientShell) async {
        let watcher = ReleaseWatcher(
            SyncClient.Configuration(url: host.address), channel: host.channel, connector: host.connector)
        await watcher.run(
            known: { host.sequence },
            // The shell applies the channel's jitter.
            check: { isUrgent in await shell.checkSoon(isUrgent: isUrgent) }
        ) { report in
            switch report {
            case .link(let report): note(report, of: "host", host.url)
            case .announced(let sequence):
                environment.log("\(host.url) announces sequence \(sequence) of the channel \(host.channel): checking")
            }
        }
    }

    // MARK: Meteor server

    /// Follows the server that the shown page names, and starts again when another page names another one.
    private func follow(_ server: PushedServer, _ shell: ClientShell) async {
        while !Task.isCancelled {
            do {
                try await watch(server, shell)
            } catch {
                if !Task.isCancelled { environment.log("cannot listen to \(server.rootURL.display): \(error)") }
                return
            }
        }
    }

    private func watch(_ server: PushedServer, _ shell: ClientShell) async throws {
        let configuration = try await configuration(server, shell)
        let watcher = VersionWatcher(configuration, connector: server.connector)
        try await withThrowingTaskGroup(of: VersionWatcher.WatchEnd?.self) { group in
            group.addTask {
                await watcher.run(
                    running: { await Self.page(of: shell)?.version },
                    onNewVersion: { version in
                        environment.log("\(configuration.url) states version \(version): checking")
                        await shell.checkSoon(within: .zero)
                    }, report: { note($0, of: "meteor", configuration.url.socket) })
            }
            group.addTask {
                try await untilAnother(configuration, server, shell)
                return nil
            }
            defer { group.cancelAll() }
            guard case .refused(let reason)?? = try await group.next() else { return }
            environment.log("no longer listening to \(configuration.url): \(UntrustedName.display(reason))")
            // Another page may name another server.
            _ = try await group.next()
        }
    }

    private func configuration(_ server: PushedServer, _ shell: ClientShell) async throws
        -> VersionWatcher.Configuration
    {
        try VersionWatcher.Configuration(server: server.rootURL, page: await Self.page(of: shell)?.config)
    }

    /// Returns when the shown page names another socket or application.
    private func untilAnother(
        _ configuration: VersionWatcher.Configuration, _ server: PushedServer, _ shell: ClientShell
    ) async throws {
        var name = await shell.nextLaunch
        while true {
            try await Task.sleep(for: Self.pageInterval)
            let now = await shell.nextLaunch
            if now == name { continue }
            name = now
            if try await self.configuration(server, shell) != configuration { return }
        }
    }

    /// Returns the version and the configuration in the shown page; nil if it is not of a Meteor client.
    private static func page(of shell: ClientShell) async -> (version: MeteorVersion?, config: RuntimeConfig)? {
        guard let shown = try? await shell.shownPage(), let config = try? RuntimeConfig.read(page: shown.page) else {
            return nil
        }
        if case .meteor(let version)? = shown.name.version { return (version, config) }
        return (config.pageVersion.flatMap { try? MeteorVersion(parsing: $0) }, config)
    }

    // MARK: Messages

    private func note(_ report: LinkReport, of peer: String, _ url: SocketURL) {
        switch report {
        case .connected: link(peer, true)
        case .lost: link(peer, false)
        case .note: break
        }
        environment.log(Self.describe(report, url))
    }

    private static func describe(_ report: LinkReport, _ url: SocketURL) -> String {
        switch report {
        case .connected: "listening to \(url)"
        // The peer controls a part of this text.
        case .lost(let reason):
            "cannot listen to \(url): \(UntrustedName.display(reason)). Periodic checks still find updates"
        case .note(let sentence): "\(url): \(UntrustedName.display(sentence))"
        }
    }
}

extension DeviceContainer {
    /// Creates the update notifications of this device: from the host at `push`, from the Meteor server that the device follows, and from
    /// changes of the network.
    ///
    /// `sockets` opens the WebSockets of a program that manages them, such as a `DelegateConnector`. The token of the session is not
    /// added to these; the module `ClientServer` has sockets that send it. Throws if `push` is not the URL of a WebSocket, or if the
    /// device has no feed that a host could announce.
    public func listening(sockets: any TransportConnector) throws -> Listening { try listening { _, _ in sockets } }

    /// Creates the update notifications with the sockets that `connector` returns for the origin of a URL. Their messages have at most
    /// the given number of bytes.
    package func listening(
        connector: (_ origin: FetchURL, _ maximumMessage: Int) throws -> any TransportConnector
    ) throws -> Listening {
        let host = try push.map { text in
            guard let feed else {
                throw UpdateFailure(
                    .usage, subject: text,
                    "The host \(text) announces a feed, but this device follows none. Name a feed.")
            }
            return try Listening.Host(
                url: try SocketURL(parsing: text), of: feed.source, store: configuration.device.store,
                connector: try connector(feed.source.url, Listening.hostMessage))
        }
        let server = try followedServer.map { server in
            Listening.PushedServer(
                rootURL: server.rootURL, connector: try connector(server.rootURL, Listening.serverMessage))
        }
        return Listening(
            host: host, server: server, network: hasSource ? NetworkWatch() : nil, environment: environment)
    }
}

extension Listening {
    /// The largest message of a host, in bytes.
    package static let hostMessage = 64 << 10
    /// The largest message of a Meteor server, in bytes.
    package static let serverMessage = 1 << 20
}
