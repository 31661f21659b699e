import BundleDisk
import BundleTesting
import BundleTransport
import BundleValues
import Testing

@testable import BundleFleet

@Suite("ReleaseCache")
struct ReleaseCacheTests {
    private let folder: TemporaryFolder
    /// The clock of the longest wait.
    private let clock = ManualClock()

    init() throws { folder = try TemporaryFolder() }

    private func cache(_ fetcher: any Fetcher) throws -> ReleaseCache {
        let upstream = try Upstream(try FetchURL(parsing: "http://feed.example/"), channels: [], fetcher: fetcher)
        return try ReleaseCache(
            of: upstream, in: Directory.open(folder.path), limit: 1000, environment: Environment(clock: clock))
    }

    @Test func `returns when the fetch of a file ends, before the longest wait`() async throws {
        let upstream = HeldUpstream()
        let cache = try cache(upstream)
        async let first = cache.fill("releases/v1.0.0/a")
        async let second = cache.fill("releases/v1.0.0/a")
        await clock.sleeper(until: .seconds(4), count: 2)
        upstream.gate.settle(.success(()))
        #expect(await [first, second] == [.missing, .missing])
    }

    @Test func `asks the client to come later if the fetch lasts longer`() async throws {
        let upstream = HeldUpstream()
        let cache = try cache(upstream)
        async let outcome = cache.fill("releases/v1.0.0/a")
        await clock.sleeper(until: .seconds(4))
        clock.advance(by: .seconds(4))
        #expect(await outcome == .later(seconds: 5))
        upstream.gate.settle(.success(()))
    }
}

/// A web server without files, which responds after its gate is open.
private final class HeldUpstream: Fetcher {
    let gate = Promised<Void>()

    func fetch<Sink: FetchSink & ~Copyable>(_ request: FetchRequest, into sink: inout Sink) async throws -> FetchHead {
        if !gate.isSettled { try await gate.value }
        throw FetchError.httpStatus(404, request.url, retryAfter: nil)
    }
}
