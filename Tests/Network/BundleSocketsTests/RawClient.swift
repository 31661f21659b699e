import BundleTesting

/// A client that sends and receives raw bytes.
struct RawClient {
    let connection: RawConnection

    struct Frame: Equatable {
        var opcode: UInt8
        var content: [UInt8]

        init(_ opcode: UInt8, _ content: [UInt8] = []) {
            self.opcode = opcode
            self.content = content
        }
    }

    struct NotOpened: Error { let answer: RawResponse }

    /// Performs the handshake.
    init(port: Int, path: String = "/push", fields: [String] = [], receiveBuffer: Int32? = nil) throws {
        connection = try RawConnection(port: port, receiveBuffer: receiveBuffer)
        connection.send(Self.request(path, fields))
        let answer = try connection.receiveAnswer()
        // The example of RFC 6455, section 1.3.
        guard answer.status == 101, answer["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" else {
            throw NotOpened(answer: answer)
        }
    }

    static func request(_ path: String, _ fields: [String] = []) -> String {
        ([
            "GET \(path) HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
        ] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    func send(_ bytes: [UInt8]) { connection.send(bytes) }

    /// Returns the next frame, or nil at the end.
    func frame() throws -> Frame? {
        let head = try connection.receive(exactly: 2)
        guard head.count == 2 else { return nil }
        var count = Int(head[1] & 0x7F)
        if count == 126 { count = try connection.receive(exactly: 2).reduce(0) { $0 << 8 | Int($1) } }
        if count == 127 { count = try connection.receive(exactly: 8).reduce(0) { $0 << 8 | Int($1) } }
        return Frame(head[0] & 0x0F, try connection.receive(exactly: count))
    }

    /// Returns all frames up to the end of the connection.
    func frames() throws -> [Frame] {
        var all: [Frame] = []
        while let frame = try frame() { all.append(frame) }
        return all
    }
}
