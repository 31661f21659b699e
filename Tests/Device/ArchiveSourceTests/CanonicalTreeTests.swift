import BundleFormats
import ArchiveSource
import BundleValues
import BundleDisk
import BundleTesting
import BundleSigning
import Glibc
import Testing

@Suite struct CanonicalTreeTests {
    private let temporary: TemporaryDirectory
    private let app: Directory
    private var folder: Directory { temporary.directory }

    init() throws {
        temporary = try TemporaryDirectory.ofTests()
        try temporary.directory.makeDirectory("app")
        app = try temporary.directory.directory("app")
        try app.replaceFile("main.js", with: Array("let a = 1".utf8))
        try temporary.directory.replaceFile("index.html", with: TarItem.index.content)
    }

    private func rejection() throws -> ArchiveRejection? {
        do {
            _ = try CanonicalTree(folder)
            return nil
        } catch let rejection as ArchiveRejection {
            return rejection
        }
    }

    @Test func `computes the digest of the canonical tar`() throws {
        let tree = try CanonicalTree(folder)
        #expect(tree.entries.map(\.path.string) == ["app/main.js", "index.html"])
        let tar = TarOf.bytes([TarItem("app/main.js", Array("let a = 1".utf8)), .index])
        #expect(try tree.digest() == SHA256Digest.of(tar))
        #expect(tree.tarBytes == tar.count)
    }

    @Test(arguments: ["index.html", "/etc/passwd", "nowhere", "app"])
    func `rejects a folder with a symbolic link`(_ target: String) throws {
        try #require(symlink(target, "\(folder.path)/app/link") == 0)
        #expect(try rejection()?.rule == "type-symlink")
        #expect(try rejection()?.entry == "app/link")
    }

    @Test func `rejects a folder with a pipe`() throws {
        try #require(mkfifo("\(folder.path)/app/pipe", 0o644) == 0)
        #expect(try rejection()?.rule == "type-special")
        #expect(try rejection()?.entry == "app/pipe")
    }

    @Test(arguments: ["let a = 10", "let a = ", ""])
    func `rejects a file whose size changes during the read`(_ content: String) throws {
        let tree = try CanonicalTree(folder)
        try app.replaceFile("main.js", with: Array(content.utf8))
        let failure = #expect(throws: UpdateFailure.self) { try tree.digest() }
        #expect(failure?.code == .configInvalid)
        #expect(failure?.subject == "app/main.js")
    }

    @Test func `rejects a folder that gains or loses a file during the read`() throws {
        let tree = try CanonicalTree(folder)
        try app.replaceFile("late.js", with: [])
        let late = #expect(throws: UpdateFailure.self) { try tree.digest() }
        #expect(late?.code == .configInvalid && late?.subject == "app/late.js")
        for name in ["late.js", "main.js"] { try app.removeFile(name) }
        let gone = #expect(throws: UpdateFailure.self) { try tree.digest() }
        #expect(gone?.code == .configInvalid && gone?.subject == "app/main.js")
        #expect(gone?.message.contains("let the build finish") == true)
    }

    @Test(
        arguments: [
            ("*.map", ["app/main.js", "index.html"]), ("app/*", ["a.map", "index.html", "x.map"]),
            ("app/", ["a.map", "index.html", "x.map"]), ("app/**", ["a.map", "index.html", "x.map"]),
            ("./a.map", ["app/main.js", "app/main.js.map", "index.html", "x.map"]),
            ("/a.map", ["app/main.js", "app/main.js.map", "index.html", "x.map"]),
            ("?.map", ["app/main.js", "app/main.js.map", "index.html"]),
            ("app/*.j?", ["a.map", "app/main.js.map", "index.html", "x.map"]),
            ("*a*m*", ["app/main.js", "index.html", "x.map"]), ("main", nil), ("a", nil), ("*", []),
        ] as [(String, [String]?)])
    func `excludes files that a pattern matches`(pattern: String, left: [String]?) throws {
        for name in ["a.map", "x.map"] { try folder.replaceFile(name, with: []) }
        try app.replaceFile("main.js.map", with: [])
        let tree = try CanonicalTree(folder, excluding: [try #require(PathPattern(pattern))])
        let all = ["a.map", "app/main.js", "app/main.js.map", "index.html", "x.map"]
        #expect(tree.entries.map(\.path.string) == left ?? all)
        _ = try tree.digest()
    }
}
