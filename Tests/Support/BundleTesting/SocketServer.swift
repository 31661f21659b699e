package import BundleSockets
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket

/// A server of WebSockets only. It answers other requests with a status. The feed server opens sockets by `SocketSwitch` instead.
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

extension WebSocketUpgrade {
    /// Adds HTTP/1.1 with this upgrade to an accepted connection. Call it on its event loop.
    ///
    /// `otherwise` adds the handlers for other paths when their first request arrives. This upgrade answers requests for
    /// its own path that do not open a socket. A connection without either within the handshake timeout is closed.
    fileprivate func install(on channel: any Channel, otherwise: @escaping @Sendable (any Channel) throws -> Void)
        throws
    {
        let deadline = channel.eventLoop.scheduleTask(in: TimeAmount(limits.handshake)) { channel.close(promise: nil) }
        channel.closeFuture.whenComplete { _ in deadline.cancel() }
        let encoder = HTTPResponseEncoder()
        // Bytes after the client's request belong to the socket.
        let decoder = ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes))
        let pipelining = HTTPServerPipelineHandler()
        let checking = NIOHTTPResponseHeadersValidator()
        let errors = HTTPServerProtocolErrorHandler()
        let filter = UpgradeFilter(rule)
        let upgrade = NIOTypedHTTPServerUpgradeHandler(
            httpEncoder: encoder, extraHTTPHandlers: [decoder, pipelining, checking, errors, filter],
            upgradeConfiguration: NIOTypedHTTPServerUpgradeConfiguration<Void>(upgraders: [handler {}]) { channel in
                channel.eventLoop.makeCompletedFuture { try otherwise(channel) }
            })
        try channel.pipeline.syncOperations.addHandlers([
            encoder, decoder, pipelining, checking, errors, filter, upgrade,
        ])
        upgrade.upgradeResultFuture.whenComplete { result in
            deadline.cancel()
            if case .failure = result { channel.close(promise: nil) }
        }
    }
}

/// Checks requests before NIO's upgrade handler, which loses the head of a request that it does not upgrade. It answers requests
/// that the rule rejects, and removes the upgrade from requests for other paths.
private final class UpgradeFilter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    private let rule: UpgradeRule
    private var isFirst = true
    private var refusal: HTTPResponseStatus?

    init(_ rule: UpgradeRule) { self.rule = rule }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        if case .head(var head) = part {
            let verdict = rule.verdict(on: head)
            refusal = Self.refusal(verdict, isFirst: isFirst)
            isFirst = false
            if verdict == .notOurs && head.headers.contains(name: "Upgrade") {
                head.headers.remove(name: "Upgrade")
                // NIO's decoder reads nothing after a request for an upgrade.
                head.headers.replaceOrAdd(name: "Connection", value: "close")
                return context.fireChannelRead(wrapInboundOut(.head(head)))
            }
        }
        guard let refusal else { return context.fireChannelRead(data) }
        // The pipeline would lose a response before the end of the request.
        if case .end = part { context.channel.answer(refusal) }
    }

    private static func refusal(_ verdict: UpgradeRule.UpgradeDecision, isFirst: Bool) -> HTTPResponseStatus? {
        switch verdict {
        case .refused(let status): HTTPResponseStatus(statusCode: status)
        // A socket must be opened by the first request of its connection.
        case .opens: isFirst ? nil : .badRequest
        case .notOurs: nil
        }
    }
}

/// Answers every request with 404.
private final class NotFoundHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .end = unwrapInboundIn(data) { context.channel.answer(.notFound) }
    }
}

extension Channel {
    /// Sends a response without content and closes the connection.
    fileprivate func answer(_ status: HTTPResponseStatus) {
        var headers: HTTPHeaders = ["Content-Length": "0", "Connection": "close"]
        if status == .upgradeRequired { headers.add(name: "Sec-WebSocket-Version", value: "13") }
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        write(HTTPServerResponsePart.head(head), promise: nil)
        writeAndFlush(HTTPServerResponsePart.end(nil)).whenComplete { _ in self.close(promise: nil) }
    }
}
