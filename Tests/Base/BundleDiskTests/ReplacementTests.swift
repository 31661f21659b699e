import BundleDisk
import Glibc
import Testing

@Suite struct `Replacing a file` {
    let sandbox: Sandbox
    var folder: Directory { sandbox.inside }

    init() throws { sandbox = try Sandbox() }

    @Test func `shows its readers the old bytes or the new ones, whole`() async throws {
        let versions = (0..<3).map { [UInt8](repeating: UInt8(0x41 + $0), count: 300_000 + $0) }
        try folder.replaceFile("file", with: versions[0])
        let folder = folder
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for round in 0..<40 { try folder.replaceFile("file", with: versions[round % 3]) }
            }
            group.addTask {
                while !Task.isCancelled {
                    let seen = try #require(try folder.contents("file", maximumBytes: 1 << 20))
                    try #require(Self.isOne(of: versions, seen))
                    // Another reader may have the other thread that there is.
                    await Task.yield()
                }
            }
            // The reader ends only by what it should not see.
            try await group.next()
            group.cancelAll()
        }
        #expect(try folder.list() == ["file"])
    }

    /// `==` would look at the bytes one by one, which takes a debug build milliseconds.
    private static func isOne(of versions: [[UInt8]], _ seen: [UInt8]) -> Bool {
        versions.contains { version in
            version.count == seen.count && memcmp(version, seen, seen.count) == 0
        }
    }

    @Test func `briefly shows its readers whole files with their mode, too`() async throws {
        let versions = (0..<3).map { [UInt8](repeating: UInt8(0x41 + $0), count: 30_000 + $0) }
        try folder.replaceBriefly("file", with: versions[0], mode: 0o644)
        let folder = folder
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for round in 0..<400 { try folder.replaceBriefly("file", with: versions[round % 3], mode: 0o644) }
            }
            group.addTask {
                while !Task.isCancelled {
                    let seen = try #require(try folder.contents("file", maximumBytes: 1 << 20))
                    try #require(Self.isOne(of: versions, seen))
                    await Task.yield()
                }
            }
            try await group.next()
            group.cancelAll()
        }
        #expect(try folder.list() == ["file"])
        // The mask of the process would take some of it away.
        try folder.replaceBriefly("file", with: [1], mode: 0o666)
        #expect(try folder.file("file").permissions() == 0o666)
    }

    @Test func `that cannot be done leaves the old one`() throws {
        let below = try folder.directory(creating: "name")
        try below.write("old", "here")
        #expect(code { try folder.replaceFile("name", with: [1]) } == EISDIR)
        #expect(try below.text("old") == "here")
        #expect(try folder.list() == ["name"])
    }

    @Test func `clears what an interrupted one left, and follows no link there`() throws {
        try folder.replaceFile("file", with: Array("old".utf8))
        try folder.symbolicLink("file.new", to: "../outside/secret")
        try folder.replaceFile("file", with: Array("new".utf8), mode: 0o600)
        #expect(try folder.text("file") == "new")
        #expect(try folder.file("file").permissions() == 0o600)
        #expect(try folder.list() == ["file"])
        try sandbox.requireOutsideUntouched()
    }
}
