import BundleValues
import BundlePlatform
import BundlePush
import BundleSockets

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
