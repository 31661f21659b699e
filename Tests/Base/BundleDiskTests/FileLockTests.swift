import BundleDisk
import BundleTesting
import Glibc
import Testing

@Suite struct `A lock` {
    let sandbox: Sandbox
    var folder: Directory { sandbox.inside }

    init() throws { sandbox = try Sandbox() }

    @Test func `has one holder, until that one lets go`() throws {
        var held = try FileLock.take("lock", in: folder)
        #expect(held != nil)
        #expect(try FileLock.take("lock", in: folder) == nil)
        #expect(try FileLock.take("other", in: folder) != nil)
        held = nil
        #expect(try FileLock.take("lock", in: folder) != nil)
    }

    @Test func `of a folder has one holder and puts nothing into it`() throws {
        var held = try FileLock.take(folder)
        #expect(held != nil)
        #expect(try FileLock.take(folder) == nil)
        #expect(try folder.list() == [])
        held = nil
        #expect(try FileLock.take(folder) != nil)
    }

    @Test func `of another process counts, and ends with it`() throws {
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

    /// As a child has it between fork and exec, close-on-exec or not.
    @Test func `is given back though its descriptor lives on elsewhere`() throws {
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

    @Test func `is never a link to somebody's file`() throws {
        try folder.symbolicLink("lock", to: "../outside/secret")
        #expect(code { _ = try FileLock.take("lock", in: folder) } != nil)
    }
}
