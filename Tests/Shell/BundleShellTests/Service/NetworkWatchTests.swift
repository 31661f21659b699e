import Testing

@testable import BundleShell

@Suite struct NetworkWatchTests {
    /// A message of the kernel with a head, a route and further bytes.
    private static func message(type: UInt16 = 24, bits: UInt8 = 0, kind: UInt8 = 1, more: Int = 0) -> [UInt8] {
        let length = UInt32(28 + more)
        var bytes = withUnsafeBytes(of: length) { Array($0) } + withUnsafeBytes(of: type) { Array($0) }
        bytes += [UInt8](repeating: 0, count: 10)
        bytes += [2, bits, 0, 0, 254, 4, 0, kind, 0, 0, 0, 0]
        return bytes + [UInt8](repeating: 0xAA, count: (more + 3) / 4 * 4)
    }

    static let messages: [(String, [UInt8], Bool)] = [
        ("a default route", message(), true), ("with attributes", message(more: 9), true),
        ("after another", message(bits: 24, more: 5) + message(), true),
        ("a route to one network", message(bits: 24), false),
        ("a removed one", message(type: 25), false), ("an unreachable one", message(kind: 7), false),
        ("cut short", Array(message().prefix(20)), false), ("empty", [], false),
        ("zero length", [UInt8](repeating: 0, count: 64), false),
        ("too short a length", [17, 0, 0, 0, 24, 0] + [UInt8](repeating: 0, count: 22), false),
    ]

    @Test(arguments: messages) func `recognizes a new default route only`(
        _ name: String, _ bytes: [UInt8], _ isWanted: Bool
    ) {
        #expect(NetworkWatch.containsDefaultRoute(bytes[...]) == isWanted)
    }
}
