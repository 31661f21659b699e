/// Why a connection could not be had, or is over.
package enum TransportError: Error, Equatable, Sendable {
    /// This is no URL of a WebSocket.
    case unsupportedURL(String, reason: String)
    /// Nobody could be reached there.
    case unreachable(String)
    /// The other side could not prove who it is.
    case untrusted(String)
    /// The other side answered with this HTTP status instead of opening a socket.
    case refused(status: Int, retryAfter: Duration?)
    /// The other side's answer opens no socket.
    case badHandshake(String)
    /// Something took longer than it may.
    case timedOut(Step)
    /// A message is larger than may be.
    case messageTooLarge(limit: Int)
    /// So much waits to be sent already that nothing may be added.
    case congested(limit: Int)
    /// The other side broke the rules of the protocol.
    case protocolViolation(String)
    /// The other side closed, with another code than a good end has.
    case closed(code: Int, reason: String)
    /// This side closed, or the other side did in good order.
    case isClosed
    /// The connection broke.
    case lost(String)

    /// What took too long.
    package enum Step: Sendable, Equatable {
        /// Name, connection, TLS and the answer to the handshake together.
        case connecting
        /// Sending, without any progress.
        case sending
        /// A sign of life of the other side.
        case answering
    }
}

extension TransportError {
    /// How long the other side asks to be left alone.
    var retryAfter: Duration? {
        if case .refused(_, let wait) = self { wait } else { nil }
    }
}

extension TransportError: CustomStringConvertible {
    /// What happened and, where somebody can do something about it, what.
    package var description: String {
        switch self {
        case .unsupportedURL(let text, let reason): "\"\(text)\" cannot be connected to: \(reason)"
        case .unreachable(let reason): "no connection: \(reason)"
        case .untrusted(let reason):
            "the other side's certificate does not count: \(reason); name its authority, or renew the certificate"
        case .refused(let status, _):
            "the other side answered with status \(status) instead of opening a socket\(Self.advice(status))"
        case .badHandshake(let reason): "the other side's answer opens no socket: \(reason)"
        case .timedOut(.connecting): "opening the socket took too long"
        case .timedOut(.sending): "the other side takes nothing any more"
        case .timedOut(.answering): "the other side gives no sign of life"
        case .messageTooLarge(let limit): "a message has more than \(limit) bytes"
        case .congested(let limit): "\(limit) bytes wait to be sent already: send less, or wait for what was sent"
        case .protocolViolation(let rule): "the other side broke the protocol: \(rule)"
        case .closed(let code, let reason):
            "the other side closed with code \(code)\(reason.isEmpty ? "" : ": \(reason)")"
        case .isClosed: "the socket is closed"
        case .lost(let reason): "the connection broke: \(reason)"
        }
    }

    private static func advice(_ status: Int) -> String {
        switch status {
        case 300...399: "; redirects are not followed, name the place that they lead to"
        case 401, 403: "; log in, or name a token that may listen"
        case 404: "; name the path of the socket"
        default: ""
        }
    }
}
