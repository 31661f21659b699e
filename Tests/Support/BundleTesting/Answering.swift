/// Sends a response over a connection.
struct Answering {
    let socket: Socket
    let route: Route

    /// Returns false at the end of the connection.
    func send() -> Bool {
        if route.delayMilliseconds > 0 { socket.waitForPeer(milliseconds: route.delayMilliseconds) }
        route.gate?.wait(besides: socket.descriptor)
        if let raw = route.raw {
            _ = socket.write(raw)
            return false
        }
        guard socket.write(Array(head.utf8)) else { return false }
        if let takeover = route.takeover {
            takeover(TakenConnection(socket))
            return false
        }
        if route.isHeadOnly { return true }
        switch route.pace {
        case .full: return sendAll()
        case .stall(let count):
            guard sendStart(count) else { return false }
            socket.waitForPeer(milliseconds: -1)
            return false
        case .held(let count, let gate):
            guard case .bytes(let bytes) = route.body, socket.write(Array(bytes.prefix(count))) else { return false }
            gate.wait(besides: socket.descriptor)
            return socket.write(Array(bytes.dropFirst(count)))
        case .fed(let feed):
            guard case .bytes(let bytes) = route.body, sendStart(bytes.count) else { return false }
            while let piece = feed.next(besides: socket.descriptor) {
                guard socket.write(framed(piece)) else { return false }
            }
            if feed.isComplete, case .chunked = route.framing { _ = socket.write(Array("0\r\n\r\n".utf8)) }
            return false
        case .cut(let count):
            _ = sendStart(count)
            return false
        case .drip(let count, let pause):
            while socket.write(framed([UInt8](repeating: 0x2E, count: count))) {
                socket.waitForPeer(milliseconds: pause)
            }
            return false
        }
    }

    private var head: String {
        var head = "HTTP/1.1 \(route.status) Status\r\n"
        for (name, value) in route.headers { head += "\(name): \(value)\r\n" }
        switch (route.framing, route.body) {
        case (.honest, .bytes(let bytes)): head += "Content-Length: \(bytes.count)\r\n"
        case (.stated(let length), _): head += "Content-Length: \(length)\r\n"
        case (.none, _): break
        case (.chunked, _): head += "Transfer-Encoding: chunked\r\n"
        case (.untilClose, _), (.honest, .endless): head += "Connection: close\r\n"
        }
        return head + "\r\n"
    }

    private func sendAll() -> Bool {
        switch route.body {
        case .endless:
            let kilobyte = [UInt8](repeating: 0x2E, count: 1024)
            while socket.write(framed(kilobyte)) {}
            return false
        case .bytes(let bytes):
            guard sendStart(bytes.count) else { return false }
            switch route.framing {
            case .honest, .none: return true
            case .chunked: return socket.write(Array("0\r\n\r\n".utf8))
            case .stated, .untilClose: return false
            }
        }
    }

    private func sendStart(_ count: Int) -> Bool {
        guard case .bytes(let bytes) = route.body else { return false }
        if case .none = route.framing { return true }
        let start = bytes.prefix(count)
        guard case .chunked = route.framing else { return socket.write(Array(start)) }
        return stride(from: 0, to: start.count, by: 1024).allSatisfy { offset in
            socket.write(framed(Array(start[offset..<min(offset + 1024, start.count)])))
        }
    }

    private func framed(_ bytes: [UInt8]) -> [UInt8] {
        guard case .chunked = route.framing else { return bytes }
        return Array("\(String(bytes.count, radix: 16))\r\n".utf8) + bytes + Array("\r\n".utf8)
    }
}
