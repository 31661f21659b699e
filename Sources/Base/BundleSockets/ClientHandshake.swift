import BundlePush
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// One attempt to open a socket over a stream; what happens first counts.
final class ClientHandshake: Sendable {
    let outcome = Promised<SocketTransport>()
    private let head: HTTPRequestHead
    private let limits: SocketLimits

    init(_ head: HTTPRequestHead, _ limits: SocketLimits) {
        self.head = head
        self.limits = limits
    }

    /// Prepares the channel of the stream.
    func begin(on channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        let encoder = HTTPRequestEncoder()
        // What the server says right behind its answer belongs to the socket.
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
        // Statuses and everything else that has a name was told before this.
        upgrade.upgradeResultFuture.whenFailure { [self] _ in fail(.badHandshake("it does not fit the question")) }
    }

    private func finish(on channel: any Channel) throws {
        let transport = try SocketTransport(on: channel, .client, limits)
        outcome.settle(.success(transport))
    }

    func fail(_ error: TransportError) { outcome.settle(.failure(error)) }
}

/// Looks at the server's answer before anything is built on it.
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
        fail(.badHandshake("it closed without an answer"))
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .some(.inputClosed) = event as? ChannelEvent { fail(.badHandshake("it closed without an answer")) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error as? HTTPParserError {
        case .invalidEOFState?: fail(.badHandshake("it closed without an answer"))
        case let error?: fail(.badHandshake("it is no HTTP/1.1 (\(error))"))
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
        // Nothing was offered, so nothing may be chosen.
        for name in ["Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"] where head.headers.contains(name: name) {
            return .badHandshake("it chooses a \(name) that was not offered")
        }
        return nil
    }
}
