import BundleValues
import Testing

struct ThisMachineTests {
    @Test(arguments: [
        ("localhost", true), ("LocalHost", true), ("127.0.0.1", true), ("127.1.2.3", true), ("127.255.255.255", true),
        ("::1", true), ("[::1]", true),
        ("", false), ("localhost.", false), ("localhost.example", false), ("my.localhost", false),
        ("127.0.0.1.example", false), ("127.example", false), ("127.", false), ("127", false), ("127.1", false),
        ("127.0.0.256", false), ("127.0.0.01", false), ("127.0.0.+1", false), ("127.0.0.1.1", false),
        ("0127.0.0.1", false), ("0x7f.0.0.1", false), ("2130706433", false), ("128.0.0.1", false), ("0.0.0.0", false),
        ("10.0.0.1", false), ("::", false), ("::2", false), ("[::1", false), ("::ffff:127.0.0.1", false),
    ])
    func `recognizes the names of this machine`(_ host: String, _ isThisMachine: Bool) {
        #expect(ThisMachine.isNamed(by: host) == isThisMachine)
    }
}
