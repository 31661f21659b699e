import Testing

@testable import ClientShell

/// The tables of proc_net_tcp(5).
struct LoopbackPortTests {
    private static let head =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

    private static func row(_ address: String, state: String = "0A", user: Int = 1000) -> String {
        "   0: \(address) 00000000:0000 \(state) 00000000:00000000 00:00000000 00000000  \(user)        0 4711 1 0000 100 0 0 10 0\n"
    }

    /// 0x2EE0 is 12000.
    @Test(arguments: [
        ("0100007F:2EE0", "0A", [1000]), ("00000000:2EE0", "0A", [1000]), ("0100007F:2EE1", "0A", []),
        ("0100007F:2EE0", "01", []), ("0200007F:2EE0", "0A", []), ("0101A8C0:2EE0", "0A", []),
        ("00000000000000000000000000000000:2EE0", "0A", [1000]),
        ("0000000000000000FFFF00000100007F:2EE0", "0A", [1000]),
        ("00000000000000000000000001000000:2EE0", "0A", []),
    ])
    func `finds the users whose programs accept connections to a port of 127.0.0.1`(
        address: String, state: String, expected: [UInt32]
    ) {
        let table = Self.head + Self.row(address, state: state) + Self.row("0100007F:0050", user: 7)
        #expect(LoopbackPort.users(of: 12000, in: table) == expected)
    }

    @Test func `finds no user in a damaged table`() {
        #expect(LoopbackPort.users(of: 12000, in: "") == [])
        #expect(LoopbackPort.users(of: 12000, in: "a b c\n0: : 0 0A 0 0 0 0 0 0\n0: 0100007F 0 0A 0 0 0 x 0 0\n") == [])
    }
}
