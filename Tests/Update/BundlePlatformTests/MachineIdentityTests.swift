import Testing

@testable import BundlePlatform

@Suite struct MachineIdentityTests {
    @Test(arguments: [
        ("c0ffee00c0ffee00c0ffee00c0ffee00\n", true), ("C0FFEE00C0FFEE00C0FFEE00C0FFEE00", true),
        ("00000000000000000000000000000000\n", false), ("ffffffffffffffffffffffffffffffff", false),
        ("uninitialized\n", false), ("", false), ("c0ffee", false),
    ])
    func `makes a device id of a machine id that only one machine can have`(text: String, isMade: Bool) throws {
        #expect(try (MachineIdentity.deviceId(ofMachine: text) != nil) == isMade)
    }

    @Test func `makes the same device id of the same machine id, and does not disclose it`() throws {
        let one = try MachineIdentity.deviceId(ofMachine: "c0ffee00c0ffee00c0ffee00c0ffee00")
        #expect(try MachineIdentity.deviceId(ofMachine: "C0FFEE00C0FFEE00C0FFEE00C0FFEE00\n") == one)
        #expect(one?.utf8.count == 32 && one != "c0ffee00c0ffee00c0ffee00c0ffee00")
    }
}
