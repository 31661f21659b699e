import BundleCore
public import BundleFetch
public import BundleTransport
import BundleSigning
import BundleSockets
public import BundleValues
import MeteorSource

extension DeviceContainer {
    /// Creates the update notifications of this device: from the host at the WebSocket URL `push`, from the Meteor
    /// server that the device follows, and from changes of the network. The log of `environment` receives messages for operators.
    ///
    /// `sockets` opens the WebSockets of a program that manages them, such as a `DelegateConnector`; the token of the
    /// session is not added to these. By default the container opens them, and sends the token of `sessions` to the origin of the
    /// feed only; `options` has their proxy, authorities and certificate. Throws if `push` is not the URL of a WebSocket, or if the device has no feed that a host could
    /// announce.
    public func listening(
        push: String?, options: FetchOptions, sockets: (any TransportConnector)? = nil,
        environment: Environment
    ) throws -> Listening {
        let store = configuration.device.store
        let host = try push.map { text in
            guard let feed else {
                throw UpdateFailure(
                    .usage, subject: text,
                    "The host \(text) announces a feed, but this device follows none. Name a feed.")
            }
            let connector =
                try sockets
                ?? Listening.connector(
                    options, for: feed.source.url, sessions: sessions,
                    maximumMessage: Listening.hostMessage)
            return try Listening.Host(
                url: try SocketURL(parsing: text), of: feed.source, store: store, connector: connector)
        }
        let server = try followedServer.map { server in
            Listening.PushedServer(
                rootURL: server.rootURL,
                connector: try sockets
                    ?? Listening.connector(
                        options, for: server.rootURL, sessions: sessions,
                        maximumMessage: Listening.serverMessage))
        }
        return Listening(
            host: host, server: server, network: hasSource ? NetworkWatch() : nil, environment: environment)
    }

    /// Creates the update notifications with the default proxy and authorities.
    public func listening(push: String?, userAgent: String, environment: Environment) throws -> Listening {
        try listening(push: push, options: FetchOptions(userAgent: userAgent), environment: environment)
    }
}

extension Listening {
    /// The largest message of a host, in bytes.
    package static let hostMessage = 64 << 10
    /// The largest message of a Meteor server, in bytes.
    package static let serverMessage = 1 << 20

    /// Creates a connector. It sends a token to sockets with the origin of `url` only: `named`, or the token of the
    /// session.
    package static func connector(
        _ options: FetchOptions, for url: FetchURL, sessions: any SessionRepository, named: BearerCredential? = nil,
        maximumMessage: Int
    ) throws -> any TransportConnector {
        var configuration = SocketConnector.Configuration(userAgent: options.userAgent)
        configuration.limits.message = maximumMessage
        // As for downloads, no openssl.cnf may change the TLS of libcurl.
        try OpenSSLIsolation.begin()
        let extra = options.headers.flatMap { $0.origin == url.origin ? $0.fields : nil } ?? []
        return TokenConnector(
            configuration: configuration, streams: CurlStreamConnector(options: options), origin: url.origin,
            extra: extra, sessions: sessions, named: named)
    }
}

/// Opens sockets and sends the device's token to one origin only, which receives it over HTTP as well.
private struct TokenConnector: TransportConnector {
    let configuration: SocketConnector.Configuration
    let streams: any StreamConnector
    /// The only origin that receives a token and the fields `extra`.
    let origin: FetchURL.Origin
    let extra: [(name: String, value: String)]
    let sessions: any SessionRepository
    /// The token that replaces that of the session.
    let named: BearerCredential?

    func connect(_ url: SocketURL) async throws -> any SyncTransport {
        var configuration = configuration
        if url.start.origin == origin {
            configuration.fields = try await credential().map { [$0.field] + extra } ?? extra
        }
        return try await SocketConnector(configuration, over: streams).connect(url)
    }

    private func credential() async throws -> BearerCredential? {
        if let named { return named }
        guard let session = try await sessions.record().session, session.isValid(at: .now) else { return nil }
        return try BearerCredential(session.token, origin: origin)
    }
}
