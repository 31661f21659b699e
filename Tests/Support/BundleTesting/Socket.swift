import Glibc

/// A failed system call.
package struct SystemCallError: Error, CustomStringConvertible {
    /// The call and its error.
    package let description: String

    init(_ call: String, code: Int32 = errno) {
        description = "\(call): \(String(cString: strerror(code)))"
    }
}

/// A TCP socket of 127.0.0.1. It is closed with its last reference.
package final class Socket: Sendable {
    let descriptor: Int32

    private init(_ descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Listens on `port`, or on a free port for 0.
    static func listening(on port: Int = 0) throws -> Socket {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemCallError("socket") }
        let listener = Socket(descriptor)
        // Allows the reuse of a port directly after its last server.
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        try listener.bind(to: port)
        guard listen(descriptor, 64) == 0 else { throw SystemCallError("listen") }
        return listener
    }

    /// Reserves `port` of 127.0.0.1, or a free one for 0. No server listens on it, and no other test can use it.
    package static func closed(port: Int = 0) throws -> Socket {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemCallError("socket") }
        let holder = Socket(descriptor)
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        try holder.bind(to: port)
        return holder
    }

    private func bind(to port: Int) throws {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(truncatingIfNeeded: port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.bind(descriptor, $0, length) }
        }
        guard bound == 0 else { throw SystemCallError("cannot take port \(port) of 127.0.0.1") }
    }

    package func port() throws -> Int {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        guard code == 0 else { throw SystemCallError("getsockname") }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    /// Returns nil when the socket is shut down.
    func accept() -> Socket? {
        while true {
            let accepted = Glibc.accept(descriptor, nil, nil)
            if accepted >= 0 {
                // Head and body are written separately; Nagle's algorithm would delay the second.
                var on: Int32 = 1
                setsockopt(accepted, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
                return Socket(accepted)
            }
            guard errno == EINTR || errno == ECONNABORTED else { return nil }
        }
    }

    func shutDown() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Returns nil at the end of the connection and for a block of more than 64 KiB.
    func readHeaderBlock() -> [UInt8]? {
        var block: [UInt8] = []
        var window = [UInt8](repeating: 0, count: 4096)
        while block.count < 65536 {
            // Peeks first and then reads up to the end of the block, because the following bytes are for the next reader.
            let seen = recv(descriptor, &window, window.count, Int32(MSG_PEEK))
            guard seen > 0 else { return nil }
            let start = block.count
            block += window[..<seen]
            let end = Self.endOfHeaders(in: block, from: max(0, start - 3))
            block.removeLast(block.count - (end ?? block.count))
            guard recv(descriptor, &window, block.count - start, 0) == block.count - start else { return nil }
            if end != nil { return block }
        }
        return nil
    }

    /// Returns the end of the first CR LF CR LF at or after `start`.
    private static func endOfHeaders(in block: [UInt8], from start: Int) -> Int? {
        block.withUnsafeBufferPointer { block in
            var index = start
            while index + 3 < block.count {
                if block[index] == 13, block[index + 1] == 10, block[index + 2] == 13, block[index + 3] == 10 {
                    return index + 4
                }
                index += 1
            }
            return nil
        }
    }

    /// Returns `count` bytes, or nil if the connection ends before or `count` is above 1 MiB.
    func read(_ count: Int) -> [UInt8]? {
        guard (0...1 << 20).contains(count) else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        return count == 0 || recv(descriptor, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
    }

    /// Returns false when the peer disconnected.
    func write(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                let rest = UnsafeRawBufferPointer(rebasing: buffer[sent...])
                return send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// Returns when the peer sends data or disconnects, when the socket is shut down, or after the timeout; -1 for none.
    func waitForPeer(milliseconds: Int32) {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        poll(&entry, 1, milliseconds)
    }
}

enum PosixThread {
    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    static func start(_ body: @escaping @Sendable () -> Void) throws -> pthread_t {
        let context = Unmanaged.passRetained(Body(body))
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { context in
                if let context { Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() }
                return nil
            }, context.toOpaque())
        guard code == 0 else {
            context.release()
            throw SystemCallError("pthread_create", code: code)
        }
        return thread
    }
}
