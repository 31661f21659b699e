/// One open connection that carries messages both ways, in order.
///
/// What every implementation promises, and the contract suite checks: messages arrive whole, once and in the order of
/// sending. What came before the other side's end is received before the end. Whoever waits in a call when its task is
/// cancelled, or when `close` is called, stops waiting soon. Memory is bounded: an implementation reads from the network
/// only as fast as messages are received, and sends only as fast as the other side takes.
package protocol SyncTransport: Sendable {
    /// Sends one binary message; returns when the system has taken it. Throws `TransportError`.
    ///
    /// A message that is too large is refused, and the connection stays. When the task is cancelled, the message may or
    /// may not be sent.
    func sendBinary(_ bytes: [UInt8]) async throws

    /// Sends one text message, as `sendBinary` does.
    func sendText(_ text: String) async throws

    /// Asks the other side for a sign of life; the answer is received as `.pong`.
    func sendPing() async throws

    /// The next message; nil when the connection ended in good order. Throws `TransportError` where it ended otherwise,
    /// each time again.
    func receive() async throws -> TransportMessage?

    /// Ends the connection, and returns when it is: after a short while at most, whatever the other side does, also in a
    /// task that is cancelled. What was not received is gone. More than one call is one.
    func close() async
}

/// Opens transports.
package protocol TransportConnector: Sendable {
    /// Opens one and returns when messages can be exchanged; follows no redirect. Throws `TransportError`.
    ///
    /// Ends soon after its task is cancelled, and leaves no connection behind then.
    func connect(_ url: SocketURL) async throws -> any SyncTransport
}

/// What comes over a transport.
package enum TransportMessage: Sendable, Equatable {
    /// A whole text message.
    case text(String)
    /// A whole binary message.
    case binary([UInt8])
    /// The other side answered a ping.
    case pong

    /// How many bytes its content has.
    package var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .binary(let bytes): bytes.count
        case .pong: 0
        }
    }
}

/// Opens streams of bytes to servers, inside TLS where the URL asks for it; the frames of a WebSocket are put onto one.
package protocol StreamConnector: Sendable {
    /// Opens a stream and gives its near end, a connected socket of this process that the caller closes.
    ///
    /// What is written there reaches the server in order, and its end is the end of the connection. Throws `TransportError`; ends
    /// soon after its task is cancelled, and leaves nothing open then.
    func connectStream(_ url: SocketURL) async throws -> Int32
}

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
