import ArchiveSource
import BundleServe
import BundleSockets
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Adds WebSockets to the feed server, which parses HTTP itself.
struct SocketSwitch: ProtocolSwitch {
    private let rule: UpgradeRule
    private let upgrader: NIOTypedWebSocketServerUpgrader<Void>

    /// Opens sockets at `path`. `onOpen` receives each socket and its subscription on its event loop.
    init(
        _ path: String, _ limits: SocketLimits,
        onOpen: @escaping @Sendable (SocketTransport, ChannelSubscription) -> Void
    ) {
        rule = UpgradeRule(path: path)
        upgrader = WebSocketUpgrade(rule, limits: limits) { socket, head in
            onOpen(socket, ChannelSubscription(target: head.uri) ?? .all)
        }.handler {}
    }

    func verdict(on request: SwitchRequest) async throws -> SwitchVerdict {
        let head = Self.head(of: request)
        switch rule.verdict(on: head) {
        case .notOurs: return .refused(status: 404)
        case .refused(let status): return .refused(status: status)
        case .opens:
            // RFC 6455, section 4.2.1: the Connection header must name the upgrade.
            guard head.headers[canonicalForm: "Connection"].contains(where: { $0.lowercased() == "upgrade" }),
                ChannelSubscription(target: request.target) != nil
            else { return .refused(status: 400) }
            let fields = try await upgrader.buildUpgradeResponse(
                channel: request.channel, upgradeRequest: head,
                initialResponseHeaders: ["Connection": "Upgrade", "Upgrade": upgrader.supportedProtocol]
            ).get()
            return .agreed(fields.map { ($0.name, $0.value) })
        }
    }

    func take(_ request: SwitchRequest) -> EventLoopFuture<Void> {
        upgrader.upgrade(channel: request.channel, upgradeRequest: Self.head(of: request))
    }

    private static func head(of request: SwitchRequest) -> HTTPRequestHead {
        HTTPRequestHead(version: .http1_1, method: .GET, uri: request.target, headers: HTTPHeaders(request.fields))
    }
}
