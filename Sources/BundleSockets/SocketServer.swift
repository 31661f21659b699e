import NIOCore
import NIOPosix
import NIOSSL

/// Listens for sockets and nothing else; other requests are answered with a status.
public final class SocketServer: Sendable {
    /// The port it listens on.
    public let port: Int
    private let listener: any Channel

    private init(_ listener: any Channel, port: Int) {
        self.listener = listener
        self.port = port
    }

    /// Listens at an address of this machine; port 0 is any that is free. With a certificate it speaks TLS.
    public static func start(
        address: String = "127.0.0.1", port: Int = 0, certificate: ServerCertificate? = nil, _ upgrade: WebSocketUpgrade
    ) async throws -> SocketServer {
        let tls = try certificate?.context()
        let listener = try await ServerBootstrap(group: SocketLoop.loop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: 1024)
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(.recvAllocator, value: SocketLoop.receiving)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try prepare(channel, tls, upgrade) }
            }
            .bind(host: address, port: port).get()
        return SocketServer(listener, port: listener.localAddress?.port ?? port)
    }

    private static func prepare(_ channel: any Channel, _ tls: NIOSSLContext?, _ upgrade: WebSocketUpgrade) throws {
        if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
        try upgrade.install(on: channel) { channel in try channel.pipeline.syncOperations.addHandler(NothingElse()) }
    }

    /// Stops listening; open sockets stay.
    public func stop() async { try? await listener.close() }
}
