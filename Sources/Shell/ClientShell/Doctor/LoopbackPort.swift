import BundleDisk
import Glibc

/// Tests the ports of 127.0.0.1 without listening on them.
enum LoopbackPort {
    /// Returns why no program can listen on `port`; nil if it is free.
    static func refusal(_ port: Int) -> DiskError? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return DiskError("open", "a socket", code: errno) }
        defer { close(descriptor) }
        // As in `serve`: recently closed connections do not block a port.
        var isOn: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(clamping: port)).bigEndian
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        return result == 0 ? nil : DiskError("bind", "port \(port)", code: errno)
    }
}
