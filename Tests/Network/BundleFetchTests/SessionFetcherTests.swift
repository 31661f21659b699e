import BundleValues
import BundleFetch
import BundleShell
import BundleTestTraits
import BundleTesting
import Synchronization
import Testing

/// The requests with a session's token, and the effect of a 401 on the session.
@Suite(.ownThread) struct SessionFetcherTests {
    private static let now = Timestamp(clamping: 1_800_000_000)

    private let server: LoopbackServer
    private let errors = Errors()

    private final class Errors: Sendable {
        let texts = Mutex<[String]>([])
        var all: [String] { texts.withLock { $0 } }
    }

    init() throws { server = try LoopbackServer(["/a": Route([7])]) }

    private static func session(_ token: String = "s3cret", expiringIn seconds: Int? = nil) throws -> UserSession {
        UserSession(
            token: try AccessToken(tokenFile: Array(token.utf8)), since: now,
            expires: seconds.map { Timestamp(clamping: now.secondsSinceEpoch + $0) })
    }

    private static func repository(_ session: UserSession) -> InMemorySessionRepository {
        InMemorySessionRepository(SessionRecord(access: .session(session), lock: nil))
    }

    private func fetcher(
        _ sessions: any SessionRepository, feed: String? = nil, at time: Timestamp = now,
        options: FetchOptions = FetchOptions(userAgent: "t")
    ) throws -> SessionFetcher {
        let errors = errors
        return SessionFetcher(
            options, feed: try feed.map { try FetchURL(parsing: $0) } ?? server.url("/a"),
            sessions: sessions,
            environment: Environment(now: { time }, log: { line in errors.texts.withLock { $0.append(line) } }))
    }

    private var shown: [String?] { server.requests.map { $0["Authorization"] } }

    @Test func `sends the token of the current session`() async throws {
        let sessions = InMemorySessionRepository()
        let fetcher = try fetcher(sessions)
        let url = try server.url("/a")
        let (one, two) = (try Self.session("one"), try Self.session("two"))
        #expect(await Fetched(fetcher, url).sink.bytes == [7])
        try sessions.change { $0.signIn(one) }
        _ = await Fetched(fetcher, url)
        try sessions.change { $0.signIn(two) }
        _ = await Fetched(fetcher, url)
        try sessions.change { $0.signOut(at: Self.now) }
        _ = await Fetched(fetcher, url)
        #expect(shown == [nil, "Bearer one", "Bearer two", nil])
        #expect(errors.all == [])
    }

    @Test func `sends the token until the session expires`() async throws {
        for (seconds, header) in [(1, "Bearer s3cret"), (0, nil), (-1, nil)] as [(Int, String?)] {
            let sessions = Self.repository(try Self.session(expiringIn: seconds))
            _ = await Fetched(try fetcher(sessions), try server.url("/a"))
            #expect(shown.last == .some(header))
        }
    }

    @Test func `sends the token on a locked device`() async throws {
        let sessions = InMemorySessionRepository(
            SessionRecord(access: .session(try Self.session()), lock: .byOperator))
        _ = await Fetched(try fetcher(sessions), try server.url("/a"))
        #expect(shown == ["Bearer s3cret"])
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func `does not send the token to another port`(status: Int) async throws {
        let other = try LoopbackServer(["/b": Route([8])])
        server.set("/away", .redirect(to: try other.url("/b").description, status: status))
        let fetcher = try fetcher(Self.repository(try Self.session()))
        #expect(await Fetched(fetcher, try server.url("/away")).sink.bytes == [8])
        #expect(await Fetched(fetcher, try other.url("/b")).sink.bytes == [8])
        #expect(shown == ["Bearer s3cret"])
        #expect(other.requests.map { $0["Authorization"] } == [nil, nil])
    }

    @Test func `does not send the token to another name of the machine`() async throws {
        let fetcher = try fetcher(Self.repository(try Self.session()), feed: "http://localhost:\(server.port)/a")
        _ = await Fetched(fetcher, try server.url("/a"))
        #expect(shown == [nil])
    }

    @Test func `sends the token of an https feed over TLS only`() async throws {
        let plain = try LoopbackServer(["/b": Route([8])])
        let secure = try TLSServer(redirect: try plain.url("/b").description, serving: TemporaryFolder.usualParent)
        var options = FetchOptions(userAgent: "t")
        options.caFile = secure.caFile
        // The feed uses TLS. http on another port is another origin, and the redirect is refused.
        let fetcher = try fetcher(
            Self.repository(try Self.session()), feed: try secure.url("/").description, options: options)
        #expect(await Fetched(fetcher, try secure.url("/away")).error is FetchError)
        _ = await Fetched(fetcher, try plain.url("/b"))
        #expect(plain.requests.map { $0["Authorization"] } == [nil])
    }

    @Test func `rejects an unencrypted feed on a network`() async throws {
        let fetcher = try fetcher(Self.repository(try Self.session()), feed: "http://192.0.2.1/a")
        let error = await Fetched(fetcher, try FetchURL(parsing: "http://192.0.2.1/a")).error as? UpdateFailure
        #expect(error?.code == .configInvalid)
        #expect(error?.message.contains("s3cret") == false)
    }

    private static func later(_ seconds: Int) -> Timestamp { Timestamp(clamping: now.secondsSinceEpoch + seconds) }

    @Test func `ends a session after 401 responses over five minutes`() async throws {
        server.set("/a", Route([], status: 401))
        let sessions = Self.repository(try Self.session())
        for seconds in [0, 1, 299] {
            let fetched = await Fetched(try fetcher(sessions, at: Self.later(seconds)), try server.url("/a"))
            let error = try #require(fetched.error as? UpdateFailure)
            #expect(error.code == .httpStatus)
            #expect(error.subject == (try server.url("/a").display))
            #expect(error.message.contains("refuses the token") && error.message.contains("Log in again"))
            #expect(!error.message.contains("s3cret"))
            #expect(sessions.kept.session != nil)
        }
        let last = await Fetched(try fetcher(sessions, at: Self.later(300)), try server.url("/a"))
        #expect((last.error as? UpdateFailure)?.message.contains("the session is over") == true)
        #expect(sessions.kept.access == .ended(SessionEnding(.rejected, at: Self.later(300))))
        _ = await Fetched(try fetcher(sessions), try server.url("/a"))
        #expect(shown == Array(repeating: "Bearer s3cret", count: 4) + [nil])
    }

    @Test func `keeps a session if a response between 401s accepts it`() async throws {
        let sessions = Self.repository(try Self.session())
        for (seconds, status) in [(0, 401), (200, 401), (290, 200), (310, 401), (400, 401)] {
            server.set("/a", Route([7], status: status))
            _ = await Fetched(try fetcher(sessions, at: Self.later(seconds)), try server.url("/a"))
        }
        #expect(sessions.kept.session != nil)
        #expect(sessions.kept.rejections?.count == 2)
    }

    @Test func `keeps a session after 401 responses to other files`() async throws {
        server.set("/deltas.json", Route([], status: 401))
        let sessions = Self.repository(try Self.session())
        for seconds in [0, 200, 400, 600] {
            let fetched = await Fetched(try fetcher(sessions, at: Self.later(seconds)), try server.url("/deltas.json"))
            #expect(fetched.fetchError == .httpStatus(401, try server.url("/deltas.json"), retryAfter: nil))
        }
        #expect(sessions.kept.rejections == nil)
        #expect(sessions.kept.session != nil)
    }

    @Test(arguments: [400, 403, 404, 407, 500]) func `keeps a session after other error statuses`(status: Int)
        async throws
    {
        server.set("/a", Route([], status: status))
        let sessions = Self.repository(try Self.session())
        let fetched = await Fetched(try fetcher(sessions), try server.url("/a"))
        #expect(fetched.fetchError == .httpStatus(status, try server.url("/a"), retryAfter: nil))
        #expect(sessions.kept.session != nil)
    }

    @Test func `keeps a session after a 401 of another origin`() async throws {
        let other = try LoopbackServer(["/b": Route([], status: 401)])
        server.set("/away", .redirect(to: try other.url("/b").description))
        let sessions = Self.repository(try Self.session())
        let fetched = await Fetched(try fetcher(sessions), try server.url("/away"))
        #expect(fetched.fetchError == .httpStatus(401, try other.url("/b"), retryAfter: nil))
        #expect(sessions.kept.session != nil)
    }

    @Test func `keeps a new session after a late 401 for the old one`() async throws {
        let gate = try Gate()
        server.set("/a", Route([], status: 401).with { $0.gate = gate })
        let sessions = Self.repository(try Self.session("old"))
        let fetcher = try fetcher(sessions)
        let url = try server.url("/a")
        let fetching = Task { await Fetched(fetcher, url).error }
        while server.requests.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
        let new = try Self.session("new")
        try sessions.change { $0.signIn(new) }
        gate.open()
        #expect(await fetching.value is UpdateFailure)
        #expect(sessions.kept.session == new)
    }

    @Test func `fetches without a token and reports unreadable sessions`() async throws {
        let sessions = Self.repository(try Self.session())
        sessions.fail(reading: true, writing: true)
        #expect(await Fetched(try fetcher(sessions), try server.url("/a")).sink.bytes == [7])
        #expect(shown == [nil])
        #expect(errors.all.count == 1)
    }

    @Test func `reports a 401 if the session cannot be changed`() async throws {
        server.set("/a", Route([], status: 401))
        let sessions = Self.repository(try Self.session())
        sessions.fail(reading: false, writing: true)
        let error = await Fetched(try fetcher(sessions), try server.url("/a")).error as? UpdateFailure
        #expect(error?.message.contains("Log in again") == true)
        #expect(errors.all.count == 1)
    }
}
