package import BundleSockets
import NIOCore

/// The change of a connection to a WebSocket (RFC 9110, section 7.8), which a service has agreed to.
struct SocketSwitch: Sendable {
    private let upgrade: WebSocketUpgrade
    private let target: String
    private let fields: [(name: String, value: String)]
    private let channel: any Channel
    /// Whether the socket still counts as a connection of the server. Otherwise its owner limits the number of sockets.
    let isCounted: Bool

    fileprivate init(_ upgrade: WebSocketUpgrade, _ request: Request, isCounted: Bool) {
        self.upgrade = upgrade
        target = request.wholeTarget
        fields = request.allFields
        channel = request.body.channel
        self.isCounted = isCounted
    }

    fileprivate var answer: WebSocketUpgrade.HandshakeAnswer {
        get async throws { try await upgrade.answer(target: target, fields: fields, on: channel) }
    }

    /// Makes the connection a socket, after the response has been written and all HTTP handlers have been removed. Called on
    /// the event loop of the connection.
    func take() -> EventLoopFuture<Void> { upgrade.take(target: target, fields: fields, on: channel) }
}

extension Response {
    /// Returns the response to a request for a WebSocket, with `extra` fields if it opens one. A proper request that is not
    /// valid for the service gets a 400.
    package nonisolated(nonsending) static func opening(
        _ upgrade: WebSocketUpgrade, for request: Request, isValid: Bool, extra: String = "", isCounted: Bool = true
    ) async -> Response {
        let change = SocketSwitch(upgrade, request, isCounted: isCounted)
        do {
            switch try await change.answer {
            case .agreed where !isValid: return Response.refusal(.badRequest).closing
            case .agreed(let fields):
                let lines = fields.map { "\($0.name): \($0.value)\r\n" }.joined() + extra + "\r\n"
                return Response(.switchingProtocols, fields: ByteBuffer(string: lines), .socket(change))
            case .refused(let status):
                let status = Status(rawValue: status) ?? .badRequest
                let fields = status == .upgradeRequired ? "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" : ""
                return Response.refusal(status, fields: fields).closing
            }
        } catch {
            return .refusal(.failed)
        }
    }
}
