import BundleSigning
package import BundleTesting
import Synchronization

/// The server's end of a WebSocket (RFC 6455), with which a test can send invalid frames.
package final class SocketPeer: Sendable {
    private enum Frame {
        case text([UInt8])
        case ping([UInt8])
        case close
        case other
    }

    private let connection: TakenConnection

    private init(_ connection: TakenConnection) { self.connection = connection }

    /// Returns the response that opens a socket, which `serve` uses until it returns; nil for another request.
    package static func answer(
        _ request: LoopbackServer.Request, _ serve: @escaping @Sendable (SocketPeer) -> Void
    ) throws -> Route? {
        guard request["Upgrade"]?.lowercased() == "websocket", let key = request["Sec-WebSocket-Key"] else {
            return nil
        }
        let accept = Base64.encode(
            try LabelHasher.digest(of: Array("\(key)258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8), by: .sha1))
        var route = Route(status: 101)
        route.framing = .none
        route.headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)]
        route.takeover = { serve(SocketPeer($0)) }
        return route
    }

    // MARK: Receiving

    /// Returns the next text of the client, or nil when it closed or disconnected. It answers pings.
    package func nextText() -> String? {
        while let frame = next() {
            switch frame {
            case .text(let bytes): return String(decoding: bytes, as: UTF8.self)
            case .ping(let bytes): send(0xA, bytes)
            case .close:
                send(0x8, [0x03, 0xE8])
                return nil
            case .other: break
            }
        }
        return nil
    }

    private func next() -> Frame? {
        guard let head = connection.read(2) else { return nil }
        var count = Int(head[1] & 0x7F)
        if count > 125 {
            guard let long = connection.read(count == 126 ? 2 : 8) else { return nil }
            count = long.reduce(0) { $0 << 8 | Int($1) }
        }
        // Frames of a client are masked.
        guard head[1] & 0x80 != 0, let mask = connection.read(4), let masked = connection.read(count) else {
            return nil
        }
        let bytes = masked.enumerated().map { $1 ^ mask[$0 % 4] }
        switch head[0] & 0xF {
        case 0x1: return .text(bytes)
        case 0x8: return .close
        case 0x9: return .ping(bytes)
        default: return .other
        }
    }

    // MARK: Sending

    /// Sends a text message.
    package func sendText(_ text: String) { send(0x1, Array(text.utf8)) }

    /// Sends one complete frame.
    package func send(_ opcode: UInt8, _ content: [UInt8]) { raw(Self.head(opcode, content.count) + content) }

    /// Sends raw bytes.
    package func raw(_ bytes: [UInt8]) { connection.write(bytes) }

    /// Closes the socket normally.
    package func close() { send(0x8, [0x03, 0xE8]) }

    /// Breaks the connection.
    package func cut() { connection.close() }

    /// Returns the head of a server's frame. If `isLast` is false, more frames of the message follow.
    package static func head(_ opcode: UInt8, _ count: Int, isLast: Bool = true) -> [UInt8] {
        let first = (isLast ? 0x80 : 0) | opcode
        if count < 126 { return [first, UInt8(count)] }
        if count < 1 << 16 { return [first, 126, UInt8(count >> 8), UInt8(count & 0xFF)] }
        return [first, 127] + (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) }
    }
}
