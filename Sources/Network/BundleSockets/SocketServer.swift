import NIOCore
import NIOPosix

/// A server of WebSockets only. It answers other requests with a status.
package final class SocketServer: Sendable {
    /// The listening port.
    package let port: Int
    private let listener: any Channel

    private init(_ listener: any Channel, port: Int) {
        self.listener = listener
        self.port = port
    }

    /// Starts a server on an address of this machine. Port 0 is any free port. For TLS, use a proxy in front of it.
    package static func start(
        address: String = "127.0.0.1", port: Int = 0, _ upgrade: WebSocketUpgrade
    ) async throws -> SocketServer {
        let listener = try await ServerBootstrap(group: SocketLoop.loop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: 1024)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(.recvAllocator, value: SocketLoop.receiving)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try upgrade.install(on: channel) { channel in
                        try channel.pipeline.syncOperations.addHandler(NotFoundHandler())
                    }
                }
            }
            .bind(host: address, port: port).get()
        return SocketServer(listener, port: listener.localAddress?.port ?? port)
    }

    /// Stops listening. Open sockets stay open.
    package func stop() async { try? await listener.close() }
}
