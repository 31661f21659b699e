import ArchiveSource
import BundleCore
import BundleDisk
import Glibc
import BundleTesting
import Testing

@Suite struct ReuseStageTests {
    let device: Device

    init() throws { device = try Device() }

    static let small = noise(20_000, seed: 1)
    /// Larger than a slab.
    static let large = noise(700_000, seed: 2)

    private func status(_ path: String) throws -> stat {
        var status = stat()
        try #require(lstat("\(device.storePath)/clients/\(path)", &status) == 0, "\(path)")
        return status
    }

    private func areLinked(_ old: String, _ new: String) throws -> Bool {
        try status("v1.0.0/\(old)").st_ino == status("v1.0.1/\(new)").st_ino
    }

    private func installed(_ path: String) throws -> [UInt8]? {
        try device.folder.directory("store/clients").contents(path, maximumBytes: 1 << 24)
    }

    private func install(_ items: [TarItem], as version: String) async throws {
        try await device.install(try device.tar(items), as: version)
    }

    @Test(arguments: [small, large]) func `links files with equal content at the same path`(_ content: [UInt8])
        async throws
    {
        try await install([TarItem("same.js", content), TarItem("other.js", content + [1])], as: "1.0.0")
        try await install([TarItem("same.js", content), TarItem("other.js", content + [2])], as: "1.0.1")
        #expect(try areLinked("same.js", "same.js"))
        #expect(try areLinked("index.html", "index.html"))
        #expect(try !areLinked("other.js", "other.js"))
        #expect(try installed("v1.0.0/other.js") == content + [1])
        #expect(try installed("v1.0.1/other.js") == content + [2])
        #expect(try installed("v1.0.1/same.js") == content)
        #expect(try status("v1.0.1/same.js").st_mode & 0o7777 == 0o644)
    }

    @Test(arguments: [small, large]) func `links files with equal content at another path`(_ content: [UInt8])
        async throws
    {
        try await install([TarItem("a/deep/old.js", content)], as: "1.0.0")
        try await install([TarItem("b/new.js", content), TarItem("c.js", content)], as: "1.0.1")
        #expect(try areLinked("a/deep/old.js", "b/new.js"))
        #expect(try areLinked("a/deep/old.js", "c.js"))
    }

    @Test(arguments: [small, large]) func `does not link a file that was changed on the disk`(_ content: [UInt8])
        async throws
    {
        try await install([TarItem("a.js", content)], as: "1.0.0")
        let file = try File.open(reading: "\(device.storePath)/clients/v1.0.0/a.js")
        var changed = content
        changed[content.count - 1] ^= 1
        // Only the bytes differ; size and path stay.
        let descriptor = open(file.path, O_WRONLY | O_CLOEXEC)
        #expect(pwrite(descriptor, changed, changed.count, 0) == changed.count)
        close(descriptor)

        try await install([TarItem("a.js", content)], as: "1.0.1")
        #expect(try !areLinked("a.js", "a.js"))
        #expect(try installed("v1.0.1/a.js") == content)
        #expect(try installed("v1.0.0/a.js") == changed)
    }

    @Test(arguments: [small, large]) func `does not follow a symbolic link in an installed client`(_ content: [UInt8])
        async throws
    {
        try await install([TarItem("a.js", content)], as: "1.0.0")
        try content.withUnsafeBytes { try device.folder.createFile("elsewhere", with: $0) }
        let old = "\(device.storePath)/clients/v1.0.0/a.js"
        #expect(unlink(old) == 0)
        #expect(symlink("\(device.folder.path)/elsewhere", old) == 0)
        try await install([TarItem("a.js", content)], as: "1.0.1")
        #expect(try status("v1.0.1/a.js").st_mode & S_IFMT == S_IFREG)
        #expect(try status("v1.0.1/a.js").st_nlink == 1)
        #expect(try installed("v1.0.1/a.js") == content)
    }

    @Test func `writes files that are missing in the installed client`() async throws {
        try await install([TarItem("a.js", Self.small), TarItem("d/b.js", Self.large)], as: "1.0.0")
        try device.folder.directory("store/clients/v1.0.0").removeFile("a.js")
        try device.folder.directory("store/clients/v1.0.0").removeTree("d")
        try await install([TarItem("a.js", Self.small), TarItem("d/b.js", Self.large)], as: "1.0.1")
        #expect(try installed("v1.0.1/a.js") == Self.small)
        #expect(try installed("v1.0.1/d/b.js") == Self.large)
    }

    @Test func `needs disk space for the new content only`() async throws {
        let files = (0..<40).map { TarItem("assets/\($0).js", noise(40_000, seed: UInt64($0))) }
        try await install(files + [TarItem("large", Self.large)], as: "1.0.0")
        let before = try usage()
        try await install(
            files + [TarItem("large", Self.large), TarItem("new.js", noise(50_000, seed: 99))], as: "1.0.1")
        let grown = try usage() - before
        #expect(grown >= 50_000)
        // The new file, folders and the receipt, much less than the 2.3 MB of all files.
        #expect(grown < 150_000)
    }

    /// The bytes on the disk below the store, with hard-linked files counted once.
    private func usage() throws -> Int {
        var seen: Set<UInt64> = []
        func usage(_ path: String) throws -> Int {
            var status = stat()
            try #require(lstat(path, &status) == 0)
            guard seen.insert(UInt64(status.st_ino)).inserted else { return 0 }
            let own = Int(status.st_blocks) * 512
            guard status.st_mode & S_IFMT == S_IFDIR else { return own }
            return try Directory.open(path).list().reduce(own) { try $0 + usage("\(path)/\($1)") }
        }
        return try usage(device.storePath)
    }
}
