import ArchiveSource
import ArgumentParser
import BundleCore
import BundlePlatform
import BundlePush
import BundleSigning
import BundleSockets
import BundleValues
import ShellBoot

extension Wiring {
    /// What `serve` listens to: the host at `push`, where one is named, and the Meteor server that is followed.
    static func listening(
        _ options: UpdateOptions, push: String?, _ settings: Settings, say: @escaping @Sendable (String) -> Void
    ) throws -> Listening {
        let (feed, meteor) = try places(options, settings)
        let wanted = try options.sources.order(settings)?.names ?? SourceName.allCases
        let host = try settings.optional("push", push).map { text in
            guard let feed, wanted.contains(.archive) else {
                throw ValidationError("--push is about a feed: name it with --channel or --manifest.")
            }
            return try self.host(text, feed, options, settings)
        }
        let server = try wanted.contains(.meteor) ? meteor.map { try self.server($0, options, settings) } : nil
        let isPolling = feed != nil || meteor != nil
        return Listening(host: host, server: server, say: say, network: isPolling ? NetworkWatch() : nil)
    }

    private static func host(
        _ text: String, _ feed: FeedAddress, _ options: UpdateOptions, _ settings: Settings
    ) throws -> Listening.Host {
        let url = try settings.parsed("push", text) { try SocketURL(parsing: $0) }
        let store = try settings.required("store", options.place.store)
        let connector = try connector(options.network, for: feed.url, store: store, maximumMessage: 64 << 10, settings)
        switch feed {
        case .channel(let document):
            let channel = try ChannelFileName.name(in: document)
            return Listening.Host(url: url, channel: channel, connector: connector) {
                (try? Inventory.read(at: store))?.ledger.feed.channel(channel)?.sequence
            }
        case .manifest:
            // A feed's flat manifest is the newest release of its standard channel, and has no sequence.
            return Listening.Host(url: url, channel: ChannelFileName.standard, connector: connector) { nil }
        }
    }

    private static func server(
        _ text: String, _ options: UpdateOptions, _ settings: Settings
    ) throws -> Listening.Server {
        let url = try settings.parsed("meteor", text) { try FetchURL(parsing: $0) }
        let store = try settings.required("store", options.place.store)
        return Listening.Server(
            rootURL: url,
            connector: try connector(options.network, for: url, store: store, maximumMessage: 1 << 20, settings))
    }

    /// Opens sockets; the token that `fetcher` shows to the origin of `url` is shown to sockets of the same origin, and to no others.
    private static func connector(
        _ network: NetworkOptions, for url: FetchURL, store: String, maximumMessage: Int, _ settings: Settings
    ) throws -> any TransportConnector {
        var configuration = SocketConnector.Configuration(userAgent: Product.userAgent)
        configuration.limits.message = maximumMessage
        // As for fetches: no openssl.cnf may change what libcurl's TLS does.
        try OpenSSLIsolation.begin()
        let options = try network.fetching(settings)
        let named = try credential(network, for: url, settings)
        let sessions = sessions(store)
        return TokenConnector(configuration, over: CurlStreamConnector(options: options), origin: url.origin) {
            if let named { return named }
            guard let session = try sessions.record().session, session.isValid(at: .now) else { return nil }
            return try BearerCredential(session.token, origin: url.origin)
        }
    }
}

/// Opens sockets, and shows the device's token to one origin alone: the one that it belongs to over HTTP.
struct TokenConnector: TransportConnector {
    private let configuration: SocketConnector.Configuration
    private let streams: any StreamConnector
    private let origin: FetchURL.Origin
    private let credential: @Sendable () async throws -> BearerCredential?

    /// `credential` is asked for each connection to `origin`, and for no other.
    init(
        _ configuration: SocketConnector.Configuration, over streams: any StreamConnector, origin: FetchURL.Origin,
        credential: @escaping @Sendable () async throws -> BearerCredential?
    ) {
        self.configuration = configuration
        self.streams = streams
        self.origin = origin
        self.credential = credential
    }

    func connect(_ url: SocketURL) async throws -> any SyncTransport {
        var configuration = configuration
        if url.start.origin == origin, let credential = try await credential() {
            let field = credential.field
            configuration.fields = { _ in [field] }
        }
        return try await SocketConnector(configuration, over: streams).connect(url)
    }
}
