import BundleTestTraits
import BundleTesting
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
