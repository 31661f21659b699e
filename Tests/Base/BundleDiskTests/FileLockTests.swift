import BundleDisk
import BundleTesting
import Glibc
import Testing

@Suite("FileLock") struct FileLockTests {
    let sandbox: Sandbox
    var folder: Directory { sandbox.inside }

    init() throws { sandbox = try Sandbox() }

    @Test func `has one holder until it is released`() throws {
        var held = try FileLock.take("lock", in: folder)
        #expect(held != nil)
        #expect(try FileLock.take("lock", in: folder) == nil)
        #expect(try FileLock.take("other", in: folder) != nil)
        held = nil
        #expect(try FileLock.take("lock", in: folder) != nil)
    }

    @Test func `locks a folder without creating a file in it`() throws {
        var held = try FileLock.take(folder)
        #expect(held != nil)
        #expect(try FileLock.take(folder) == nil)
        #expect(try folder.list() == [])
        held = nil
        #expect(try FileLock.take(folder) != nil)
    }

    @Test func `respects the lock of another process until that process ends`() throws {
        let program = """
            import fcntl, sys
            file = open(sys.argv[1], "a")
            fcntl.flock(file, fcntl.LOCK_EX)
            print("held", flush=True)
            import signal; signal.pause()
            """
        var holder: Command? = try Command(["python3", "-c", program, folder.path + "/lock"])
        #expect(holder?.nextLine() == "held")
        #expect(try FileLock.take("lock", in: folder) == nil)
        holder = nil
        #expect(try FileLock.take("lock", in: folder) != nil)
    }

    /// A child process between fork and exec has the descriptor too, even if it is close-on-exec.
    @Test func `is released although a duplicate of its descriptor is open`() throws {
        var held = try FileLock.take("lock", in: folder)
        #expect(held != nil)
        let path = folder.path + "/lock"
        let copies = (0..<(1 << 16)).filter { link(of: $0) == path }.map { dup(Int32($0)) }
        defer { for copy in copies { close(copy) } }
        #expect(!copies.isEmpty)
        held = nil
        #expect(try FileLock.take("lock", in: folder) != nil)
    }

    private func link(of descriptor: Int) -> String? {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/fd/\(descriptor)", &buffer, buffer.count)
        return count < 0 ? nil : String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    @Test func `does not follow a link to a file elsewhere`() throws {
        try folder.symbolicLink("lock", to: "../outside/secret")
        #expect(code { _ = try FileLock.take("lock", in: folder) } != nil)
    }
}
