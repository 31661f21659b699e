import Testing

@testable import BundleCore
import BundleValues

/// When a device checks for updates.
struct PollRuleTests {
    private static let pace = PollPace(every: .seconds(900), jitter: .seconds(60))

    @Test(arguments: [(0.0, 6), (0.5, 30), (1, 54), (-3, 6), (7, 54), (.nan, 54)])
    func `the first check is at 10 to 90 % of a minute, or of a shorter interval`(draw: Double, seconds: Int) {
        let wait = PollRule().first(Self.pace, draw: draw)
        #expect(abs((wait - .seconds(seconds)).components.seconds) == 0)
        let short = PollRule().first(PollPace(every: .seconds(10)), draw: draw)
        #expect(abs((short * 6 - wait).components.seconds) == 0)
    }

    @Test(arguments: [(0.0, 900), (0.5, 930), (1, 960)])
    func `after an answer the next one is after the interval and a share of the jitter`(draw: Double, seconds: Int) {
        var rule = PollRule()
        #expect(rule.wait(after: .answered, Self.pace, draw: draw) == .seconds(seconds))
    }

    @Test func `interruptions wait a minute, then twice as long each time, up to four intervals`() {
        var rule = PollRule()
        let waits = (0..<9).map { _ in rule.wait(after: .interrupted(asked: nil), Self.pace, draw: 1) }
        #expect(waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600].map { Duration.seconds($0) })
        // Half of it at least.
        #expect(rule.wait(after: .interrupted(asked: nil), Self.pace, draw: 0) == .seconds(1800))
        _ = rule.wait(after: .answered, Self.pace, draw: 0)
        #expect(rule.wait(after: .interrupted(asked: nil), Self.pace, draw: 0) == .seconds(30))
    }

    @Test func `an interval below a minute is the first wait`() {
        var rule = PollRule()
        #expect(rule.wait(after: .interrupted(asked: nil), PollPace(every: .seconds(4)), draw: 1) == .seconds(4))
    }

    @Test func `what is refused waits one interval, two, then four`() {
        var rule = PollRule()
        let waits = (0..<5).map { _ in rule.wait(after: .refused, Self.pace, draw: 0) }
        #expect(waits == [900, 1800, 3600, 3600, 3600].map { Duration.seconds($0) })
        #expect(rule.wait(after: .refused, Self.pace, draw: 1) == .seconds(3600))
    }

    @Test(arguments: [
        (900, 10, 30), (900, 30, 30), (900, 31, 31), (900, 3600, 3600), (900, 7200, 3600), (900, 999_999_999, 3600),
        (2, 5, 5), (2, 999_999_999, 8), (86_400, 999_999_999, 3600),
    ]) func `a wait that the server asks for is kept, up to four intervals and an hour`(
        interval: Int, asked: Int, seconds: Int
    ) {
        var rule = PollRule()
        let pace = PollPace(every: .seconds(interval), jitter: .zero)
        let wait = rule.wait(after: .interrupted(asked: .seconds(asked)), pace, draw: 0)
        #expect(wait == .seconds(seconds))
    }

    @Test func `a server that asks for a long wait does not shorten the wait of a device`() {
        var rule = PollRule()
        let pace = PollPace(every: .seconds(7200), jitter: .zero)
        let waits = (0..<12).map { _ in
            rule.wait(after: .interrupted(asked: .seconds(999_999_999)), pace, draw: 1)
        }
        #expect(waits.first == .seconds(3600) && waits.last == .seconds(4 * 7200))
    }

    @Test func `those who are asked to come back at one time do not all come at once`() {
        var (early, late) = (PollRule(), PollRule())
        #expect(early.wait(after: .interrupted(asked: .seconds(600)), Self.pace, draw: 0) == .seconds(600))
        #expect(late.wait(after: .interrupted(asked: .seconds(600)), Self.pace, draw: 1) == .seconds(660))
    }

    @Test(arguments: FailureCode.allCases) func `what goes away by itself is asked again soon`(code: FailureCode) {
        let outcome = PollRule.Outcome(UpdateFailure(code, subject: "", ""), asked: .seconds(1))
        let passing: [FailureCode] = [.networkUnavailable, .httpStatus, .versionMismatch, .storeLocked]
        let elsewhere: [FailureCode] = [.incompatibleShell, .versionBlocked]
        let expected: PollRule.Outcome = elsewhere.contains(code) ? .answered : .refused
        #expect(outcome == (passing.contains(code) ? .interrupted(asked: .seconds(1)) : expected))
    }

    @Test(arguments: [
        (0, 0, 10, 0), (10, 10, 10, 10), (60, 90, 60, 60), (.max, 5, 604_800, 5), (60, -1, 60, 0), (-5, 3, 10, 3),
    ]) func `a feed asks within limits`(interval: Int, jitter: Int, taken: Int, takenJitter: Int) {
        let pace = PollPace(asked: interval, jitter: jitter)
        #expect(pace == PollPace(every: .seconds(taken), jitter: .seconds(takenJitter)))
    }

    @Test func `a tenth of the interval is the jitter where none is stated`() {
        #expect(PollPace(every: .seconds(100)).jitter == .seconds(10))
    }
}
