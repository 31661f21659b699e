import ArchiveSource
import BundleServe
import BundleSockets
import NIOCore
import NIOHTTP1

/// Adds WebSockets to the feed server, which parses HTTP itself.
struct SocketSwitch: ProtocolSwitch {
    private let upgrade: WebSocketUpgrade

    /// Opens sockets at `path`. `onOpen` receives each socket and its subscription on its event loop.
    init(
        _ path: String, _ limits: SocketLimits,
        onOpen: @escaping @Sendable (SocketTransport, ChannelSubscription) -> Void
    ) {
        upgrade = WebSocketUpgrade(UpgradeRule(path: path), limits: limits) { socket, head in
            onOpen(socket, ChannelSubscription(target: head.uri) ?? .all)
        }
    }

    func verdict(on request: SwitchRequest) async throws -> SwitchVerdict {
        switch try await upgrade.answer(target: request.target, fields: request.fields, on: request.channel) {
        case .refused(let status): .refused(status: status)
        case .agreed where ChannelSubscription(target: request.target) == nil: .refused(status: 400)
        case .agreed(let fields): .agreed(fields)
        }
    }

    func take(_ request: SwitchRequest) -> EventLoopFuture<Void> {
        upgrade.take(target: request.target, fields: request.fields, on: request.channel)
    }
}
