package import NIOCore
package import NIOHTTP1
package import NIOWebSocket

/// The server side of the WebSocket handshake, for the HTTP pipeline of a server.
package struct WebSocketUpgrade: Sendable {
    package var rule: UpgradeRule
    package var limits: SocketLimits
    /// Receives each open socket and its request, on the event loop of the connection. It must not block. The socket is
    /// closed with its last reference.
    package var onOpen: @Sendable (SocketTransport, HTTPRequestHead) -> Void

    package init(
        _ rule: UpgradeRule, limits: SocketLimits = SocketLimits(),
        onOpen: @escaping @Sendable (SocketTransport, HTTPRequestHead) -> Void
    ) {
        self.rule = rule
        self.limits = limits
        self.onOpen = onOpen
    }

    /// Adds HTTP/1.1 with this upgrade to an accepted connection. Call it on its event loop.
    ///
    /// `otherwise` adds the handlers for other paths when their first request arrives. This upgrade answers requests for
    /// its own path that do not open a socket. A connection without either within the handshake timeout is closed.
    package func install(on channel: any Channel, otherwise: @escaping @Sendable (any Channel) throws -> Void) throws {
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

    /// Returns an upgrader for servers that parse HTTP themselves: `buildUpgradeResponse` and `upgrade` receive the head
    /// of the request. In NIO's own pipeline use `install`, because NIO's upgrade handler loses the head of requests that
    /// it does not upgrade.
    package func handler<Outcome: Sendable>(
        _ result: @escaping @Sendable () -> Outcome
    ) -> NIOTypedWebSocketServerUpgrader<Outcome> {
        NIOTypedWebSocketServerUpgrader(
            maxFrameSize: limits.message, enableAutomaticErrorHandling: false,
            shouldUpgrade: { [rule] channel, head in
                channel.eventLoop.makeSucceededFuture(rule.verdict(on: head) == .opens ? HTTPHeaders() : nil)
            },
            upgradePipelineHandler: { [limits, onOpen] channel, head in
                channel.eventLoop.makeCompletedFuture {
                    onOpen(try SocketTransport(on: channel, .server, limits), head)
                    return result()
                }
            })
    }
}
