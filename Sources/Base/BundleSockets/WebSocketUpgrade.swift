package import NIOCore
package import NIOHTTP1
package import NIOWebSocket

/// The server's side of opening sockets, for the HTTP pipeline of whoever listens.
package struct WebSocketUpgrade: Sendable {
    /// Which requests open a socket.
    package var rule: UpgradeRule
    /// What each socket takes, lets wait, and waits for.
    package var limits: SocketLimits
    /// Told each open socket and the request that opened it, on the event loop of its connection: it must not block.
    /// The socket is closed with its last reference.
    package var onOpen: @Sendable (SocketTransport, HTTPRequestHead) -> Void

    /// The upgrade at the path of `rule`.
    package init(
        _ rule: UpgradeRule, limits: SocketLimits = SocketLimits(),
        onOpen: @escaping @Sendable (SocketTransport, HTTPRequestHead) -> Void
    ) {
        self.rule = rule
        self.limits = limits
        self.onOpen = onOpen
    }

    /// Puts HTTP/1.1 with this upgrade onto an accepted connection; called on its event loop.
    ///
    /// `otherwise` adds the handlers that answer requests for other paths, when the first of them has come; what is for our path
    /// and opens no socket is answered here. A connection that has come to neither within the limit for handshakes is closed.
    package func install(on channel: any Channel, otherwise: @escaping @Sendable (any Channel) throws -> Void) throws {
        let deadline = channel.eventLoop.scheduleTask(in: TimeAmount(limits.handshake)) { channel.close(promise: nil) }
        channel.closeFuture.whenComplete { _ in deadline.cancel() }
        let encoder = HTTPResponseEncoder()
        // What the client says right behind its request belongs to the socket.
        let decoder = ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes))
        let pipelining = HTTPServerPipelineHandler()
        let checking = NIOHTTPResponseHeadersValidator()
        let errors = HTTPServerProtocolErrorHandler()
        let door = UpgradeDoor(rule)
        let upgrade = NIOTypedHTTPServerUpgradeHandler(
            httpEncoder: encoder, extraHTTPHandlers: [decoder, pipelining, checking, errors, door],
            upgradeConfiguration: NIOTypedHTTPServerUpgradeConfiguration<Void>(upgraders: [handler {}]) { channel in
                channel.eventLoop.makeCompletedFuture { try otherwise(channel) }
            })
        try channel.pipeline.syncOperations.addHandlers([encoder, decoder, pipelining, checking, errors, door, upgrade])
        upgrade.upgradeResultFuture.whenComplete { result in
            deadline.cancel()
            if case .failure = result { channel.close(promise: nil) }
        }
    }

    /// An upgrader for servers that read HTTP by themselves: `buildUpgradeResponse` and `upgrade` of it take the head that was
    /// read. Within NIO's own pipeline use `install`: its upgrade handler forgets the head of what it does not upgrade.
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
