import BundleValues
import BundleDisk
import BundleTransport
import BundleSigning
import BundleTestTraits
import BundleTesting
import Testing

@testable import MeteorSource

@Suite("InterruptedDownload", .ownThread) struct InterruptedDownloadTests {
    let content = noise(900_000)

    /// Returns a bench whose run completed `/small.js` and downloaded more than two pieces of `/large.js`.
    func stopped() async throws -> (DownloadBench, LoopbackServer, [AssetJob]) {
        let bench = try DownloadBench()
        let server = try LoopbackServer([
            "/small.js": .resource([1, 2, 3], entityTag: "\"s\""),
            "/large.js": .resource(content, entityTag: "\"l\"").with { $0.pace = .stall(after: 800_000) },
        ])
        let jobs = [
            try bench.job(server, "/small.js", [1, 2, 3]), try bench.job(server, "/large.js", content),
        ]
        let task = Task { try await bench.run(jobs) }
        while (bench.progress.values.last?.bytes ?? 0) < 500_000 { try await Task.sleep(for: .milliseconds(2)) }
        task.cancel()
        _ = try? await task.value
        return (bench, server, jobs)
    }

    /// Continues in another folder on the same file system.
    func continued(_ old: DownloadBench, _ server: LoopbackServer, _ jobs: [AssetJob]) async throws -> DownloadBench {
        let bench = try DownloadBench()
        server.set("/large.js", .resource(content, entityTag: "\"l\""))
        _ = try await bench.run(jobs, continuing: try old.interrupted())
        return bench
    }

    @Test func `returns a complete file with its evidence`() async throws {
        let (bench, _, jobs) = try await stopped()
        let taken = try #require(try bench.interrupted().verified(key: jobs[0].key))
        #expect(taken.receipt == DownloadReceipt(size: 3, sha256: try .of([1, 2, 3]), evidence: "\"s\""))
        let target = try Directory.open(bench.folder.path)
        let place = try #require(try FolderCache(taken.tree).folder(of: taken.file))
        try place.link(taken.file.name, to: target, as: "linked")
        #expect(try target.contents("linked", maximumBytes: 10) == [1, 2, 3])
        #expect(try bench.interrupted().verified(key: jobs[1].key) == nil)
        #expect(try bench.interrupted().verified(key: "/small.js other") == nil)
    }

    @Test(arguments: [[], [1, 2], [1, 2, 4], [1, 2, 3, 4]] as [[UInt8]])
    func `N-24: returns no truncated or changed file`(bytes: [UInt8]) async throws {
        let (bench, _, jobs) = try await stopped()
        try bench.tree.removeFile("small.js")
        try bytes.withUnsafeBytes { try bench.tree.createFile("small.js", with: $0) }
        #expect(try bench.interrupted().verified(key: jobs[0].key) == nil)
    }

    @Test func `returns no missing file and no link`() async throws {
        let (bench, _, jobs) = try await stopped()
        try bench.tree.removeFile("small.js")
        #expect(try bench.interrupted().verified(key: jobs[0].key) == nil)
        try Command.run(["ln", "-s", "/etc/passwd", bench.folder.file("tree/small.js")])
        #expect(try bench.interrupted().verified(key: jobs[0].key) == nil)
        try bench.attempt.removeTree("tree")
        #expect(try bench.interrupted().verified(key: jobs[0].key) == nil)
    }

    @Test func `resumes in another folder`() async throws {
        let (old, server, jobs) = try await stopped()
        let size = try #require(try old.interrupted().unfinished(key: jobs[1].key)).size
        let bench = try await continued(old, server, jobs)
        #expect(server.requests.last?["Range"] == "bytes=\(size)-")
        #expect(server.requests.last?["If-Range"] == "\"l\"")
        #expect(try bench.contents("large.js") == content)
        #expect(try bench.partNames() == [])
        #expect(try old.partNames() == [])
    }

    @Test func `resumes in the same folder`() async throws {
        let (bench, server, jobs) = try await stopped()
        server.set("/large.js", .resource(content, entityTag: "\"l\""))
        let result = try await bench.run(jobs, continuing: try bench.interrupted())
        #expect(result.files.map(\.receipt.size).sorted() == [3, content.count])
        #expect(result.bytesFromNetwork < content.count)
        #expect(try bench.contents("large.js") == content)
        #expect(try bench.interrupted().verified(key: jobs[1].key)?.receipt.size == content.count)
        #expect(try bench.interrupted().unfinished(key: jobs[1].key) == nil)
    }

    @Test func `N-24: starts a part again that another process changed`() async throws {
        let (old, server, jobs) = try await stopped()
        let parts = try old.attempt.directory("parts")
        let name = try #require(try old.partNames().first)
        try parts.removeFile(name)
        try noise(500_000, seed: 3).withUnsafeBytes { try parts.createFile(name, with: $0) }
        let bench = try DownloadBench()
        server.set("/large.js", .resource(content, entityTag: "\"l\""))
        let earlier = try old.interrupted()
        async let result = bench.run(jobs, continuing: earlier)
        await bench.clock.sleeper(until: .milliseconds(100))
        bench.clock.advance(by: .milliseconds(100))
        #expect(try await result.files.count == 2)
        #expect(try bench.contents("large.js") == content)
    }

    @Test(arguments: ["comp", "complete\t", "part\tx", "complete\tzz\t3\ta\t\tk"])
    func `ignores an incomplete last line`(torn: String) async throws {
        let (bench, server, jobs) = try await stopped()
        let journal = try bench.attempt.file(appending: "assets.journal")
        try journal.truncate(to: try journal.size())
        try Array(torn.utf8).withUnsafeBytes { try journal.write($0) }
        #expect(try bench.interrupted().verified(key: jobs[0].key) != nil)
        // A further run does not damage its lines.
        server.set("/large.js", .resource(content, entityTag: "\"l\""))
        _ = try await bench.run(jobs)
        #expect(try bench.interrupted().verified(key: jobs[1].key) != nil)
        #expect(try bench.interrupted().keys.sorted() == jobs.map(\.key).sorted())
    }

    @Test func `ignores the file of a last line that is cut in the middle`() async throws {
        let (bench, _, jobs) = try await stopped()
        let journal = try bench.attempt.file(appending: "assets.journal")
        let bytes = try journal.readAll(maximumBytes: 10_000)
        let start = try #require(bytes.firstRange(of: Array("complete".utf8))).lowerBound
        try journal.truncate(to: start + 80)
        #expect(try bench.interrupted().verified(key: jobs[0].key) == nil)
    }

    @Test func `is empty if nothing is left`() throws {
        let bench = try DownloadBench()
        #expect(try bench.interrupted().keys == [])
        #expect(try bench.interrupted().verified(key: "a") == nil)
        #expect(try bench.interrupted().unfinished(key: "a") == nil)
        try bench.attempt.makeDirectory("assets.journal")
        #expect(try bench.interrupted().keys == [])
    }
}

@Suite("JournalRecord") struct JournalRecordTests {
    @Test(arguments: ["/app.js 0123", "tab\tand\nline", "100% %41", "ü\u{7F}", ""])
    func `reads a line back as it was written`(text: String) throws {
        let receipt = DownloadReceipt(size: 7, sha256: try .of([1]), evidence: text)
        let asset = CompleteAsset(file: try BundlePath(parsing: "a b/%c.js"), receipt: receipt)
        let part = AssetPartRecord(name: "part-1", validator: "\"\(text.filter { $0.isASCII })\"")
        for record in [
            JournalRecord.complete(key: JournalText(text), asset), .part(key: JournalText(text), part),
        ] {
            #expect(record.line.hasSuffix("\n"))
            #expect(JournalRecord(parsing: record.line.dropLast()) == record)
            #expect(record.line.utf8.filter { $0 == UInt8(ascii: "\n") }.count == 1)
        }
        #expect(JournalText(text).plain == text)
    }

    @Test(arguments: ["../x", "/etc/passwd", "a/b", "..", ""])
    func `rejects a part whose name is a path`(name: String) {
        #expect(JournalRecord(parsing: "part\t\(name)\t\"v\"\tkey") == nil)
    }

    @Test(arguments: ["../x", "/etc/passwd", "a/../b", "..", ""])
    func `rejects a path outside the client`(path: String) throws {
        let digest = try SHA256Digest.of([1]).hex
        #expect(JournalRecord(parsing: "complete\t\(digest)\t1\ta/x\tsha1\tkey") != nil)
        #expect(JournalRecord(parsing: "complete\t\(digest)\t1\t\(path)\tsha1\tkey") == nil)
    }
}
