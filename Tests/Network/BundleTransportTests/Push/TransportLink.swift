import BundleFetch
import BundleTransport
import BundleSockets
import BundleTesting

/// The kinds of connections for the contract tests.
enum TransportLink: CaseIterable, Sendable {
    /// Two ends in memory, the fake of other tests.
    case pair
    /// A socket of a delegate.
    case bridged
    /// A WebSocket from the client's end, from the server's end, and over TLS.
    case client, server, secure

    /// Both ends of a connection, and the objects that must live as long.
    struct Open: Sendable {
        let near: any SyncTransport
        let far: any SyncTransport
        let server: SocketServer?
        var front: TLSFront?
    }

    func open() async throws -> Open {
        switch self {
        case .pair:
            let (near, far) = PairEnd.make()
            return Open(near: near, far: far, server: nil)
        case .bridged:
            let owner = SocketOwner()
            let near = try await DelegateConnector(owner).connect(try SocketURL(parsing: "ws://owner"))
            guard let far = await owner.opened.first(where: { _ in true }) else { throw TransportError.isClosed }
            return Open(near: near, far: far, server: nil)
        case .client, .server, .secure: return try await socket()
        }
    }

    private func socket() async throws -> Open {
        let authority = self == .secure ? try TestAuthority(names: "IP:127.0.0.1") : nil
        let (accepted, accepting) = AsyncStream<SocketTransport>.makeStream()
        // Long limits, because some tests let the peer wait.
        var limits = SocketLimits()
        (limits.handshake, limits.stall) = (.seconds(60), .seconds(300))
        let server = try await SocketServer.start(
            WebSocketUpgrade(UpgradeRule(path: "/push"), limits: limits) { socket, _ in accepting.yield(socket) })
        let front = try authority.map { try TLSFront($0, before: server.port) }
        var configuration = SocketConnector.Configuration(userAgent: "contract")
        configuration.limits = limits
        let connector = SocketConnector(
            configuration,
            over: CurlStreamConnector(
                options: FetchOptions(userAgent: "contract", caFile: authority?.authorityFile)))
        let place = front.map { "wss://127.0.0.1:\($0.port)/push" } ?? "ws://127.0.0.1:\(server.port)/push"
        let near = try await connector.connect(try SocketURL(parsing: place))
        guard let far = await accepted.first(where: { _ in true }) else { throw TransportError.isClosed }
        if self == .server { return Open(near: far, far: near, server: server) }
        return Open(near: near, far: far, server: server, front: front)
    }
}
