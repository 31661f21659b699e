import BundleFetch
import BundleValues
import BundleShell
import Testing

struct SessionRejectionsTests {
    private static let start = 1_800_000_000

    /// Returns whether rejections at these seconds end a session, and how many count then.
    private static func outcome(_ seconds: [Int]) -> (ends: Bool, count: Int) {
        var all: SessionRejections?
        for second in seconds {
            switch SessionRejections.outcome(at: Timestamp(clamping: start + second), after: all) {
            case .sessionContinues(let more): all = more
            case .sessionEnds: return (true, (all?.count ?? 0) + 1)
            }
        }
        return (false, all?.count ?? 0)
    }

    @Test(
        arguments: [
            ([0], false, 1), ([0, 1, 2, 3], false, 4), ([0, 400], false, 2), ([0, 150, 299], false, 3),
            ([0, 150, 300], true, 3), ([0, 1, 2, 300], true, 4), ([0, 86_400, 172_800], true, 3),
            // The clock was set back, or more than a week passed without a rejection.
            ([0, 200, 100, 400], false, 2), ([0, 200, 691_200], false, 1),
        ] as [([Int], Bool, Int)])
    func `three rejections over five minutes end a session, and fewer or faster ones do not`(
        seconds: [Int], ends: Bool, count: Int
    ) {
        let outcome = Self.outcome(seconds)
        #expect(outcome.ends == ends)
        #expect(outcome.count == count)
    }

    @Test func `counts rejections per session and resets them at a login`() throws {
        func session(_ token: String) throws -> UserSession {
            UserSession(
                token: try AccessToken(tokenFile: Array(token.utf8)), since: Timestamp(clamping: Self.start),
                expires: nil)
        }
        let (old, new) = (try session("old"), try session("new"))
        var record = SessionRecord(access: .session(old), lock: nil)
        record.reject(new, at: Timestamp(clamping: Self.start))
        #expect(record.rejections == nil)
        record.reject(old, at: Timestamp(clamping: Self.start))
        #expect(record.rejections?.count == 1)
        record.accept(new)
        #expect(record.rejections?.count == 1)
        #expect(record.wantsRenewal(at: Timestamp(clamping: Self.start), lead: 60))
        record.signIn(new)
        #expect(record.rejections == nil)
        #expect(!record.wantsRenewal(at: Timestamp(clamping: Self.start), lead: 60))
    }
}
