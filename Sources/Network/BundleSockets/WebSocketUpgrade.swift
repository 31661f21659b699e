import NIOCore
package import NIOHTTP1
package import NIOWebSocket

/// The server side of the WebSocket handshake.
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

    /// Returns an upgrader for servers that parse HTTP themselves: `buildUpgradeResponse` and `upgrade` receive the head
    /// of the request.
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
