import CLibrary

/// The datagram socket of a service manager, at a path or an abstract name.
final class NotifySocket: Sendable {
    private let descriptor: Int32
    private let address: sockaddr_un
    private let length: socklen_t

    /// Creates a socket for an address in the format of `NOTIFY_SOCKET`: an absolute path, or `@` and an abstract name.
    /// Returns nil for another format, or if the system cannot create a socket.
    init?(_ name: String) {
        var bytes = Array(name.utf8)
        var address = sockaddr_un()
        let isAbstract = bytes.first == UInt8(ascii: "@")
        guard bytes.count > 1, isAbstract || bytes.first == UInt8(ascii: "/"),
            bytes.count < MemoryLayout.size(ofValue: address.sun_path)
        else { return nil }
        if isAbstract { bytes[0] = 0 }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        self.address = address
        // A path ends with a zero byte, an abstract name with its length.
        length = socklen_t(MemoryLayout.size(ofValue: address.sun_family) + bytes.count + (isAbstract ? 0 : 1))
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        if descriptor < 0 { return nil }
        // A manager that does not read must not block the process.
        var timeout = (seconds: 1, microseconds: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout.size(ofValue: timeout)))
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Sends one datagram. Returns false if it was not accepted.
    @discardableResult
    func send(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        var address = address
        return withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                while true {
                    let sent = sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL), address, length)
                    if sent >= 0 || errno != EINTR { return sent == bytes.count }
                }
            }
        }
    }
}
