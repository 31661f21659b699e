import BundleDisk
import BundleTesting
import Glibc
import Testing

@Suite("File") struct FileTests {
    let sandbox: Sandbox
    var folder: Directory { sandbox.inside }

    init() throws { sandbox = try Sandbox() }

    @Test func `appends, truncates and reads at any offset`() throws {
        let file = try folder.file(appending: "file")
        try Array("0123456789".utf8).withUnsafeBytes { try file.write($0) }
        #expect(try file.size() == 10)
        try file.truncate(to: 4)
        try Array("ab".utf8).withUnsafeBytes { try file.write($0) }
        #expect(try folder.text("file") == "0123ab")
        #expect(try file.head(2) == Array("01".utf8))
        #expect(try file.head(100) == Array("0123ab".utf8))
        var buffer = [UInt8](repeating: 0, count: 4)
        let count = try buffer.withUnsafeMutableBytes { try file.read(into: $0, at: 3) }
        #expect(buffer[..<count] == Array("3ab".utf8)[...])
        #expect(try folder.file(appending: "file").size() == 6)
        #expect(try file.permissions() == 0o600)
    }

    @Test func `compares files byte for byte with buffers of any size`() throws {
        let content = (0..<1000).map { UInt8(truncatingIfNeeded: $0) }
        var other = content
        other[999] ^= 1
        for (name, bytes) in [
            ("a", content), ("b", content), ("c", other), ("d", Array(content.dropLast())), ("e", content + [0]),
        ] {
            try bytes.withUnsafeBytes { try folder.createFile(name, with: $0) }
        }
        for (left, right) in [(1000, 1000), (64, 7), (7, 64), (4096, 4096)] {
            let buffers = [left, right].map { UnsafeMutableRawBufferPointer.allocate(byteCount: $0, alignment: 1) }
            defer { for buffer in buffers { buffer.deallocate() } }
            func same(_ name: String) throws -> Bool {
                try folder.file("a").hasSameContent(as: folder.file(name), scratch: buffers[0], and: buffers[1])
            }
            #expect(try same("b"))
            #expect(try !same("c"))
            #expect(try !same("d"))
            #expect(try !same("e"))
        }
    }

    @Test func `creates a file at an ordinary path with its mode and does not replace one`() throws {
        let path = folder.path + "/key"
        try File.write([1, 2, 3], to: path, mode: 0o600)
        #expect(try folder.file("key").permissions() == 0o600)
        #expect(code { try File.write([4], to: path, mode: 0o600) } == EEXIST)
        #expect(try folder.contents("key", maximumBytes: 10) == [1, 2, 3])
        try folder.symbolicLink("link", to: "../outside/made")
        #expect(code { try File.write([4], to: folder.path + "/link", mode: 0o600) } == EEXIST)
        #expect(File.exists(path))
        #expect(File.exists(folder.path + "/link"))
        #expect(!File.exists(folder.path + "/missing"))
        #expect(!File.exists(path + ".new"))
        try sandbox.requireOutsideUntouched()
    }

    @Test func `removes a temporary directory with its files`() throws {
        var temporary: TemporaryDirectory? = try TemporaryDirectory.ofTests()
        let path = try #require(temporary?.directory.path)
        try temporary?.directory.write("file", "x")
        #expect(try temporary?.directory.permissions().mode == 0o700)
        temporary = nil
        #expect(!File.exists(path))
    }

    @Test(arguments: [
        (ENOSPC, DiskError.Kind.full), (EDQUOT, .full), (EFBIG, .exhausted), (EACCES, .permission),
        (EPERM, .permission),
        (EROFS, .permission), (ENOENT, .missing), (EEXIST, .exists), (ENOTEMPTY, .exists), (EXDEV, .crossesDevice),
        (EWOULDBLOCK, .busy), (EMLINK, .tooManyLinks), (EIO, .damaged), (ELOOP, .unsuitable), (ENOTDIR, .unsuitable),
        (EOVERFLOW, .unsuitable), (EMFILE, .exhausted), (ENFILE, .exhausted), (ENOMEM, .exhausted), (ENOSYS, .refused),
        (EOPNOTSUPP, .refused),
    ])
    func `maps every error number to a kind and a sentence`(_ code: Int32, _ kind: DiskError.Kind) {
        let error = DiskError("write", at: "dir/file", code: code)
        #expect(error.kind == kind)
        #expect(error.description == "cannot write dir/file: \(String(cString: strerror(code)))")
    }
}
