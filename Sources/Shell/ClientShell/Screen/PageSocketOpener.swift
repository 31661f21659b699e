package import BundleServe
import BundleSockets
package import BundleTransport
package import NIOCore

/// Opens the WebSockets of pages.
package struct PageSocketOpener: SocketOpener {
    /// Enough for the longest call.
    private static let longestMessage = 96 << 10

    private let rule = UpgradeRule(path: "/__clientctl/v1/socket", allowsPages: true)
    private let limits: SocketLimits

    /// Creates an opener.
    package init() {
        var limits = SocketLimits()
        limits.message = Self.longestMessage
        self.limits = limits
    }

    package func verdict(on request: SwitchRequest) async throws -> SwitchVerdict {
        switch try await upgrade({ _ in }).answer(
            target: request.target, fields: request.fields, on: request.channel)
        {
        case .agreed(let fields): .agreed(fields)
        case .refused(let status): .refused(status: status)
        }
    }

    package func open(
        _ request: SwitchRequest, _ onOpen: @escaping @Sendable (any SyncTransport) -> Void
    ) -> EventLoopFuture<Void> {
        upgrade(onOpen).take(target: request.target, fields: request.fields, on: request.channel)
    }

    private func upgrade(_ onOpen: @escaping @Sendable (any SyncTransport) -> Void) -> WebSocketUpgrade {
        WebSocketUpgrade(rule, limits: limits) { socket, _ in onOpen(socket) }
    }
}
