import BundleValues
import BundleDisk
import BundleTransport
import BundleFetch
import BundleSigning
import BundleTesting
import Synchronization
import Testing

@testable import MeteorSource

/// Accepts only the bytes with one SHA-256.
final class DigestInspector: DownloadInspector {
    private let expected: SHA256Digest
    private var hasher: SHA256Hasher
    private var size = 0
    private var tag: String?

    init(_ content: [UInt8]) throws {
        expected = try .of(content)
        hasher = try SHA256Hasher()
    }

    func begin(_ head: FetchHead) { tag = head.entityTag }

    func update(_ bytes: UnsafeRawBufferPointer) throws {
        try hasher.update(bytes)
        size += bytes.count
    }

    func finish() throws -> DownloadReceipt {
        let digest = try hasher.finish()
        guard digest == expected else { throw WrongDigest() }
        return DownloadReceipt(size: size, sha256: digest, evidence: tag ?? "none")
    }
}

struct WrongDigest: Error {}

/// A folder with a tree, a stopped clock, and everything else that a download needs.
struct DownloadBench {
    let folder: TemporaryFolder
    let attempt: Directory
    let tree: Directory
    let clock = ManualClock()
    let progress = Record<DownloadProgress>()
    var fetcher: any Fetcher = CurlFetcher(options: .patient)
    var policy = DownloadPolicy()
    var requireRoom: @Sendable () throws -> Void = {}

    init(in path: String? = nil) throws {
        folder = try TemporaryFolder()
        attempt = try Directory.open(path ?? folder.path)
        tree = try attempt.directory(creating: "tree")
    }

    /// Returns a changed copy.
    func with(_ change: (inout DownloadBench) -> Void) -> DownloadBench {
        var changed = self
        change(&changed)
        return changed
    }

    func job(_ server: LoopbackServer, _ path: String, _ content: [UInt8], isOptional: Bool = false) throws -> AssetJob
    {
        AssetJob(
            url: try server.url(path), name: path,
            file: try BundlePath(parsing: path == "/" ? "index.html" : String(path.dropFirst())),
            key: "\(path) \(try SHA256Digest.of(content))", maximumBytes: 8 << 20, isOptional: isOptional
        ) { try DigestInspector(content) }
    }

    func run(_ jobs: [AssetJob], continuing earlier: InterruptedDownload? = nil) async throws -> DownloadedFiles {
        try await AssetDownloader(
            tree: tree, attempt: attempt, earlier: earlier, fetcher: fetcher, policy: policy,
            environment: Environment(clock: clock, random: { _ in 1 }), requireRoom: requireRoom,
            report: { [progress] in progress.add($0) }
        ).run(jobs)
    }

    /// Returns the files that the next attempt finds.
    func interrupted() throws -> InterruptedDownload { try InterruptedDownload(reading: attempt, tree: "tree") }

    func contents(_ path: String) throws -> [UInt8]? { try tree.contents(path, maximumBytes: 16 << 20) }

    func partNames() throws -> [String] { try attempt.directory("parts").list() }
}

/// Records the values that a callback receives.
final class Record<Value: Sendable>: Sendable {
    private let recorded = Mutex<[Value]>([])

    var values: [Value] { recorded.withLock { $0 } }

    func add(_ value: Value) { recorded.withLock { $0.append(value) } }
}

/// Redirects the first requests of a path, like an unreliable network.
struct Detour: Fetcher {
    let fetcher: any Fetcher
    let wrong: FetchURL
    let times: Int
    private let urls = Record<FetchURL>()

    init(_ fetcher: any Fetcher, to wrong: FetchURL, times: Int) {
        self.fetcher = fetcher
        self.wrong = wrong
        self.times = times
    }

    func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout Sink
    ) async throws -> FetchHead {
        urls.add(request.url)
        var request = request
        if urls.values.count <= times { request.url = wrong }
        return try await fetcher.fetch(request, into: &sink)
    }
}

extension FetchOptions {
    /// A gate can delay a response on a busy machine.
    static var patient: FetchOptions {
        var options = FetchOptions(userAgent: "tests")
        options.stallTimeout = .seconds(300)
        return options
    }
}

extension LoopbackServer {
    /// Returns after `count` requests, or when none has arrived for a long time.
    func hasRequests(_ count: Int) async {
        for _ in 0..<12_000 where requests.count < count { try? await Task.sleep(for: .milliseconds(5)) }
    }
}
