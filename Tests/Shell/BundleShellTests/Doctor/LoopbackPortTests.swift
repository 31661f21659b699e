import BundleTesting
import Testing

@testable import BundleShell

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

    @Test func `finds the user of a connection by both of its ports`() {
        func connection(_ ends: String, user: Int) -> String {
            "9999: \(ends) 01 00000000:00000000 00:00000000 00000000  \(user)        0 4711 1 0000 20 4 30 10 -1\n"
        }
        let others = (0..<20_000).map { number in
            connection("0100007F:2EE0 0100007F:\(String(4096 + number, radix: 16, uppercase: true))", user: 7)
        }
        let table =
            Self.head + others.joined() + connection("0100007F:FFFE 0100007F:2EE0", user: 1000)
            + connection("0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000100007F:2EE0", user: 33)
        #expect(LoopbackPort.users(from: 0xFFFE, to: 12000, in: table) == [1000])
        #expect(LoopbackPort.users(from: 0x50, to: 12000, in: table) == [33])
        #expect(LoopbackPort.users(from: 12000, to: 0xFFFE, in: table) == [])
    }

    @Test func `reads a table of any size whole`() throws {
        let folder = try TemporaryFolder()
        let table = String(repeating: "x", count: 3 << 20) + "end"
        #expect(LoopbackPort.text(try folder.write(Array(table.utf8), to: "table")) == table)
        #expect(LoopbackPort.text(folder.file("missing")) == "")
    }

    @Test func `finds no user in a damaged table`() {
        #expect(LoopbackPort.users(of: 12000, in: "") == [])
        #expect(LoopbackPort.users(of: 12000, in: "a b c\n0: : 0 0A 0 0 0 0 0 0\n0: 0100007F 0 0A 0 0 0 x 0 0\n") == [])
    }
}
