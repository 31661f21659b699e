import BundlePlatform
import BundlePush
import BundleSockets
import BundleTesting

/// The ways of being connected that the contract suite goes through.
enum TransportLink: CaseIterable, Sendable {
    /// Two ends in memory: the fake that other tests use.
    case pair
    /// A socket that somebody else owns.
    case bridged
    /// A real WebSocket, seen from the client, from the server, and inside TLS.
    case client, server, secure

    /// Both ends of one connection, and what must live as long.
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
        // Limits for hangs; some tests let the other side wait.
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
