import BundleTransport
import NIOCore
import NIOWebSocket

/// The message that frames are assembled to (RFC 6455, section 5.4).
struct MessageAssembly {
    private let limit: Int
    private var pieces: (opcode: WebSocketOpcode, bytes: [UInt8])?

    /// Creates an assembly of messages of at most `limit` bytes.
    init(limit: Int) { self.limit = limit }

    /// Adds a frame. Returns the message that it completes, if any. Without `keepsBytes`, messages are empty.
    mutating func add(_ frame: WebSocketFrame, keepsBytes: Bool) throws(SocketViolation) -> TransportMessage? {
        let opcode = try messageOpcode(frame.opcode)
        var bytes = pieces?.bytes ?? []
        pieces = nil
        if bytes.count + frame.length > limit { throw .tooLarge(limit: limit) }
        if keepsBytes { bytes.append(contentsOf: frame.unmaskedData.readableBytesView) } else { bytes = [] }
        if !frame.fin {
            pieces = (opcode, bytes)
            return nil
        }
        if opcode == .binary { return .binary(bytes) }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notText }
        return .text(text)
    }

    /// Returns the opcode of the message that a frame belongs to.
    private func messageOpcode(_ opcode: WebSocketOpcode) throws(SocketViolation) -> WebSocketOpcode {
        switch opcode {
        case .text, .binary:
            if pieces != nil { throw SocketViolation("a message starts inside another") }
            return opcode
        case .continuation:
            guard let first = pieces?.opcode else { throw SocketViolation("a continuation frame has no message") }
            return first
        default: throw SocketViolation("a frame has an unknown opcode")
        }
    }
}

/// A frame that breaks a rule of RFC 6455 or a limit, and the close code for its sender.
struct SocketViolation: Error {
    let code: Int
    let error: TransportError

    /// Creates the violation of a rule of the protocol.
    init(_ rule: String) { self.init(code: CloseFrame.protocolError, error: .protocolViolation(rule)) }

    private init(code: Int, error: TransportError) { (self.code, self.error) = (code, error) }

    static let notText = SocketViolation(
        code: CloseFrame.notText, error: .protocolViolation("a text message is not UTF-8"))

    static func tooLarge(limit: Int) -> SocketViolation {
        SocketViolation(code: CloseFrame.tooLarge, error: .messageTooLarge(limit: limit))
    }

    /// Checks the rules for every frame that the frame decoder does not check.
    static func check(_ frame: WebSocketFrame, isOfClient: Bool) throws(SocketViolation) {
        if !frame.reservedBits.isEmpty {
            throw SocketViolation("a frame uses an extension that was not negotiated")
        }
        if (frame.maskKey != nil) != isOfClient {
            throw SocketViolation(isOfClient ? "a client's frame is not masked" : "a server's frame is masked")
        }
    }
}
