package import NIOCore

/// A protocol that a request may switch its connection to (RFC 9110, section 7.8).
package protocol ProtocolSwitch: Sendable {
    /// Decides on a request for the protocol.
    func verdict(on request: SwitchRequest) async throws -> SwitchVerdict

    /// Takes over the connection after the response has been written and all HTTP handlers have been removed. Called
    /// on the event loop of the connection.
    func take(_ request: SwitchRequest) -> EventLoopFuture<Void>
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
