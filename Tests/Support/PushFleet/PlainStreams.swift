import BundleTransport
import Glibc

/// Opens unencrypted streams to this machine without a thread for each of the thousands of devices.
struct PlainStreams: StreamConnector {
    func connectStream(_ url: SocketURL) async throws -> OpenStream {
        let stream = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(truncatingIfNeeded: url.port).bigEndian
        address.sin_addr.s_addr = inet_addr(url.host)
        // A connection to this machine succeeds at once.
        let connected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(stream, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if connected == 0 { return OpenStream(socket: stream) }
        defer { if stream >= 0 { close(stream) } }
        throw TransportError.unreachable(String(cString: strerror(errno)))
    }
}
