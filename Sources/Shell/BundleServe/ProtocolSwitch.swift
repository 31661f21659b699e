package import BundleTransport
package import NIOCore

/// A protocol that a request may switch its connection to (RFC 9110, section 7.8).
package protocol ProtocolSwitch: Sendable {
    /// Decides on a request for the protocol.
    func verdict(on request: SwitchRequest) async throws -> SwitchVerdict

    /// Takes over the connection after the response has been written and all HTTP handlers have been removed. Called
    /// on the event loop of the connection.
    func take(_ request: SwitchRequest) -> EventLoopFuture<Void>

    /// Whether the connections still count as connections of the server. Otherwise the protocol limits them itself.
    var isCounted: Bool { get }
}

extension ProtocolSwitch {
    /// True.
    package var isCounted: Bool { true }
}

extension Response {
    /// Returns the response to a request that may change its connection to another protocol.
    nonisolated(nonsending) static func changing(to other: any ProtocolSwitch, _ request: Request) async -> Response {
        let asked = SwitchRequest(request)
        do {
            switch try await other.verdict(on: asked) {
            case .agreed(let fields):
                let lines = fields.map { "\($0.name): \($0.value)\r\n" }.joined() + "\r\n"
                return Response(.switchingProtocols, fields: ByteBuffer(string: lines), .upgrade(other, asked))
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

/// Opens the WebSockets of pages with a library of the caller's choice.
package protocol SocketOpener: Sendable {
    /// Decides on a request whose origin was checked.
    func verdict(on request: SwitchRequest) async throws -> SwitchVerdict

    /// Makes a connection a socket, which `onOpen` receives on the event loop of the connection. It must not block.
    func open(
        _ request: SwitchRequest, _ onOpen: @escaping @Sendable (any SyncTransport) -> Void
    ) -> EventLoopFuture<Void>
}

/// The decision on a request for another protocol.
package enum SwitchVerdict: Sendable {
    /// The connection switches. The fields are part of the response.
    case agreed([(name: String, value: String)])
    /// The response has an HTTP status.
    case refused(status: Int)
}

/// A GET request that may switch its connection to another protocol.
package struct SwitchRequest: Sendable {
    /// The target as the client sent it.
    package let target: String
    /// All fields in order.
    package let fields: [(name: String, value: String)]
    /// The connection of the request.
    package let channel: any Channel

    init(_ request: Request) {
        target = request.wholeTarget
        fields = request.allFields
        channel = request.body.channel
    }
}
