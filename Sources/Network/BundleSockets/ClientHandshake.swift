import BundleTransport
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// One attempt to open a socket over a stream. The first result wins.
final class ClientHandshake: Sendable {
    let outcome = Promised<SocketTransport>()
    private let head: HTTPRequestHead
    private let limits: SocketLimits

    init(_ head: HTTPRequestHead, _ limits: SocketLimits) {
        self.head = head
        self.limits = limits
    }

    /// Adds the handlers of the handshake to the channel.
    func begin(on channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        let encoder = HTTPRequestEncoder()
        // Bytes after the server's response belong to the socket.
        let decoder = ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .forwardBytes))
        let check = HandshakeCheck { [self] in fail($0) }
        let upgrade = NIOTypedHTTPClientUpgradeHandler(
            httpHandlers: [encoder, decoder, check],
            upgradeConfiguration: NIOTypedHTTPClientUpgradeConfiguration(
                upgradeRequestHead: head,
                upgraders: [
                    NIOTypedWebSocketClientUpgrader<Void>(
                        maxFrameSize: limits.message, enableAutomaticErrorHandling: false
                    ) { [self] channel, _ in channel.eventLoop.makeCompletedFuture { try finish(on: channel) } }
                ]
            ) { channel in
                channel.eventLoop.makeSucceededVoidFuture()
            })
        try pipeline.addHandlers([encoder, decoder, check])
        try pipeline.addHandler(upgrade)
        // Other failures were reported before this point.
        upgrade.upgradeResultFuture.whenFailure { [self] _ in fail(.badHandshake("it does not match the request")) }
    }

    private func finish(on channel: any Channel) throws {
        let transport = try SocketTransport(on: channel, .client, limits)
        outcome.settle(.success(transport))
    }

    func fail(_ error: TransportError) { outcome.settle(.failure(error)) }
}

/// Checks the server's response before the upgrade.
final class HandshakeCheck: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    private let fail: (TransportError) -> Void

    init(_ fail: @escaping (TransportError) -> Void) { self.fail = fail }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = unwrapInboundIn(data), let refusal = Self.refusal(of: head) { fail(refusal) }
        context.fireChannelRead(data)
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(.badHandshake("the connection was closed without a response"))
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .some(.inputClosed) = event as? ChannelEvent {
            fail(.badHandshake("the connection was closed without a response"))
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error as? HTTPParserError {
        case .invalidEOFState?: fail(.badHandshake("the connection was closed without a response"))
        case let error?: fail(.badHandshake("it is not HTTP/1.1 (\(error))"))
        case nil: fail(.unreachable(SocketFailure.reason(of: error)))
        }
        context.fireErrorCaught(error)
    }

    static func refusal(of head: HTTPResponseHead) -> TransportError? {
        guard head.status == .switchingProtocols else {
            let wait = head.headers.first(name: "Retry-After").flatMap { Int($0) }
            return .refused(
                status: Int(head.status.code),
                retryAfter: wait.flatMap { (0...86400).contains($0) ? .seconds($0) : nil })
        }
        // The client offers neither, so the server must not select one.
        for name in ["Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"] where head.headers.contains(name: name) {
            return .badHandshake("it selects a \(name) that was not offered")
        }
        return nil
    }
}
