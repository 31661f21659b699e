import Testing

@testable import BundleShell

@Suite struct MachineIdentityTests {
    @Test(arguments: [
        ("c0ffee00c0ffee00c0ffee00c0ffee00\n", true), ("C0FFEE00C0FFEE00C0FFEE00C0FFEE00", true),
        ("00000000000000000000000000000000\n", false), ("ffffffffffffffffffffffffffffffff", false),
        ("uninitialized\n", false), ("", false), ("c0ffee", false),
    ])
    func `derives a device id from a unique machine id only`(text: String, isMade: Bool) throws {
        #expect(try (MachineIdentity.deviceId(ofMachine: text) != nil) == isMade)
    }

    @Test func `derives a stable device id without disclosing the machine id`() throws {
        let one = try MachineIdentity.deviceId(ofMachine: "c0ffee00c0ffee00c0ffee00c0ffee00")
        #expect(try MachineIdentity.deviceId(ofMachine: "C0FFEE00C0FFEE00C0FFEE00C0FFEE00\n") == one)
        #expect(one?.utf8.count == 32 && one != "c0ffee00c0ffee00c0ffee00c0ffee00")
    }
}
