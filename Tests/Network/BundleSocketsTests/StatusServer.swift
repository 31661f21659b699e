import BundleSockets
import NIOCore
import NIOHTTP1
import NIOPosix

/// An HTTP server with sockets at `/push`. Like a host, it answers other requests with 204 and keeps their connections
/// open.
struct StatusServer {
    struct Running {
        let port: Int
        fileprivate let listener: any Channel

        func stop() async { try? await listener.close() }
    }

    func start() async throws -> Running {
        let upgrade = WebSocketUpgrade(UpgradeRule(path: "/push"), limits: EchoServer.limits) { _, _ in }
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try upgrade.install(on: channel) { channel in
                        try channel.pipeline.syncOperations.addHandler(NoContent())
                    }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return Running(port: listener.localAddress?.port ?? 0, listener: listener)
    }
}

private final class NoContent: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    private var keepsOpen = true

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        if case .head(let head) = part { keepsOpen = head.isKeepAlive }
        guard case .end = part else { return }
        let head = HTTPResponseHead(version: .http1_1, status: .noContent)
        context.channel.write(HTTPServerResponsePart.head(head), promise: nil)
        let written = context.channel.writeAndFlush(HTTPServerResponsePart.end(nil))
        if !keepsOpen { written.whenComplete { [channel = context.channel] _ in channel.close(promise: nil) } }
    }
}
