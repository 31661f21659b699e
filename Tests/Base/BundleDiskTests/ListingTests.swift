import Glibc
import Testing

@testable import BundleDisk

@Suite("Directory.entries") struct ListingTests {
    let sandbox: Sandbox
    var folder: Directory { sandbox.inside }

    init() throws { sandbox = try Sandbox() }

    @Test func `returns the kind of each entry without following links`() throws {
        try folder.write("file", "four")
        try folder.makeDirectory("below")
        try folder.symbolicLink("link", to: "below")
        try #require(mkfifo("\(folder.path)/pipe", 0o600) == 0)
        let wanted: [(String, Directory.DirectoryEntry.Kind)] = [
            ("below", .directory), ("file", .file), ("link", .symbolicLink), ("pipe", .other),
        ]
        let found = try folder.entries().sorted { $0.name.lexicographicallyPrecedes($1.name) }
        #expect(found == wanted.map { Directory.DirectoryEntry(name: Array($0.0.utf8), kind: $0.1) })
        // On a file system that does not list kinds, the entry itself is examined.
        for (name, kind) in wanted {
            #expect(try folder.kind(ofType: UInt8(DT_UNKNOWN), Array(name.utf8CString)[...]) == kind)
        }
        #expect(code { _ = try folder.kind(ofType: UInt8(DT_UNKNOWN), Array("gone".utf8CString)[...]) } == ENOENT)
    }

    @Test func `returns names in the bytes of the kernel`() throws {
        let name: [UInt8] = [0x61, 0xFF, 0x0A]
        let path = (Array("\(folder.path)/".utf8) + name).map { CChar(bitPattern: $0) } + [0]
        try #require(mkdir(path, 0o700) == 0)
        #expect(try folder.entries() == [Directory.DirectoryEntry(name: name, kind: .directory)])
    }
}
