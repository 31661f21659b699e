import BundleDisk
import Glibc
import Testing

@Suite("Directory.filePaths") struct FilePathsTests {
    @Test func `returns the paths of regular files at every depth, byte for byte`() throws {
        let sandbox = try Sandbox()
        let folder = sandbox.inside
        let deep = try folder.directory(creating: "a").directory(creating: "ü")
        try folder.write("-rf", "")
        try folder.write("%2e%2e", "")
        try deep.write("😀", "")
        _ = try folder.directory(creating: "empty")
        try folder.symbolicLink("link", to: "-rf")
        try folder.symbolicLink("out", to: "../outside")
        #expect(mkfifo(folder.path + "/fifo", 0o600) == 0)
        let found = Set(try folder.filePaths().map { String(decoding: $0, as: UTF8.self) })
        #expect(found == ["-rf", "%2e%2e", "a/ü/😀"])
    }
}
