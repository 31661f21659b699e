import BundleCore
import BundleValues
import BundleDisk
import BundleFetch
import BundleSigning
import BundleTesting
import Synchronization
import Testing

@testable import BundleFormats
@testable import ArchiveSource

/// Downloads from a real server into a folder that the runs of a test share.
@Suite struct ArchiveDownloadTests {
    private static let content = noise(300_000)

    private final class Events: Sendable { let list = Mutex<[UpdateEvent]>([]) }

    private let temporary: TemporaryDirectory
    private let server: LoopbackServer
    private let events = Events()

    init() throws {
        temporary = try TemporaryDirectory.ofTests()
        server = try LoopbackServer()
    }

    private var folder: Directory { temporary.directory }

    private func serve(_ bytes: [UInt8] = content, tag: String? = "\"one\"", _ change: (inout Route) -> Void = { _ in })
    {
        server.set("/a", (tag.map { Route.resource(bytes, entityTag: $0) } ?? Route(bytes)).with(change))
    }

    private func run(_ change: (inout Manifest) -> Void = { _ in }) async throws -> VerifiedArchive {
        var manifest = Manifest(
            version: try SemanticVersion(parsing: "1.0.0"), url: "a", sha256: try SHA256Digest.of(Self.content),
            shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")))
        manifest.size = Self.content.count
        change(&manifest)
        let download = ArchiveDownload(
            manifest, at: try server.url("/a"), limits: ArchiveLimits(),
            fetcher: CurlFetcher(options: FetchOptions(userAgent: "tests")), into: folder,
            report: UpdateObserver { [events] event in events.list.withLock { $0.append(event) } })
        return try await download.run()
    }

    private func part() throws -> [UInt8]? {
        let name = try folder.list().first { $0.hasSuffix(".part") }
        return try name.flatMap { try folder.contents($0, maximumBytes: 1 << 20) }
    }

    /// Runs a download of which every attempt ends after 40,000 bytes.
    private func interrupt() async throws {
        serve { $0.pace = .cut(after: 40_000) }
        await #expect(throws: FetchError.self) { try await run() }
        #expect(try part() == Array(Self.content.prefix(200_000)))
    }

    @Test func `downloads the archive and reports its progress`() async throws {
        serve()
        let archive = try await run()
        #expect(archive.size == Self.content.count)
        #expect(archive.bytesDownloaded == Self.content.count)
        #expect(try archive.file.readAll(maximumBytes: 1 << 20) == Self.content)
        #expect(events.list.withLock { $0.first } == .downloading(bytes: 0, of: Self.content.count))
        #expect(events.list.withLock { $0.last } == .downloading(bytes: Self.content.count, of: Self.content.count))
    }

    @Test(arguments: [404, 500, 503]) func `makes one request if the server returns an error`(status: Int) async throws
    {
        server.set("/a", Route([], status: status).with { $0.headers = [("Retry-After", "30")] })
        await #expect(throws: FetchError.self) { try await run() }
        #expect(server.requests.count == 1)
        #expect(try folder.list().isEmpty)
    }

    @Test func `resumes in the next run and reports the existing bytes first`() async throws {
        try await interrupt()
        events.list.withLock { $0 = [] }
        serve()
        let archive = try await run()
        #expect(archive.bytesDownloaded == Self.content.count - 200_000)
        #expect(server.requests.last?["Range"] == "bytes=200000-")
        #expect(server.requests.last?["If-Range"] == nil)
        #expect(events.list.withLock { $0.first } == .downloading(bytes: 200_000, of: Self.content.count))
    }

    @Test(arguments: [404, 403, 500]) func `keeps the partial file while the server returns errors`(status: Int)
        async throws
    {
        try await interrupt()
        server.set("/a", Route([], status: status))
        await #expect(throws: FetchError.self) { try await run() }
        #expect(try part()?.count == 200_000)
    }

    @Test func `resumes at once up to five times while each attempt receives bytes`() async throws {
        try await interrupt()
        #expect(server.requests.map { $0["Range"] } == [nil] + (1...4).map { "bytes=\($0 * 40_000)-" })
        #expect(try part()?.count == 200_000)
    }

    @Test func `starts again and keeps the new part if the server ignores the range`() async throws {
        serve(tag: nil) { $0.pace = .cut(after: 40_000) }
        await #expect(throws: FetchError.self) { try await run() }
        #expect(server.requests.map { $0["Range"] } == [nil, "bytes=40000-"])
        #expect(try part() == Array(Self.content.prefix(40_000)))
    }

    /// The entity tags of several servers for the same archive.
    private enum Tags: CaseIterable {
        case ofEachEdge, weak, missing

        func fields(_ request: Int) -> [(name: String, value: String)] {
            switch self {
            case .ofEachEdge: [("ETag", "\"edge-\(request)\"")]
            case .weak: [("ETag", "W/\"one\"")]
            case .missing: []
            }
        }
    }

    @Test(arguments: Tags.allCases)
    private func `requests each byte once from a server that closes each connection after 3 of 8 MB`(tags: Tags)
        async throws
    {
        let block = noise(100_000)
        let content = Array(repeatElement(block, count: 80).joined())
        let count = Mutex(0)
        let edges = try LoopbackServer { request in
            let number = count.withLock { count in
                count += 1
                return count
            }
            let start = request["Range"].flatMap { Int($0.dropFirst("bytes=".count).dropLast()) } ?? 0
            // A server with another tag sends the whole archive.
            let isRest = start > 0 && request["If-Range"] == nil
            var route = Route(Array(content[(isRest ? start : 0)...]), status: isRest ? 206 : 200)
            route.headers = tags.fields(number)
            if isRest {
                route.headers.append(("Content-Range", "bytes \(start)-\(content.count - 1)/\(content.count)"))
            }
            route.pace = .cut(after: 3_000_000)
            return route
        }
        var manifest = Manifest(
            version: try SemanticVersion(parsing: "1.0.0"), url: "a", sha256: try SHA256Digest.of(content),
            shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")))
        manifest.size = content.count
        let download = ArchiveDownload(
            manifest, at: try edges.url("/a"), limits: ArchiveLimits(),
            fetcher: CurlFetcher(options: FetchOptions(userAgent: "tests")), into: folder, report: UpdateObserver())
        let archive = try await download.run()
        #expect(archive.bytesDownloaded == content.count)
        #expect(edges.requests.count == 3)
        edges.stop()
    }

    @Test func `needs no request for an archive that is already complete`() async throws {
        serve()
        _ = try await run()
        server.stop()
        #expect(try await run().bytesDownloaded == 0)
        #expect(server.requests.count == 1)
    }

    @Test func `downloads a complete but damaged archive again`() async throws {
        serve()
        _ = try await run()
        let name = try #require(try folder.list().first { $0.hasSuffix(".part") })
        try folder.replaceFile(name, with: Self.content.map { $0 ^ 1 })
        #expect(try await run().bytesDownloaded == Self.content.count)
        #expect(server.requests.map { $0["Range"] } == [nil, nil])
    }

    @Test func `starts again only once if the rest has other content`() async throws {
        try await interrupt()
        serve(Self.content.map { $0 ^ 1 })
        let failure = await #expect(throws: UpdateFailure.self) { try await run() }
        #expect(failure?.code == .digestMismatch)
        #expect(server.requests.suffix(2).map { $0["Range"] } == ["bytes=200000-", nil])
        #expect(try folder.list().isEmpty)
    }

    @Test func `starts again if the archive on the server is shorter than the part`() async throws {
        try await interrupt()
        serve(Array(Self.content.prefix(200_000)))
        let failure = await #expect(throws: UpdateFailure.self) { try await run() }
        #expect(failure?.code == .sizeMismatch)
        #expect(server.requests.suffix(2).map { $0["Range"] } == ["bytes=200000-", nil])
        #expect(try folder.list().isEmpty)
    }

    @Test func `accepts an archive with a Content-Encoding header`() async throws {
        serve { $0.headers.append(("Content-Encoding", "x-gzip")) }
        #expect(try await run().size == Self.content.count)
    }

    @Test func `removes files of other archives and keeps folders`() async throws {
        for name in ["other.part", "other.validator"] { try folder.replaceFile(name, with: [1]) }
        try folder.makeDirectory("interrupted")
        server.set("/a", Route([], status: 503))
        await #expect(throws: FetchError.self) { try await run() }
        #expect(try folder.list() == ["interrupted"])
    }

    @Test func `rejects an archive larger than its signed size`() async throws {
        serve(Self.content + [0])
        await #expect(throws: FetchError.tooLarge(limit: Self.content.count, try server.url("/a"))) { try await run() }
        #expect(try folder.list().isEmpty)
    }
}
