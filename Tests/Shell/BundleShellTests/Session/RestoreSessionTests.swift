import BundleFetch
import BundleCore
import BundleValues
import BundleTesting
import BundleShell
import Synchronization
import Testing

struct RestoreSessionTests {
    private static let now = Timestamp(clamping: 1_800_000_000)

    private static func moment(_ seconds: Int) -> Timestamp { Timestamp(clamping: now.secondsSinceEpoch + seconds) }

    private static func session(expiringIn seconds: Int?) throws -> UserSession {
        UserSession(
            token: try AccessToken(tokenFile: Array("s3cret".utf8)), since: moment(-3600),
            expires: seconds.map(moment))
    }

    private let errors = Errors()

    private final class Errors: Sendable {
        let list = Mutex<[String]>([])
        var count: Int { list.withLock { $0.count } }
    }

    private func restore(_ repository: InMemorySessionRepository) async -> SessionStatus {
        let errors = errors
        return await RestoreSession(
            repository,
            environment: Environment(now: { Self.now }, log: { line in errors.list.withLock { $0.append(line) } })
        ).execute()
    }

    @Test func `requires no session without a record`() async {
        let repository = InMemorySessionRepository()
        #expect(await restore(repository) == .notRequired)
        #expect(repository.changeCount == 0)
    }

    @Test func `a session without an end is valid`() async throws {
        let record = SessionRecord(access: .session(try Self.session(expiringIn: nil)), lock: nil)
        let repository = InMemorySessionRepository(record)
        #expect(await restore(repository) == .authenticated)
        #expect(repository.kept == record)
    }

    @Test func `a session is valid one second before its end`() async throws {
        let record = SessionRecord(access: .session(try Self.session(expiringIn: 1)), lock: nil)
        let repository = InMemorySessionRepository(record)
        #expect(await restore(repository) == .authenticated)
        #expect(repository.kept == record)
    }

    @Test(arguments: [0, -1, -3600]) func `removes a session from its end on`(seconds: Int) async throws {
        let repository = InMemorySessionRepository(
            SessionRecord(access: .session(try Self.session(expiringIn: seconds)), lock: nil))
        #expect(await restore(repository) == .unauthenticated(.ended(.expired)))
        #expect(repository.kept.access == .ended(SessionEnding(.expired, at: Self.now)))
        // The change is stored, and not repeated.
        #expect(await restore(repository) == .unauthenticated(.ended(.expired)))
        #expect(repository.changeCount == 1)
        #expect(errors.count == 0)
    }

    @Test(arguments: SessionEnding.EndingCause.allCases)
    func `an ended session leaves no user signed in`(cause: SessionEnding.EndingCause) async {
        let record = SessionRecord(access: .ended(SessionEnding(cause, at: Self.now)), lock: nil)
        let repository = InMemorySessionRepository(record)
        #expect(await restore(repository) == .unauthenticated(.ended(cause)))
        #expect(repository.kept == record)
    }

    @Test(arguments: SessionLock.allCases)
    func `a lock takes precedence over a session and outlasts it`(lock: SessionLock) async throws {
        for access in [
            SessionRecord.Access.open, .session(try Self.session(expiringIn: 60)),
            .session(try Self.session(expiringIn: -1)), .ended(SessionEnding(.signedOut, at: Self.now)),
        ] {
            let repository = InMemorySessionRepository(SessionRecord(access: access, lock: lock))
            #expect(await restore(repository) == .locked(lock))
            #expect(await restore(repository) == .locked(lock))
            #expect(repository.kept.lock == lock)
        }
    }

    @Test func `reports a failing repository and signs no user in`() async throws {
        let repository = InMemorySessionRepository(
            SessionRecord(access: .session(try Self.session(expiringIn: nil)), lock: nil))
        repository.fail(reading: true, writing: true)
        #expect(await restore(repository) == .unauthenticated(.unreadable))
        #expect(errors.count == 1)
    }

    @Test func `does not accept an expired session that cannot be removed`() async throws {
        let repository = InMemorySessionRepository(
            SessionRecord(access: .session(try Self.session(expiringIn: -1)), lock: nil))
        repository.fail(reading: false, writing: true)
        #expect(await restore(repository) == .unauthenticated(.ended(.expired)))
        #expect(errors.count == 1)
    }
}
