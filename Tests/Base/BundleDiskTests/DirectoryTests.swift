import BundleDisk
import Glibc
import Testing

@Suite("Directory") struct DirectoryTests {
    let sandbox: Sandbox
    var folder: Directory { sandbox.inside }

    init() throws { sandbox = try Sandbox() }

    @Test func `rejects paths outside the directory in every operation`() throws {
        try folder.symbolicLink("link", to: "../outside/secret")
        try folder.symbolicLink("folder", to: "../outside")
        for path in ["../outside/secret", "link", "folder/secret", sandbox.outside.path + "/secret"] {
            #expect(code { _ = try folder.file(path) } != nil)
            #expect(code { _ = try folder.file(appending: path) } != nil)
            #expect(code { _ = try folder.file(creating: path) } != nil)
            #expect(code { _ = try folder.contents(path, maximumBytes: 100) } != nil)
            #expect(code { try folder.write(path, "x") } != nil)
            let wanted = Array("theirs".utf8)
            let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 6, alignment: 1)
            defer { scratch.deallocate() }
            let isHeld = try wanted.withUnsafeBytes { try folder.holds(path, content: $0, scratch: scratch) }
            #expect(!isHeld)
        }
        for path in ["..", "../outside", "folder", sandbox.outside.path] {
            #expect(code { _ = try folder.directory(path) } != nil)
        }
        try sandbox.requireOutsideUntouched()
    }

    @Test func `creates files with mode 0644 and does not replace files`() throws {
        try folder.write("file", "first")
        #expect(try folder.file("file").permissions() == 0o644)
        #expect(code { try folder.write("file", "second") } == EEXIST)
        #expect(code { _ = try folder.file(creating: "file") } == EEXIST)
        #expect(try folder.text("file") == "first")

        try folder.symbolicLink("dangling", to: "../outside/made")
        #expect(code { try folder.write("dangling", "x") } == EEXIST)
        #expect(code { _ = try folder.file(creating: "dangling") } == EEXIST)
        try sandbox.requireOutsideUntouched()
    }

    @Test func `opens regular files only and does not block on a FIFO`() throws {
        try #require(mkfifo("\(folder.path)/pipe", 0o600) == 0)
        try folder.makeDirectory("below")
        #expect(code { _ = try folder.file("pipe") } == EINVAL)
        #expect(code { _ = try folder.file("below") } == EINVAL)
        #expect(code { _ = try folder.file(appending: "pipe") } == EINVAL)
        #expect(code { _ = try File.open(reading: "\(folder.path)/pipe") } == EINVAL)
    }

    @Test func `SW-57, SW-58: reports the kind of an entry without following links`() throws {
        try folder.write("file", "four")
        try folder.makeDirectory("below")
        try folder.symbolicLink("link", to: "file")
        try #require(mkfifo("\(folder.path)/pipe", 0o600) == 0)
        guard case .file(size: 4)? = try folder.kind(of: "file") else { throw Unexpected() }
        guard case .directory? = try folder.kind(of: "below") else { throw Unexpected() }
        guard case .symbolicLink? = try folder.kind(of: "link") else { throw Unexpected() }
        guard case .other? = try folder.kind(of: "pipe") else { throw Unexpected() }
        if try folder.kind(of: "missing") != nil { throw Unexpected() }
    }

    @Test func `reads a whole file or throws`() throws {
        try folder.write("file", "12345")
        #expect(try folder.contents("file", maximumBytes: 5) == Array("12345".utf8))
        #expect(code { _ = try folder.contents("file", maximumBytes: 4) } == EOVERFLOW)
        #expect(try folder.contents("missing", maximumBytes: 4) == nil)
    }

    @Test func `compares a file with given bytes`() throws {
        try folder.write("file", "12345")
        try folder.write("empty", "")
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 16, alignment: 1)
        defer { scratch.deallocate() }
        func holds(_ name: String, _ text: String) throws -> Bool {
            try Array(text.utf8).withUnsafeBytes { try folder.holds(name, content: $0, scratch: scratch) }
        }
        #expect(try holds("file", "12345"))
        #expect(try !holds("file", "12346"))
        #expect(try !holds("file", "1234"))
        #expect(try !holds("file", "123456"))
        #expect(try holds("empty", ""))
        #expect(try !holds("file", ""))
        #expect(try !holds("missing", ""))
    }

    @Test func `moves without replacing, and renames over a file`() throws {
        let other = try folder.directory(creating: "other")
        try folder.write("a", "new")
        try other.write("b", "old")
        #expect(code { try folder.move("a", to: other, as: "b") } == EEXIST)
        #expect(try other.text("b") == "old")
        try folder.makeDirectory("full")
        try other.makeDirectory("empty")
        #expect(code { try folder.move("full", to: other, as: "empty") } == EEXIST)
        try folder.move("a", to: other, as: "c")
        #expect(try other.text("c") == "new")
        try other.rename("c", to: "b")
        #expect(try other.text("b") == "new")
        try other.rename("b", to: folder, as: "d")
        #expect(try folder.text("d") == "new")
        #expect(try Set(folder.list()) == ["other", "full", "d"])
    }

    @Test func `AN-05: moves a folder with its content at once`() throws {
        let old = try folder.directory(creating: "old")
        try old.write("top", "1")
        try old.directory(creating: "a").directory(creating: "b").write("deep", "2")
        let other = try folder.directory(creating: "other")
        try folder.move("old", to: other, as: "new")
        #expect(try folder.list() == ["other"])
        #expect(try other.directory("new").text("top") == "1")
        #expect(try other.directory("new/a/b").text("deep") == "2")
        // An open directory stays usable, because nothing was copied.
        try old.write("late", "3")
        #expect(try other.directory("new").text("late") == "3")
    }

    @Test func `links a file under a second name`() throws {
        let other = try folder.directory(creating: "other")
        try folder.write("a", "text")
        try folder.link("a", to: other, as: "b")
        #expect(try inode(of: "a") == inode(of: "other/b"))
        #expect(code { try folder.link("a", to: other, as: "b") } == EEXIST)
    }

    private func inode(of name: String) throws -> UInt64 {
        var status = stat()
        try #require(lstat("\(folder.path)/\(name)", &status) == 0)
        return UInt64(status.st_ino)
    }

    @Test func `AN-04: creates missing parents with the default mode and the last folder with the given mode`() throws {
        let path = folder.path + "/x/y/z"
        try Directory.createAll(path, mode: 0o700)
        #expect(try Directory.open(path).permissions().mode == 0o700)
        #expect(try Directory.open(folder.path + "/x").permissions().mode == 0o755)
        try Directory.createAll(path, mode: 0o755)
        #expect(try Directory.open(path).permissions().mode == 0o700)
        #expect(code { try folder.makeDirectory("x") } == EEXIST)
    }

    @Test func `reports the free space of statvfs`() throws {
        var status = statvfs()
        try #require(statvfs(folder.path, &status) == 0)
        let space = try folder.freeSpace()
        #expect(space.blockBytes == Int(status.f_frsize))
        #expect(space.totalBytes == Int(status.f_blocks) * Int(status.f_frsize))
        #expect(space.bytes > 0)
        #expect(space.bytes <= Int(status.f_bfree) * Int(status.f_frsize) + (1 << 30))
        #expect(space.bytes % space.blockBytes == 0)
        #expect((space.files == nil) == (status.f_files == 0))
    }

    @Test func `reports no number of free files for a kernel file system`() throws {
        #expect(try Directory.open("/proc").freeSpace().files == nil)
        #expect(try Directory.open("/proc").freeSpace().bytes == 0)
    }
}

struct Unexpected: Error {}
