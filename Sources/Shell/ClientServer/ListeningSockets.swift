package import BundleFetch
import BundleCore
public import BundleShell
import BundleSigning
import BundleSockets
package import BundleTransport
package import BundleValues

extension DeviceContainer {
    /// Creates the update notifications of this device: from the host at `push`, from the Meteor server that the device follows, and from
    /// changes of the network. The sockets use the `network` of the container. The token of its
    /// `sessions` is sent to the origin of the feed and to that of the Meteor server, and nowhere else.
    ///
    /// Throws if `push` is not the URL of a WebSocket, or if the device has no feed that a host could announce.
    public func listening() throws -> Listening {
        try listening { origin, maximumMessage in
            try Listening.connector(network, for: origin, sessions: sessions, maximumMessage: maximumMessage)
        }
    }
}

extension Listening {
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
