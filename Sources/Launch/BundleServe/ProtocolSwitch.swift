package import NIOCore

/// Another protocol that a request may switch its connection to (RFC 9110, section 7.8).
package protocol ProtocolSwitch: Sendable {
    /// What becomes of a request for it.
    func verdict(on request: SwitchRequest) async throws -> SwitchVerdict

    /// Takes the connection over; the response is written, and nothing of HTTP is in the pipeline any more. Called on the event loop
    /// of the connection.
    func take(_ request: SwitchRequest) -> EventLoopFuture<Void>
}

/// What becomes of a request for another protocol.
package enum SwitchVerdict: Sendable {
    /// The connection is switched; the fields belong to the response.
    case agreed([(name: String, value: String)])
    /// The request is answered with a status of HTTP.
    case refused(status: Int)
}

/// A request that may switch its connection to another protocol; a GET.
package struct SwitchRequest: Sendable {
    /// The target as it was written.
    package let target: String
    /// All fields in their order.
    package let fields: [(name: String, value: String)]
    /// The connection that it came on.
    package let channel: any Channel

    init(_ request: Request) {
        target = request.wholeTarget
        fields = request.allFields
        channel = request.body.channel
    }
}
