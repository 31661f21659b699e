internal import Glibc

/// Knows from the kernel when this machine gets a way out to a network: a default route (rtnetlink(7)).
package final class NetworkWatch: Sendable {
    // <linux/rtnetlink.h>, of which Swift sees nothing.
    private static let newRoute: UInt16 = 24
    private static let unicast: UInt8 = 1
    private static let routes: UInt32 = 0x40 | 0x400
    private static let headBytes = 16
    private static let routeBytes = 12

    private let notices: Int32

    /// Begins to watch; nil where the system tells nothing of it.
    package init?() {
        let kind = Int32(SOCK_RAW.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        notices = socket(AF_NETLINK, kind, 0)
        // struct sockaddr_nl: family and padding, no port of our own, the groups.
        let address: [UInt32] = [UInt32(AF_NETLINK).littleEndian, 0, Self.routes]
        let bound = address.withUnsafeBytes { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                bind(notices, $0.baseAddress, socklen_t(MemoryLayout<UInt32>.size * address.count))
            }
        }
        if notices < 0 || bound != 0 { return nil }
    }

    deinit { if notices >= 0 { close(notices) } }

    /// Whether there is a new way out since the last call.
    package func hasNewRoute() -> Bool {
        var isNew = false
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = recv(notices, &bytes, bytes.count, 0)
            if count > 0 {
                isNew = Self.bringsDefaultRoute(bytes[..<count]) || isNew
            } else if count < 0 && errno == ENOBUFS {
                // More came than was kept: a route may have been among it.
                isNew = true
            } else if count == 0 || errno != EINTR {
                return isNew
            }
        }
    }

    /// Whether one of the kernel's messages says that there is a new route to everywhere.
    static func bringsDefaultRoute(_ messages: ArraySlice<UInt8>) -> Bool {
        var rest = messages
        while rest.count >= headBytes {
            let head = Array(rest.prefix(headBytes))
            let length = head.withUnsafeBytes { Int($0.load(as: UInt32.self)) }
            let type = head.withUnsafeBytes { $0.load(fromByteOffset: 4, as: UInt16.self) }
            guard length >= headBytes, length <= rest.count else { return false }
            let route = Array(rest.dropFirst(headBytes).prefix(min(routeBytes, length - headBytes)))
            if type == newRoute, route.count == routeBytes, route[1] == 0, route[7] == unicast { return true }
            // Each begins at a multiple of four bytes.
            rest = rest.dropFirst((length + 3) / 4 * 4)
        }
        return false
    }
}
