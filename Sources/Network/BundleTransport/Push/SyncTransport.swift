/// An open connection for messages in both directions.
///
/// The contract tests check these rules for every implementation. Messages arrive complete, once and in order. Messages
/// before the peer's end are received before the end. A call whose task is cancelled, or whose transport is closed,
/// returns soon. Memory is bounded: an implementation reads from the network only as fast as messages are received, and
/// sends only as fast as the peer reads.
public protocol SyncTransport: Sendable {
    /// Sends a binary message. Returns when the operating system has accepted it.
    ///
    /// Throws `TransportError` for a message that is too large, and the connection stays open. If the task is cancelled,
    /// the message may or may not be sent.
    func sendBinary(_ bytes: [UInt8]) async throws

    /// Sends a text message in the same way.
    func sendText(_ text: String) async throws

    /// Sends a ping. The answer is received as `.pong`.
    func sendPing() async throws

    /// Returns the next message, or nil after a normal end. After another end it throws `TransportError`, also in later
    /// calls.
    func receive() async throws -> TransportMessage?

    /// Closes the connection and returns soon, whatever the peer does, also in a cancelled task. Unreceived messages are
    /// lost. Further calls have no effect.
    func close() async
}

/// Opens transports.
public protocol TransportConnector: Sendable {
    /// Opens a transport. It does not follow redirects. Throws `TransportError`.
    ///
    /// It returns soon after its task is cancelled and then leaves no connection open.
    func connect(_ url: SocketURL) async throws -> any SyncTransport
}

/// A message of a transport.
public enum TransportMessage: Sendable, Equatable {
    case text(String)
    case binary([UInt8])
    /// The peer answered a ping.
    case pong

    /// The size of the content in bytes.
    public var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .binary(let bytes): bytes.count
        case .pong: 0
        }
    }
}

/// Opens byte streams to servers, encrypted by TLS if the URL requires it. WebSockets run over these streams.
package protocol StreamConnector: Sendable {
    /// Opens a stream. Written bytes reach the server in order, and closing the socket closes the connection.
    ///
    /// Throws `TransportError`. It returns soon after its task is cancelled and then leaves nothing open.
    func connectStream(_ url: SocketURL) async throws -> any OpenStream
}

/// An open byte stream.
package protocol OpenStream: Sendable {
    /// The local end, a connected socket that the caller closes.
    var socket: Int32 { get }

    /// Returns the reason for which the server refuses the certificate of this client; nil if it does not. Servers report it after
    /// the handshake of TLS, with an alert or with an HTTP `response`.
    func certificateError(after response: ErrorResponse?) -> TransportError?
}

/// An HTTP response that does not open a socket.
package struct ErrorResponse: Sendable {
    /// The status of a response that can be about a certificate.
    package static let certificateStatuses: Set = [400, 403, 495, 496]
    /// The largest number of bytes of a body that are compared.
    package static let maximumBody = 512

    package let status: Int
    /// The beginning of the body.
    package let body: [UInt8]

    package init(status: Int, body: [UInt8]) {
        self.status = status
        self.body = body
    }
}

/// The reason why a connection could not be opened or has ended.
public enum TransportError: Error, Equatable, Sendable {
    /// The text is not the URL of a WebSocket.
    case unsupportedURL(String, reason: String)
    /// The server could not be reached.
    case unreachable(String)
    /// The server's certificate is not trusted.
    case untrusted(String)
    /// The server requires or refuses a certificate of this client.
    case clientCertificate(String)
    /// The server responded with this HTTP status instead of opening a socket.
    case refused(status: Int, retryAfter: Duration?)
    /// The server's response does not open a socket.
    case badHandshake(String)
    case timedOut(Step)
    /// A message is larger than the limit.
    case messageTooLarge(limit: Int)
    /// Too many bytes are waiting to be sent.
    case congested(limit: Int)
    /// The peer violated the protocol.
    case protocolViolation(String)
    /// The peer closed the connection with a code other than a normal end.
    case closed(code: Int, reason: String)
    /// This side closed the connection, or the peer did normally.
    case isClosed
    /// The connection was lost.
    case lost(String)

    /// The step that timed out.
    public enum Step: Sendable, Equatable {
        /// Name resolution, connection, TLS and handshake together.
        case connecting
        /// Sending without any progress.
        case sending
        /// The answer to a ping.
        case answering
    }
}

extension TransportError {
    /// The wait that the server asked for.
    var retryAfter: Duration? {
        if case .refused(_, let wait) = self { wait } else { nil }
    }
}

extension TransportError: CustomStringConvertible {
    /// The failure and, if possible, the remedy.
    public var description: String {
        switch self {
        case .unsupportedURL(let text, let reason): "cannot connect to \"\(text)\": \(reason)"
        case .unreachable(let reason): "no connection: \(reason)"
        case .untrusted(let reason):
            "the server's certificate is not trusted: \(reason); name its authority, or renew the certificate"
        case .clientCertificate(let reason): reason
        case .refused(let status, _):
            "the server responded with status \(status) instead of opening a socket\(Self.advice(status))"
        case .badHandshake(let reason): "the server's response does not open a socket: \(reason)"
        case .timedOut(.connecting): "opening the socket took too long"
        case .timedOut(.sending): "the peer stopped reading"
        case .timedOut(.answering): "the peer did not answer a ping"
        case .messageTooLarge(let limit): "a message has more than \(limit) bytes"
        case .congested(let limit): "\(limit) bytes are waiting to be sent: send less, or wait"
        case .protocolViolation(let rule): "the peer violated the protocol: \(rule)"
        case .closed(let code, let reason):
            "the peer closed the connection with code \(code)\(reason.isEmpty ? "" : ": \(reason)")"
        case .isClosed: "the socket is closed"
        case .lost(let reason): "the connection was lost: \(reason)"
        }
    }

    private static func advice(_ status: Int) -> String {
        switch status {
        case 300...399: "; redirects are not followed, so use the final URL"
        case 401, 403: "; log in, or use a token with permission to listen"
        case 404: "; check the server's address, and that a proxy in front of it forwards WebSockets"
        default: ""
        }
    }
}
