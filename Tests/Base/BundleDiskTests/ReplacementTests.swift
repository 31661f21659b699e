import BundleDisk
import Glibc
import Testing

@Suite("Directory.replaceFile") struct ReplacementTests {
    let sandbox: Sandbox
    var folder: Directory { sandbox.inside }

    init() throws { sandbox = try Sandbox() }

    @Test func `shows readers the whole old or new file`() async throws {
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
                    // Another test can use the second thread.
                    await Task.yield()
                }
            }
            // The reader ends only if it sees wrong bytes.
            try await group.next()
            group.cancelAll()
        }
        #expect(try folder.list() == ["file"])
    }

    /// Avoids `==`, which takes milliseconds per array in a debug build.
    private static func isOne(of versions: [[UInt8]], _ seen: [UInt8]) -> Bool {
        versions.contains { version in
            version.count == seen.count && memcmp(version, seen, seen.count) == 0
        }
    }

    @Test func `shows readers whole files with their mode when it does not sync`() async throws {
        let versions = (0..<3).map { [UInt8](repeating: UInt8(0x41 + $0), count: 30_000 + $0) }
        try folder.replaceFileWithoutSync("file", with: versions[0], mode: 0o644)
        let folder = folder
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for round in 0..<400 {
                    try folder.replaceFileWithoutSync("file", with: versions[round % 3], mode: 0o644)
                }
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
        // The file mode creation mask would remove some bits.
        try folder.replaceFileWithoutSync("file", with: [1], mode: 0o666)
        #expect(try folder.file("file").permissions() == 0o666)
    }

    @Test func `keeps the old file if the replacement fails`() throws {
        let below = try folder.directory(creating: "name")
        try below.write("old", "here")
        #expect(code { try folder.replaceFile("name", with: [1]) } == EISDIR)
        #expect(try below.text("old") == "here")
        #expect(try folder.list() == ["name"])
    }

    @Test func `removes the rest of an interrupted replacement and does not follow a link`() throws {
        try folder.replaceFile("file", with: Array("old".utf8))
        try folder.symbolicLink("file.new", to: "../outside/secret")
        try folder.replaceFile("file", with: Array("new".utf8), mode: 0o600)
        #expect(try folder.text("file") == "new")
        #expect(try folder.file("file").permissions() == 0o600)
        #expect(try folder.list() == ["file"])
        try sandbox.requireOutsideUntouched()
    }
}
