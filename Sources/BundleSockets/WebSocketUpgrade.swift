import NIOCore
public import NIOHTTP1
public import NIOWebSocket

/// The server's side of opening sockets, for the HTTP pipeline of whoever listens.
public struct WebSocketUpgrade: Sendable {
    /// Which requests open a socket.
    public var rule: UpgradeRule
    /// What each socket takes, lets wait, and waits for.
    public var limits: SocketLimits
    /// Told each open socket and the request that opened it, on the event loop of its connection: it must not block.
    /// The socket is closed with its last reference.
    public var onOpen: @Sendable (SocketTransport, HTTPRequestHead) -> Void

    /// The upgrade at the path of `rule`.
    public init(
        _ rule: UpgradeRule, limits: SocketLimits = SocketLimits(),
        onOpen: @escaping @Sendable (SocketTransport, HTTPRequestHead) -> Void
    ) {
        self.rule = rule
        self.limits = limits
        self.onOpen = onOpen
    }

    /// An upgrader for NIO's typed HTTP server pipeline; `result` is what that pipeline ends up with for a socket.
    ///
    /// Requests that it does not upgrade go on to the pipeline's own handlers, which ask `rule` for the status to answer with.
    /// A server that reads HTTP by itself calls `buildUpgradeResponse` and `upgrade` of it with the head that it has read.
    public func handler<Outcome: Sendable>(
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
