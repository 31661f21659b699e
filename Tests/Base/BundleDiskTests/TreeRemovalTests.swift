import BundleDisk
import Glibc
import Testing

@Suite("Directory.removeTree") struct TreeRemovalTests {
    let sandbox: Sandbox
    var folder: Directory { sandbox.inside }

    init() throws { sandbox = try Sandbox() }

    @Test func `does not follow links`() throws {
        let tree = try folder.directory(creating: "tree")
        try tree.symbolicLink("folder", to: "../../outside")
        try tree.symbolicLink("file", to: "../../outside/secret")
        try tree.symbolicLink("absolute", to: sandbox.outside.path)
        try tree.symbolicLink("loop", to: "loop")
        try tree.symbolicLink("dangling", to: "nowhere")
        try folder.removeTree("tree")
        #expect(try folder.list() == [])

        try folder.symbolicLink("itself", to: "../outside")
        try folder.removeTree("itself")
        #expect(try folder.list() == [])
        try sandbox.requireOutsideUntouched()
    }

    @Test func `removes files, folders, pipes, deep trees and names that are not UTF-8`() throws {
        var level = try folder.directory(creating: "tree")
        for depth in 0..<100 {
            try level.write("file\(depth)", "x")
            level = try level.directory(creating: "d")
        }
        try #require(mkfifo("\(folder.path)/tree/pipe", 0o600) == 0)
        let odd: [[CChar]] = [[0x66, -1, 0], [-64, -81, 0], [0x0A, 0], [0x2D, 0x72, 0x66, 0]]
        for name in odd {
            let path = Array("\(folder.path)/tree/".utf8CString.dropLast()) + name
            try #require(close(open(path, O_WRONLY | O_CREAT, 0o600)) == 0)
        }
        #expect(try folder.directory("tree").names().contains([0x66, 0xFF]))
        #expect(try folder.directory("tree").names().count == 2 + 1 + odd.count)
        #expect(try Set(folder.directory("tree").list()) == ["file0", "d", "pipe", "\n", "-rf"])
        try folder.removeTree("tree")
        #expect(try folder.list() == [])
    }

    @Test func `does nothing if the tree does not exist`() throws {
        try folder.removeTree("missing")
        try folder.removeFile("missing")
        try folder.write("file", "x")
        try folder.removeTree("file")
        #expect(try folder.list() == [])
    }

    @Test func `removeFile rejects a folder`() throws {
        try folder.makeDirectory("below")
        #expect(code { try folder.removeFile("below") } == EISDIR)
    }

    @Test func `removes one tree from two threads at once`() async throws {
        for _ in 0..<20 {
            let tree = try folder.directory(creating: "tree")
            for number in 0..<40 {
                try tree.directory(creating: "\(number)").directory(creating: "below").write("file", "x")
            }
            try await withThrowingTaskGroup { group in
                for _ in 0..<2 { group.addTask { [folder] in try folder.removeTree("tree") } }
                try await group.waitForAll()
            }
            #expect(try folder.kind(of: "tree") == nil)
        }
    }
}
