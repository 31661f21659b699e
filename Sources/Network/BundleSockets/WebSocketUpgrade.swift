package import NIOCore
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

    /// The answer to a request that a server has parsed itself.
    package enum HandshakeAnswer: Sendable {
        /// The connection becomes a socket. The fields are part of the response with the status 101.
        case agreed([(name: String, value: String)])
        case refused(status: Int)
    }

    /// Returns the answer to a GET request.
    package func answer(
        target: String, fields: [(name: String, value: String)], on channel: any Channel
    ) async throws -> HandshakeAnswer {
        let head = Self.head(target, fields)
        switch rule.verdict(on: head) {
        case .notOurs: return .refused(status: 404)
        case .refused(let status): return .refused(status: status)
        case .opens:
            // RFC 6455, section 4.2.1: the Connection header must name the upgrade.
            guard head.headers[canonicalForm: "Connection"].contains(where: { $0.lowercased() == "upgrade" }) else {
                return .refused(status: 400)
            }
            let upgrader = handler {}
            let fields = try await upgrader.buildUpgradeResponse(
                channel: channel, upgradeRequest: head,
                initialResponseHeaders: ["Connection": "Upgrade", "Upgrade": upgrader.supportedProtocol]
            ).get()
            return .agreed(fields.map { ($0.name, $0.value) })
        }
    }

    /// Makes a connection a socket after the response was written. Called on the event loop of the connection.
    package func take(
        target: String, fields: [(name: String, value: String)], on channel: any Channel
    ) -> EventLoopFuture<Void> {
        handler {}.upgrade(channel: channel, upgradeRequest: Self.head(target, fields))
    }

    private static func head(_ target: String, _ fields: [(name: String, value: String)]) -> HTTPRequestHead {
        HTTPRequestHead(version: .http1_1, method: .GET, uri: target, headers: HTTPHeaders(fields))
    }

    /// Returns the upgrader of a server that parses HTTP with swift-nio.
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
