import Glibc

/// A Unix datagram socket that receives, like that of a service manager. It is closed with its last reference.
package final class DatagramSocket: Sendable {
    private let descriptor: Int32

    /// Listens at a path, or at an abstract name that starts with `@`.
    package init(_ name: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemCallError("socket") }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(name.utf8)
        let isAbstract = bytes.first == UInt8(ascii: "@")
        if isAbstract { bytes[0] = 0 }
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw SystemCallError("bind", code: ENAMETOOLONG)
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(2 + bytes.count + (isAbstract ? 0 : 1))
        let bound = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        guard bound == 0 else { throw SystemCallError("bind") }
    }

    deinit { close(descriptor) }

    /// Returns the next datagram as text, or nil after `milliseconds`.
    package func next(within milliseconds: Int32 = 60_000) throws -> String? {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&entry, 1, milliseconds) > 0 else { return nil }
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count >= 0 else { throw SystemCallError("recv") }
        return String(decoding: buffer[..<count], as: UTF8.self)
    }

    /// Returns the next datagram that satisfies `isWanted` and drops the others. Returns nil after the timeout.
    package func next(where isWanted: (String) -> Bool) throws -> String? {
        while let text = try next() { if isWanted(text) { return text } }
        return nil
    }

    /// Returns the datagrams received so far.
    package func drain() throws -> [String] {
        var all: [String] = []
        while let text = try next(within: 0) { all.append(text) }
        return all
    }
}
