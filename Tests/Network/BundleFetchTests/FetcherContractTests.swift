import BundleValues
import BundleFetch
import BundleShell
import BundleTestTraits
import BundleTesting
import Testing

/// Runs the contract of fetchers with each fetcher.
@Suite(.ownThread) struct FetcherContractTests {
    private static let bytes = noise(200_000)
    private static let options = FetchOptions(userAgent: "tests")

    private let folder: TemporaryFolder
    private let server: LoopbackServer

    init() throws {
        folder = try TemporaryFolder()
        server = try LoopbackServer(["/a": .resource(Self.bytes, entityTag: "\"e\"", lastModified: "date")])
    }

    private func overHTTP() throws -> FetcherContract.Place {
        FetcherContract.Place(try server.url("/a"), holding: Self.bytes, missing: try server.url("/missing"))
    }

    private func session(_ sessions: InMemorySessionRepository) throws -> SessionFetcher {
        SessionFetcher(
            Self.options, feed: try server.url("/"), sessions: sessions,
            environment: Environment(log: { Issue.record("\($0)") }))
    }

    @Test func `satisfies the fetcher contract over HTTP`() async throws {
        let contract = FetcherContract(CurlFetcher(options: Self.options), at: try overHTTP())
        #expect(await contract.broken() == [])
    }

    @Test func `satisfies the fetcher contract for files`() async throws {
        let place = FetcherContract.Place(
            try FetchURL(filePath: Array(try folder.write(Self.bytes, to: "a").utf8)), holding: Self.bytes,
            missing: try FetchURL(filePath: Array(folder.file("missing").utf8)))
        #expect(await FetcherContract(CurlFetcher(options: Self.options), at: place).broken() == [])
    }

    @Test func `satisfies the fetcher contract with and without a session`() async throws {
        let sessions = InMemorySessionRepository()
        #expect(await FetcherContract(try session(sessions), at: try overHTTP()).broken() == [])
        let token = try AccessToken(tokenFile: Array("s3cret".utf8))
        _ = try sessions.change { $0.signIn(UserSession(token: token, since: .now, expires: nil)) }
        #expect(await FetcherContract(try session(sessions), at: try overHTTP()).broken() == [])
        #expect(server.requests.last?["Authorization"] == "Bearer s3cret")
    }

    @Test func `reports the violations of a wrong fetcher`() async throws {
        #expect(await FetcherContract(WrongFetcher(), at: try overHTTP()).broken().count == 9)
    }

    /// Returns wrong and too many bytes, and ignores errors of the sink.
    private struct WrongFetcher: Fetcher {
        func fetch<Sink: FetchSink & ~Copyable>(
            _ request: FetchRequest, into sink: inout Sink
        ) async throws -> FetchHead {
            let head = FetchHead(status: 206, effectiveURL: request.url, entityTag: "\"e\"", rangeStart: 3)
            try? [UInt8](repeating: 1, count: 3).withUnsafeBytes { try sink.receive($0) }
            try? sink.begin(head)
            return head
        }
    }
}
