import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct `A loopback server` {
    @Test func `ends with its last reference`() throws {
        weak var left: LoopbackServer?
        func start() throws {
            let server = try LoopbackServer()
            left = server
        }
        try start()
        #expect(left == nil)
    }
}

@Suite(.ownThread) struct `A program under test` {
    @Test func `has no descriptors but its own`() throws {
        let inherited = dup(0)
        defer { close(inherited) }
        // The last one is that of the folder, while it is read.
        #expect(try Program.run(["ls", "/proc/self/fd"], environment: [:]).text == "0\n1\n2\n3\n")
    }
}
