import ArchiveSource
import BundleCore
package import BundlePlatform
package import BundlePush
package import BundleValues
public import ClientShell
import MeteorSource

/// What lets a shell look at once instead of at its next check: a host that announces, a Meteor server that states versions.
///
/// Neither is needed: where there is no connection, updates are found by checking from time to time.
public struct Listening: Sendable {
    /// Whoever announces what is new in the followed feed.
    package struct Host: Sendable {
        /// As it was named.
        let url: SocketURL
        /// The same, with the channel that is listened for.
        let address: SocketURL
        let channel: String
        let connector: any TransportConnector
        /// The sequence of the document that was taken last.
        let sequence: @Sendable () -> Int?

        init(
            url: SocketURL, channel: String, connector: any TransportConnector,
            sequence: @escaping @Sendable () -> Int?
        ) throws(TransportError) {
            self.url = url
            address = try ChannelSubscription.url(url, for: channel)
            self.channel = channel
            self.connector = connector
            self.sequence = sequence
        }
    }

    /// The Meteor server that is followed.
    package struct Server: Sendable {
        let rootURL: FetchURL
        let connector: any TransportConnector

        /// Names a server, and what opens sockets to it.
        package init(rootURL: FetchURL, connector: any TransportConnector) {
            self.rootURL = rootURL
            self.connector = connector
        }
    }

    /// How often to see whether another page is shown, which may name another server.
    private static let pageInterval = Duration.seconds(2)
    private static let networkInterval = Duration.seconds(1)

    /// The host that is listened to; nil where none is.
    package let host: Host?
    /// The Meteor server that is listened to; nil where none is.
    package let server: Server?
    private let say: @Sendable (String) -> Void
    /// Knows when this machine gets a way out to a network; nil where nothing is fetched over one, or nobody tells.
    private let network: NetworkWatch?
    /// Hears of each connection when it stands and when it is lost, by who is at the other end: `host` or `meteor`.
    public var link: @Sendable (_ peer: String, _ isUp: Bool) -> Void = { _, _ in }

    /// Listens to what is named; `say` hears sentences for people.
    package init(
        host: Host?, server: Server?, network: NetworkWatch?, say: @escaping @Sendable (String) -> Void
    ) {
        self.host = host
        self.server = server
        self.network = network
        self.say = say
    }

    /// Listens until the task is cancelled, and has `shell` check soon.
    public func run(_ shell: ClientShell) async {
        await withTaskGroup { group in
            if let host { group.addTask { await follow(host, shell) } }
            if let server { group.addTask { await follow(server, shell) } }
            if let network { group.addTask { await follow(network, shell) } }
        }
    }

    // MARK: The network

    /// A device that was cut off does not wait for its next check, which an outage has put off.
    private func follow(_ network: NetworkWatch, _ shell: ClientShell) async {
        while (try? await Task.sleep(for: Self.networkInterval)) != nil {
            guard network.hasNewRoute() else { continue }
            say("there is a way out to a network: checking")
            await shell.checkSoon()
        }
    }

    // MARK: A host

    private func follow(_ host: Host, _ shell: ClientShell) async {
        let watcher = ReleaseWatcher(
            SyncClient.Configuration(url: host.address), channel: host.channel, connector: host.connector,
            known: { host.sequence() },
            // The shell knows the jitter that the channel asks for, and waits.
            check: { isUrgent in await shell.checkSoon(isUrgent: isUrgent) }
        ) { report in
            switch report {
            case .link(let report): note(report, of: "host", host.url)
            case .announced(let sequence):
                say("\(host.url) announces sequence \(sequence) of the channel \(host.channel): checking")
            }
        }
        await watcher.run()
    }

    // MARK: A Meteor server

    /// Watches what the page that is shown names, and begins again when another page names something else.
    private func follow(_ server: Server, _ shell: ClientShell) async {
        while !Task.isCancelled {
            do {
                try await watch(server, shell)
            } catch {
                if !Task.isCancelled { say("\(server.rootURL.display) is not listened to: \(error)") }
                return
            }
        }
    }

    private func watch(_ server: Server, _ shell: ClientShell) async throws {
        let configuration = try await configuration(server, shell)
        let watcher = VersionWatcher(
            configuration, connector: server.connector, running: { await Self.page(of: shell)?.version },
            onNewVersion: { version in
                say("\(configuration.url) states version \(version): checking")
                await shell.checkSoon(within: .zero)
            }, report: { note($0, of: "meteor", configuration.url.socket) })
        try await withThrowingTaskGroup(of: VersionWatcher.End?.self) { group in
            group.addTask { await watcher.run() }
            group.addTask {
                try await untilAnother(configuration, server, shell)
                return nil
            }
            defer { group.cancelAll() }
            guard case .refused(let reason)?? = try await group.next() else { return }
            say("\(configuration.url) is not listened to any more: \(UntrustedName.display(reason))")
            // Another page may name another server.
            _ = try await group.next()
        }
    }

    private func configuration(_ server: Server, _ shell: ClientShell) async throws -> VersionWatcher.Configuration {
        try VersionWatcher.Configuration(server: server.rootURL, page: await Self.page(of: shell)?.config)
    }

    /// Returns when the page that is shown names another socket or application.
    private func untilAnother(
        _ configuration: VersionWatcher.Configuration, _ server: Server, _ shell: ClientShell
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

    /// What the page that is shown says of itself; nil where it is no Meteor client's.
    private static func page(of shell: ClientShell) async -> (version: MeteorVersion?, config: RuntimeConfig)? {
        guard let shown = try? await shell.shownPage(), let config = try? RuntimeConfig.read(page: shown.page) else {
            return nil
        }
        if case .meteor(let version)? = shown.name.version { return (version, config) }
        return (config.pageVersion.flatMap { try? MeteorVersion(parsing: $0) }, config)
    }

    // MARK: Words

    private func note(_ report: LinkReport, of peer: String, _ url: SocketURL) {
        switch report {
        case .connected: link(peer, true)
        case .lost: link(peer, false)
        case .note: break
        }
        say(Self.describe(report, url))
    }

    private static func describe(_ report: LinkReport, _ url: SocketURL) -> String {
        switch report {
        case .connected: "listening to \(url)"
        // Whoever is at the other end has a say in these words.
        case .lost(let reason):
            "\(url) cannot be listened to: \(UntrustedName.display(reason)). Updates are found by checking meanwhile"
        case .note(let sentence): "\(url): \(UntrustedName.display(sentence))"
        }
    }
}
