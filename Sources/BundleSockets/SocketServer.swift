import NIOCore
import NIOHTTP1
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
        let pipeline = channel.pipeline.syncOperations
        if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
        let deadline = channel.eventLoop.scheduleTask(in: TimeAmount(upgrade.limits.handshake)) {
            channel.close(promise: nil)
        }
        let configuration = NIOTypedHTTPServerUpgradeConfiguration<Bool>(upgraders: [upgrade.handler { true }]) { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(RefusalHandler(upgrade.rule))
                return false
            }
        }
        try pipeline.configureUpgradableHTTPServerPipeline(
            configuration: NIOUpgradableHTTPServerPipelineConfiguration(upgradeConfiguration: configuration)
        ).whenComplete { result in
            switch result {
            case .success(true): deadline.cancel()
            case .success(false): break
            case .failure: channel.close(promise: nil)
            }
        }
        channel.closeFuture.whenComplete { _ in deadline.cancel() }
    }

    /// Stops listening; open sockets stay.
    public func stop() async { try? await listener.close() }
}

/// Answers what opens no socket, and closes.
private final class RefusalHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let rule: UpgradeRule

    init(_ rule: UpgradeRule) { self.rule = rule }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(let request) = unwrapInboundIn(data) else { return }
        let status =
            switch rule.verdict(on: request) {
            case .refused(let status): HTTPResponseStatus(statusCode: status)
            // Else what NIO refused in a request that the rule would have taken.
            case .opens: HTTPResponseStatus.badRequest
            case .notOurs: HTTPResponseStatus.notFound
            }
        var headers: HTTPHeaders = ["Content-Length": "0", "Connection": "close"]
        if status == .upgradeRequired { headers.add(name: "Sec-WebSocket-Version", value: "13") }
        context.write(wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers))), promise: nil)
        let promise = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        promise.futureResult.whenComplete { _ in bound.value.close(promise: nil) }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: promise)
    }
}
