import BundleValues
import BundleDisk
import BundleTesting
import Glibc
import Synchronization
import Testing

@testable import BundleCore

@Suite struct BundleOrganizerTests {
    private let folder: TemporaryFolder
    private let serving: Directory
    private let organizer: BundleOrganizer

    private static let page = Array("<html><head></head><body></body></html>".utf8)
    private static let shimmed = ShimInjector.inject(into: page)

    init() throws {
        folder = try TemporaryFolder()
        serving = try Directory.open(try folder.makeFolder("serving"))
        organizer = BundleOrganizer(serving: serving)
    }

    private func tree(_ files: [String: [UInt8]], _ name: String = "client") throws -> Directory {
        try Directory.open(try folder.writeTree(files, to: name))
    }

    private func inode(_ path: String) throws -> UInt {
        var status = stat()
        try #require(lstat(path, &status) == 0, "\(path)")
        return UInt(status.st_ino)
    }

    private static let client: [String: [UInt8]] = [
        "index.html": page, "app.js": [1], "a/b/c.css": [2], "a/index.html": page, "a/d.js": [], "z/y/x/w": [3],
    ]

    @Test func `SW-17: links every file and writes its own index page`() throws {
        let client = try tree(Self.client)
        let before = try TreeSnapshot(of: client.path)
        let root = try organizer.organize(AssetMap(tree: client), as: "archive-1.0.0")
        #expect(root.name == "archive-1.0.0")
        #expect(root.path == "\(serving.path)/archive-1.0.0")
        #expect(root.warnings == [])
        var wanted = Self.client
        wanted["index.html"] = Self.shimmed
        #expect(try TreeSnapshot(of: root.path).files == wanted)
        for path in Self.client.keys where path != "index.html" {
            #expect(try inode("\(root.path)/\(path)") == inode("\(client.path)/\(path)"))
        }
        #expect(try TreeSnapshot(of: client.path) == before)
        #expect(try inode("\(root.path)/index.html") != inode("\(client.path)/index.html"))
        #expect(try root.directory.directory("a/b").permissions().mode == 0o755)
        #expect(try root.directory.permissions().mode == 0o755)
        #expect(try root.directory.file("index.html").permissions() == 0o644)
        #expect(try serving.list() == ["archive-1.0.0"])
        #expect(try root.directory.contents("app.js", maximumBytes: 9) == [1])
    }

    @Test func `SW-26, N-03: links assets of several clients under all their URL paths`() throws {
        let parent = try tree(["index.html": [9], "p/shared.js": [1], "p/old.js": [2], "p/gone.js": [3]], "parent")
        let child = try tree(["page.html": Self.page, "app/new.js": [4], "app/app.js": [5]], "child")
        let map = try AssetMap([
            .init(url: "/", source: child, file: "page.html"),
            .init(url: "/x/app.js?hash=2", source: child, file: "app/app.js"),
            .init(url: "/__cordova/x/app.js", source: child, file: "app/app.js"),
            .init(url: "/deep/down/new.js", source: child, file: "app/new.js"),
            .init(url: "/shared.js?1", source: parent, file: "p/shared.js"),
            .init(url: "/__cordova/shared.js?1", source: parent, file: "p/shared.js"),
        ])
        let root = try organizer.organize(map, as: "meteor-2")
        #expect(
            try TreeSnapshot(of: root.path).files == [
                "index.html": Self.shimmed, "x/app.js": [5], "__cordova/x/app.js": [5], "deep/down/new.js": [4],
                "shared.js": [1], "__cordova/shared.js": [1],
            ])
        for name in ["shared.js", "__cordova/shared.js"] {
            #expect(try inode("\(root.path)/\(name)") == inode("\(parent.path)/p/shared.js"))
        }
        #expect(root.warnings == [])
    }

    @Test func `SW-23, SW-25: omits missing files with a warning, and source maps without one`() throws {
        let client = try tree(["index.html": Self.page, "here/x.js": [1]])
        try client.symbolicLink("link.js", to: "here/x.js")
        try client.symbolicLink("linked", to: "here")
        try #require(mkfifo("\(client.path)/pipe.js", 0o600) == 0)
        let files = [
            "index.html", "gone.js", "gone/a.js", "a.js.map", "gone/b.map", "here/x.js", "link.js", "linked/x.js",
            "pipe.js",
            "here/x.js/y", "here",
        ]
        let map = try AssetMap(
            files.enumerated().map { number, file in
                let url = number == 0 ? "/" : "/\(number)-\(file.replacing("/", with: "-"))"
                return AssetMap.PlacedAsset(url: url, source: client, file: file)
            })
        let root = try organizer.organize(map, as: "r")
        #expect(try TreeSnapshot(of: root.path).paths == ["5-here-x.js", "index.html"])
        #expect(
            root.warnings.map { String($0.prefix { $0 != " " }) } == [
                "1-gone.js", "2-gone-a.js", "6-link.js", "7-linked-x.js", "8-pipe.js", "9-here-x.js-y", "10-here",
            ])
        #expect(root.warnings[0].hasPrefix("1-gone.js is not served: cannot link "))
    }

    @Test(arguments: ["", "index.html ", "other.html", "folder", "link.html"])
    func `SW-24: creates no root without an index page`(file: String) throws {
        let client = try tree(["page.html": Self.page, "folder/x": []])
        try client.symbolicLink("link.html", to: "page.html")
        let own =
            [AssetMap.PlacedAsset(url: "/x", source: client, file: "page.html")]
            + (file.isEmpty ? [] : [.init(url: "/", source: client, file: file)])
        let map = try AssetMap(own)
        let error = try #require(throws: OrganizingError.self) { try organizer.organize(map, as: "r") }
        #expect(error == .indexMissing(path: file.isEmpty ? "index.html" : "\(client.path)/\(file)"))
        #expect(error.failure.code == .unsuitableBundle)
        #expect(try serving.list() == [])
    }

    @Test func `copies files from another file system`() throws {
        guard let elsewhere = try TemporaryFolder(elsewhereThan: serving.path) else {
            try Test.cancel("there is one file system only")
        }
        let big = [UInt8](repeating: 7, count: 600_000)
        let client = try Directory.open(
            try elsewhere.writeTree(["index.html": Self.page, "a/big": big, "a/empty": []], to: "c"))
        let root = try organizer.organize(AssetMap(tree: client), as: "r")
        #expect(try TreeSnapshot(of: root.path).files == ["index.html": Self.shimmed, "a/big": big, "a/empty": []])
        #expect(try root.directory.file("a/big").permissions() == 0o644)
        #expect(root.warnings == [])
    }

    @Test func `copies files that cannot be linked`() throws {
        let client = try tree(Self.client)
        let path = "\(client.path)/app.js"
        do {
            try Command.run(["chattr", "+i", path])
        } catch {
            try Test.cancel("no file can be made immutable here: \(error)")
        }
        defer { try? Command.run(["chattr", "-i", path]) }
        let root = try organizer.organize(AssetMap(tree: client), as: "r")
        #expect(try root.directory.contents("app.js", maximumBytes: 9) == [1])
        #expect(try inode("\(root.path)/app.js") != inode(path))
    }

    @Test func `creates no root if a file can be neither linked nor copied`() throws {
        let link = DiskError("link", at: "x", code: EXDEV)
        let error = OrganizingError.notPlaced(urlPath: "a", link: link, copy: DiskError("write", at: "y", code: ENOSPC))
        #expect(error.failure.code == .diskFull)
        #expect("\(error)".contains("\(link)"))

        // A regular file on another file system that can be opened but not read.
        let kernel = try Directory.open("/proc/self")
        let map = try AssetMap([
            .init(url: "/", source: try tree(Self.client), file: "index.html"),
            .init(url: "/memory", source: kernel, file: "mem"),
        ])
        let thrown = try #require(throws: OrganizingError.self) { try organizer.organize(map, as: "r") }
        guard case .notPlaced("memory", let refused, let unread) = thrown else { throw thrown }
        #expect(refused.kind == .crossesDevice)
        #expect(unread.code == EIO)
        #expect(try serving.list() == [])
    }

    @Test func `does not change an existing root`() throws {
        let client = try tree(Self.client)
        #expect(try organizer.existing("r") == nil)
        let first = try organizer.organize(AssetMap(tree: client), as: "r")
        try first.directory.write("marker", "kept")
        try first.directory.removeFile("app.js")
        let inodes = try inode(first.path)
        let other = try tree(["index.html": Self.page], "other")
        let second = try organizer.organize(AssetMap(tree: other), as: "r")
        #expect(try inode(second.path) == inodes)
        #expect(try second.directory.contents("marker", maximumBytes: 9) == Array("kept".utf8))
        #expect(second.warnings == [])
        #expect(try organizer.existing("r")?.path == second.path)
        #expect(try serving.list() == ["r"])
    }

    @Test func `SW-22: removes a root and keeps the client's files`() throws {
        let client = try tree(Self.client)
        _ = try organizer.organize(AssetMap(tree: client), as: "r")
        _ = try organizer.organize(AssetMap(tree: client), as: "s")
        try organizer.remove("r")
        try organizer.remove("r")
        #expect(try serving.list() == ["s"])
        #expect(try TreeSnapshot(of: client.path).files == Self.client)
    }

    @Test func `removes only what interrupted calls left`() throws {
        try folder.writeTree(["x": [1]], to: "serving/.new-1")
        try folder.writeTree(["a/x": [1]], to: "serving/.old-2")
        try folder.writeTree(["x": [1]], to: "serving/.other")
        let root = try organizer.organize(AssetMap(tree: tree(Self.client)), as: "r")
        try organizer.clear()
        #expect(try Set(serving.list()) == ["r", ".other"])
        #expect(try TreeSnapshot(of: root.path).files.count == Self.client.count)
    }

    @Test(arguments: [
        "", ".", "..", "a/b", "/a", ".new-1", ".hidden", "a\0b", "a\\b", "a\nb", String(repeating: "a", count: 256),
    ])
    func `refuses names that could be other paths`(name: String) throws {
        let map = try AssetMap(tree: tree(Self.client))
        let before = try TreeSnapshot(of: folder.path)
        #expect(throws: OrganizingError.illegalName(name)) { try organizer.organize(map, as: name) }
        #expect(throws: OrganizingError.illegalName(name)) { try organizer.existing(name) }
        #expect(throws: OrganizingError.illegalName(name)) { try organizer.remove(name) }
        #expect(OrganizingError.illegalName(name).failure.code == .unsuitableBundle)
        #expect(try TreeSnapshot(of: folder.path) == before)
    }

    @Test func `replaces symbolic links and files with a root`() throws {
        let client = try tree(Self.client)
        try serving.symbolicLink("r", to: client.path)
        try serving.write("s", "file")
        for name in ["r", "s"] {
            _ = try organizer.organize(AssetMap(tree: client), as: name)
            guard case .directory? = try serving.kind(of: name) else {
                Issue.record("\(name) is not a folder")
                continue
            }
        }
        #expect(try TreeSnapshot(of: client.path).files == Self.client)
        #expect(try Set(serving.list()) == ["r", "s"])
    }

    @Test func `a root has its final name only when it is complete`() async throws {
        var files = ["index.html": Self.page]
        for index in 0..<2000 { files["d\(index % 7)/f\(index)"] = [] }
        let map = try AssetMap(tree: tree(files))
        let isDone = Mutex(false)
        let path = serving.path
        async let seen: [Int] = Task.detached {
            var counts: [Int] = []
            while !isDone.withLock({ $0 }) {
                if File.exists("\(path)/r") { counts.append(try TreeSnapshot(of: "\(path)/r").files.count) }
            }
            return counts
        }.value
        let result = Result { try organizer.organize(map, as: "r") }
        isDone.withLock { $0 = true }
        let counts = try await seen
        _ = try result.get()
        #expect(counts.allSatisfy { $0 == 2001 })
    }
}

extension Directory {
    fileprivate func symbolicLink(_ name: String, to target: String) throws {
        try #require(symlink(target, "\(path)/\(name)") == 0)
    }

    fileprivate func write(_ name: String, _ text: String) throws {
        try Array(text.utf8).withUnsafeBytes { try createFile(name, with: $0) }
    }
}
