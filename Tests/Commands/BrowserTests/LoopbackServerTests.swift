import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct LoopbackServerTests {
    @Test func `LoopbackServer ends with its last reference`() throws {
        weak var left: LoopbackServer?
        func start() throws {
            let server = try LoopbackServer()
            left = server
        }
        try start()
        #expect(left == nil)
    }
}

@Suite(.ownThread) struct ProgramDescriptorTests {
    @Test func `Program passes no descriptors of the test to its process`() throws {
        let inherited = dup(0)
        defer { close(inherited) }
        // The last descriptor is that of the folder being read.
        #expect(try Program.run(["ls", "/proc/self/fd"], environment: [:]).text == "0\n1\n2\n3\n")
    }
}
