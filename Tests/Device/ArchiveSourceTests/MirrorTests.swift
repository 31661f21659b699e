import BundleCore
import BundleDisk
import BundleFetch
import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

@testable import BundleFormats
@testable import ArchiveSource

@Suite("MirrorPace") struct MirrorPaceTests {
    private static let megabyte = 1_000_000

    @Test(
        arguments: [
            // Elapsed, silence, received, missing: left?
            (5, 5, 0, 6 * megabyte, false), (59, 59, 0, 6 * megabyte, false), (60, 60, 0, 6 * megabyte, true),
            (60, 60, 0, nil, true),
            // 5 kB/s: 6 MB would take 20 minutes.
            (9, 0, 45_000, 6 * megabyte, false), (10, 0, 50_000, 6 * megabyte, true),
            // A fast mirror may send for an hour.
            (3600, 0, 900 * megabyte, 1000 * megabyte, false),
            // 100 kB/s: 6 MB cost 36 s, and 20 MB cost two minutes.
            (30, 0, 3 * megabyte, 6 * megabyte, false), (30, 0, 3 * megabyte, 20 * megabyte, true),
            // Fast at first, then silent.
            (9, 0, megabyte, 6 * megabyte, false), (65, 0, megabyte, 6 * megabyte, true),
        ] as [(Int, Int, Int, Int?, Bool)])
    func `leaves a mirror that costs a minute, or will`(
        elapsed: Int, silence: Int, received: Int, missing: Int?, isLeft: Bool
    ) {
        let pace = MirrorPace(MirrorLimits(), isUrgent: false, rate: nil)
        let left = pace.leaves(
            after: .seconds(elapsed), silence: .seconds(silence), received: received, missing: missing)
        #expect(left == isLeft)
    }

    @Test func `counts the cost of all mirrors together, and of an urgent release sooner`() {
        var pace = MirrorPace(MirrorLimits(), isUrgent: false, rate: nil)
        pace.spend(.seconds(50), received: 5 * Self.megabyte)
        #expect(pace.left == .seconds(30))
        #expect(pace.leaves(after: .seconds(30), silence: .seconds(30), received: 0, missing: 9))
        pace.spend(.seconds(99), received: 0)
        #expect(pace.left == .zero)
        #expect(MirrorPace(MirrorLimits(), isUrgent: true, rate: nil).left == .seconds(15))
    }

    @Test func `expects no more of a mirror than the limit on the device's own rate`() {
        let pace = MirrorPace(MirrorLimits(), isUrgent: false, rate: 8000)
        #expect(!pace.leaves(after: .seconds(600), silence: .zero, received: 4_800_000, missing: 6 * Self.megabyte))
    }
}

/// A device that downloads an archive from real servers, within scaled limits.
@Suite("Mirrors", .inTurn) struct MirrorTests {
    private static let content = noise(900_000)
    private static let path = "/releases/v1.0.0/a"

    private let temporary: TemporaryDirectory
    private let feed: LoopbackServer

    init() throws {
        temporary = try TemporaryDirectory.ofTests()
        feed = try LoopbackServer([Self.path: .resource(Self.content, entityTag: "\"one\"")])
    }

    private func mirror(_ pace: Route.Pace, status: Int = 200, _ bytes: [UInt8] = content) throws -> LoopbackServer {
        let route = Route.resource(bytes, entityTag: "\"one\"").with {
            $0.pace = pace
            $0.status = status
            if status == 503 { $0.headers = [("Retry-After", "999999999")] }
        }
        return try LoopbackServer([Self.path: route])
    }

    /// Downloads the archive from `servers`, and then from the feed.
    private func download(
        from servers: [LoopbackServer], isUrgent: Bool = false, now: String = "2026-11-26T00:00:00Z",
        limits change: (inout MirrorLimits) -> Void = { _ in }
    ) async throws {
        var manifest = Manifest(
            version: try SemanticVersion(parsing: "1.0.0"), url: "a", sha256: try SHA256Digest.of(Self.content),
            shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")))
        manifest.size = Self.content.count
        let fetcher = CurlFetcher(options: FetchOptions(userAgent: "tests"))
        let download = ArchiveDownload(
            manifest, at: try feed.url(Self.path), limits: ArchiveLimits(), fetcher: fetcher,
            into: temporary.directory, report: UpdateObserver())
        var limits = MirrorLimits()
        (limits.longest, limits.longestIfUrgent) = (.milliseconds(1200), .milliseconds(300))
        change(&limits)
        let time = try Timestamp(parsing: now)
        let admission = DownloadAdmission(
            gate: FetchGate(), terms: FetchTerms(FetchPolicy(), isUrgent: isUrgent),
            mirrors: Mirrors(of: .manifest(try feed.url("/manifest.json")), fetcher: fetcher, limits: limits),
            roots: try servers.map { try FetchPolicy.mirror("\(try $0.url("/"))") },
            environment: Environment(now: { time }))
        let archive = try await admission.run(download, load: .archive, at: try feed.url(Self.path))
        #expect(try archive.file.readAll(maximumBytes: 1 << 20) == Self.content)
        try download.remove()
    }

    @Test func `leaves a slow mirror early`() async throws {
        // 900 kB would take 90 seconds.
        let slow = try mirror(.drip(bytes: 1000, everyMilliseconds: 100))
        try await download(from: [slow]) { $0.longest = .seconds(12) }
        #expect(slow.requests.count == 1)
        #expect(!feed.requests.isEmpty)
    }

    @Test func `continues on the feed what a mirror sent before it became silent`() async throws {
        let silent = try mirror(.stall(after: 600_000))
        try await download(from: [silent])
        #expect(feed.requests.first?["Range"] != nil)
    }

    @Test(arguments: [false, true]) func `does not ask further mirrors when the time is over`(isUrgent: Bool)
        async throws
    {
        let silent = try (1...3).map { _ in try mirror(.stall(after: 0)) }
        try await download(from: silent, isUrgent: isUrgent)
        #expect(silent.map(\.requests.count) == [1, 0, 0])
        #expect(feed.requests.count == 1)
    }

    @Test func `does not wait as long as a mirror asks`() async throws {
        let (busy, good) = (try mirror(.full, status: 503, []), try mirror(.full))
        try await download(from: [busy, good]) { $0.longest = .seconds(60) }
        #expect(busy.requests.count == 1)
        #expect(good.requests.count == 1)
        #expect(feed.requests.isEmpty)
    }

    @Test func `leaves out a mirror that sent other bytes for a day, also in later runs`() async throws {
        let liar = try mirror(.full, Self.content.map { $0 ^ 1 })
        try await download(from: [liar])
        try await download(from: [liar], now: "2026-11-26T23:59:59Z")
        #expect(liar.requests.count == 1)
        try await download(from: [liar], now: "2026-11-27T00:00:00Z")
        #expect(liar.requests.count == 2)
        #expect(feed.requests.count == 3)
    }

    @Test func `asks a mirror again in the next run after it was silent`() async throws {
        let silent = try mirror(.stall(after: 0))
        for _ in 0..<2 { try await download(from: [silent]) }
        #expect(silent.requests.count == 2)
    }
}
