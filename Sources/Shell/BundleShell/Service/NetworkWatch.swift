internal import CLibrary

/// Receives from the kernel when this machine gets a default route (rtnetlink(7)).
package final class NetworkWatch: Sendable {
    // From <linux/rtnetlink.h>, which Swift does not import.
    private static let newRoute: UInt16 = 24
    private static let unicast: UInt8 = 1
    private static let routes: UInt32 = 0x40 | 0x400
    private static let headBytes = 16
    private static let routeBytes = 12

    private let descriptor: Int32

    /// Starts the watch. Returns nil if the system does not support it.
    package init?() {
        let kind = Int32(SOCK_RAW.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        descriptor = socket(AF_NETLINK, kind, 0)
        // struct sockaddr_nl: family and padding, port 0, groups.
        let address: [UInt32] = [UInt32(AF_NETLINK).littleEndian, 0, Self.routes]
        let bound = address.withUnsafeBytes { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                bind(descriptor, $0.baseAddress, socklen_t(MemoryLayout<UInt32>.size * address.count))
            }
        }
        if descriptor < 0 || bound != 0 { return nil }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Returns whether a default route was added since the last call.
    package func hasNewRoute() -> Bool {
        var isNew = false
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = recv(descriptor, &bytes, bytes.count, 0)
            if count > 0 {
                isNew = Self.containsDefaultRoute(bytes[..<count]) || isNew
            } else if count < 0 && errno == ENOBUFS {
                // Messages were dropped, which may include a route.
                isNew = true
            } else if count == 0 || errno != EINTR {
                return isNew
            }
        }
    }

    /// Returns whether one of the kernel's messages adds a default route.
    static func containsDefaultRoute(_ messages: ArraySlice<UInt8>) -> Bool {
        var rest = messages
        while rest.count >= headBytes {
            let head = Array(rest.prefix(headBytes))
            let length = head.withUnsafeBytes { Int($0.load(as: UInt32.self)) }
            let type = head.withUnsafeBytes { $0.load(fromByteOffset: 4, as: UInt16.self) }
            guard length >= headBytes, length <= rest.count else { return false }
            let route = Array(rest.dropFirst(headBytes).prefix(min(routeBytes, length - headBytes)))
            if type == newRoute, route.count == routeBytes, route[1] == 0, route[7] == unicast { return true }
            // Messages are aligned to four bytes.
            rest = rest.dropFirst((length + 3) / 4 * 4)
        }
        return false
    }
}
