import NIOCore
import NIOPosix

/// Listens for sockets and nothing else; other requests are answered with a status.
package final class SocketServer: Sendable {
    /// The port it listens on.
    package let port: Int
    private let listener: any Channel

    private init(_ listener: any Channel, port: Int) {
        self.listener = listener
        self.port = port
    }

    /// Listens at an address of this machine; port 0 is any that is free. TLS is for a proxy in front of it.
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
                        try channel.pipeline.syncOperations.addHandler(NothingElse())
                    }
                }
            }
            .bind(host: address, port: port).get()
        return SocketServer(listener, port: listener.localAddress?.port ?? port)
    }

    /// Stops listening; open sockets stay.
    package func stop() async { try? await listener.close() }
}
