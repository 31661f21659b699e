import Glibc

/// A connection to a port of this machine that sends and receives raw bytes.
package final class RawConnection: Sendable {
    private let descriptor: Int32

    /// Connects. A read without data fails after `patience` milliseconds.
    ///
    /// `receiveBuffer` limits the kernel's buffer in bytes, which can otherwise grow to megabytes.
    package init(
        host: String = "127.0.0.1", port: Int, patience: Int = 60_000, receiveBuffer: Int32? = nil
    ) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemCallError("socket") }
        // A `timeval`, whose members are in different modules of Glibc.
        var time = (seconds: patience / 1000, microseconds: patience % 1000 * 1000)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout.size(ofValue: time)))
        if var receiveBuffer {
            let size = socklen_t(MemoryLayout<Int32>.size)
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, size)
        }
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(truncatingIfNeeded: port).bigEndian
        address.sin_addr.s_addr = inet_addr(host)
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let connected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, length) }
        }
        guard connected == 0 else { throw SystemCallError("connect") }
    }

    deinit { close(descriptor) }

    /// Sends bytes. Returns false when the peer disconnected.
    @discardableResult
    package func send(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                let rest = UnsafeRawBufferPointer(rebasing: buffer[sent...])
                return Glibc.send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    @discardableResult
    package func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    /// Closes the sending direction.
    package func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Returns up to `count` bytes, or none at the end of the connection.
    package func receive(atMost count: Int = 65536) throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: count)
        let got = recv(descriptor, &buffer, count, 0)
        if got < 0 { throw SystemCallError("recv") }
        return Array(buffer[..<got])
    }

    /// Returns `count` bytes, or fewer at the end of the connection.
    package func receive(exactly count: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let more = try receive(atMost: min(count - bytes.count, 65536))
            if more.isEmpty { break }
            bytes += more
        }
        return bytes
    }

    /// Returns all bytes through `end`, or to the end of the connection.
    package func receive(upTo end: String) throws -> [UInt8] {
        let end = Array(end.utf8)
        var bytes: [UInt8] = []
        while !bytes.suffix(end.count).elementsEqual(end) {
            let byte = try receive(atMost: 1)
            if byte.isEmpty { break }
            bytes += byte
        }
        return bytes
    }

    /// Returns all bytes to the end of the connection.
    package func receiveAll() throws -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let more = try receive()
            if more.isEmpty { return bytes }
            bytes += more
        }
    }

    /// Returns one response with a body of the length in `Content-Length`, or without a body for a HEAD request.
    package func receiveAnswer(toHead: Bool = false) throws -> RawResponse {
        let head = try receive(upTo: "\r\n\r\n")
        var answer = try RawResponse(head: head)
        if !toHead, answer.status != 304, let length = answer["Content-Length"].flatMap({ Int($0) }) {
            answer.body = try receive(exactly: length)
        }
        return answer
    }
}

/// A response as received.
package struct RawResponse: Sendable {
    package let status: Int
    /// The header fields in order, as written.
    package let fields: [(name: String, value: String)]
    package var body: [UInt8] = []

    /// The received bytes are not the head of a response.
    package struct Malformed: Error { let head: String }

    init(head: [UInt8]) throws {
        let text = String(decoding: head, as: UTF8.self)
        // CR LF is one Character.
        var lines = text.split(separator: "\r\n", omittingEmptySubsequences: false).map(String.init)
        let first = lines.removeFirst().split(separator: " ")
        guard first.count >= 2, first[0] == "HTTP/1.1", let status = Int(first[1]), lines.suffix(2) == ["", ""] else {
            throw Malformed(head: text)
        }
        self.status = status
        fields = try lines.dropLast(2).map { line in
            guard let colon = line.firstIndex(of: ":") else { throw Malformed(head: text) }
            return (String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " }))
        }
    }

    /// Returns the values of a field in any case, joined by commas, or nil.
    package subscript(_ name: String) -> String? {
        let values = fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    /// The body as text.
    package var text: String { String(decoding: body, as: UTF8.self) }
}
