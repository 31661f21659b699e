import BundleTransport
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// One attempt to open a socket over a stream. The first result wins.
final class ClientHandshake: Sendable {
    let outcome = Promised<SocketTransport>()
    private let head: HTTPRequestHead
    private let limits: SocketLimits
    private let stream: any OpenStream

    init(_ head: HTTPRequestHead, _ limits: SocketLimits, over stream: any OpenStream) {
        self.head = head
        self.limits = limits
        self.stream = stream
    }

    /// Adds the handlers of the handshake to the channel.
    func begin(on channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        let encoder = HTTPRequestEncoder()
        // Bytes after the server's response belong to the socket.
        let decoder = ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .forwardBytes))
        let check = HandshakeCheck { [self] in fail($0, $1) }
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

    /// Sets the error, or that of the client's certificate if the server refuses it.
    func fail(_ error: TransportError, _ response: ErrorResponse? = nil) {
        outcome.settle(.failure(stream.certificateError(after: response) ?? error))
    }
}

/// Checks the server's response before the upgrade.
final class HandshakeCheck: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    /// A response that does not open a socket, and the part of its body that has arrived.
    private struct Refusal {
        let error: TransportError
        let status: Int
        var body: [UInt8] = []
    }

    private let fail: (TransportError, ErrorResponse?) -> Void
    private var refusal: Refusal?

    init(_ fail: @escaping (TransportError, ErrorResponse?) -> Void) { self.fail = fail }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard let error = Self.refusal(of: head) else { break }
            let status = Int(head.status.code)
            refusal = Refusal(error: error, status: status)
            // The body of the others is not read.
            if !ErrorResponse.certificateStatuses.contains(status) { end() }
            return
        case .body(let part):
            guard let body = refusal?.body else { break }
            refusal?.body += part.readableBytesView.prefix(ErrorResponse.maximumBody - body.count)
            if refusal?.body.count == ErrorResponse.maximumBody { end() }
            return
        case .end:
            if refusal == nil { break }
            return end()
        }
        context.fireChannelRead(data)
    }

    /// Reports the refusal, or else a response that is missing.
    private func end() {
        guard let refusal else { return fail(.badHandshake("the connection was closed without a response"), nil) }
        fail(refusal.error, ErrorResponse(status: refusal.status, body: refusal.body))
    }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .some(.inputClosed) = event as? ChannelEvent { end() }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error as? HTTPParserError {
        case .invalidEOFState?: end()
        case let error?: fail(.badHandshake("it is not HTTP/1.1 (\(error))"), nil)
        case nil: fail(.unreachable(SocketFailure.reason(of: error)), nil)
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
