import Testing

@testable import BundleCore
import BundleValues

struct PollRuleTests {
    private static let pace = PollPace(every: .seconds(900), jitter: .seconds(60))

    @Test(arguments: [(0.0, 6), (0.5, 30), (1, 54), (-3, 6), (7, 54), (.nan, 54)])
    func `starts the first check at 10 to 90 % of a minute, or of a shorter interval`(random: Double, seconds: Int) {
        let wait = PollRule().first(Self.pace, random: random)
        #expect(abs((wait - .seconds(seconds)).components.seconds) == 0)
        let short = PollRule().first(PollPace(every: .seconds(10)), random: random)
        #expect(abs((short * 6 - wait).components.seconds) == 0)
    }

    @Test(arguments: [(0.0, 900), (0.5, 930), (1, 960)])
    func `waits for the interval and a random part of the jitter after an answer`(random: Double, seconds: Int) {
        var rule = PollRule()
        #expect(rule.wait(after: .answered, Self.pace, random: random) == .seconds(seconds))
    }

    @Test func `doubles the wait after each interruption, from one minute to four intervals`() {
        var rule = PollRule()
        let waits = (0..<9).map { _ in rule.wait(after: .interrupted(asked: nil), Self.pace, random: 1) }
        #expect(waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600].map { Duration.seconds($0) })
        // The shortest wait is half of the longest.
        #expect(rule.wait(after: .interrupted(asked: nil), Self.pace, random: 0) == .seconds(1800))
        _ = rule.wait(after: .answered, Self.pace, random: 0)
        #expect(rule.wait(after: .interrupted(asked: nil), Self.pace, random: 0) == .seconds(30))
    }

    @Test func `uses an interval below a minute as the first wait after an interruption`() {
        var rule = PollRule()
        #expect(rule.wait(after: .interrupted(asked: nil), PollPace(every: .seconds(4)), random: 1) == .seconds(4))
    }

    @Test func `waits for one, two, then four intervals after refusals`() {
        var rule = PollRule()
        let waits = (0..<5).map { _ in rule.wait(after: .refused, Self.pace, random: 0) }
        #expect(waits == [900, 1800, 3600, 3600, 3600].map { Duration.seconds($0) })
        #expect(rule.wait(after: .refused, Self.pace, random: 1) == .seconds(3600))
    }

    @Test(arguments: [
        (900, 10, 30), (900, 30, 30), (900, 31, 31), (900, 3600, 3600), (900, 7200, 3600), (900, 999_999_999, 3600),
        (2, 5, 5), (2, 999_999_999, 8), (86_400, 999_999_999, 3600),
    ]) func `keeps the wait that a server asks for, up to four intervals and one hour`(
        interval: Int, asked: Int, seconds: Int
    ) {
        var rule = PollRule()
        let pace = PollPace(every: .seconds(interval), jitter: .zero)
        let wait = rule.wait(after: .interrupted(asked: .seconds(asked)), pace, random: 0)
        #expect(wait == .seconds(seconds))
    }

    @Test func `a long wait that a server asks for does not shorten the device's own wait`() {
        var rule = PollRule()
        let pace = PollPace(every: .seconds(7200), jitter: .zero)
        let waits = (0..<12).map { _ in
            rule.wait(after: .interrupted(asked: .seconds(999_999_999)), pace, random: 1)
        }
        #expect(waits.first == .seconds(3600) && waits.last == .seconds(4 * 7200))
    }

    @Test func `adds jitter to a wait that a server asks for`() {
        var (early, late) = (PollRule(), PollRule())
        #expect(early.wait(after: .interrupted(asked: .seconds(600)), Self.pace, random: 0) == .seconds(600))
        #expect(late.wait(after: .interrupted(asked: .seconds(600)), Self.pace, random: 1) == .seconds(660))
    }

    @Test(arguments: FailureCode.allCases) func `treats only temporary failures as interruptions`(code: FailureCode) {
        let outcome = PollRule.PollOutcome(UpdateFailure(code, subject: "", ""), asked: .seconds(1))
        let passing: [FailureCode] = [.networkUnavailable, .httpStatus, .versionMismatch, .storeLocked]
        let elsewhere: [FailureCode] = [.incompatibleShell, .versionBlocked]
        let expected: PollRule.PollOutcome = elsewhere.contains(code) ? .answered : .refused
        #expect(outcome == (passing.contains(code) ? .interrupted(asked: .seconds(1)) : expected))
    }

    @Test(arguments: [
        (0, 0, 10, 0), (10, 10, 10, 10), (60, 90, 60, 60), (.max, 5, 604_800, 5), (60, -1, 60, 0), (-5, 3, 10, 3),
    ]) func `clamps the pace of a feed to the allowed range`(interval: Int, jitter: Int, taken: Int, takenJitter: Int) {
        let pace = PollPace(asked: interval, jitter: jitter)
        #expect(pace == PollPace(every: .seconds(taken), jitter: .seconds(takenJitter)))
    }

    @Test func `uses a tenth of the interval as the default jitter`() {
        #expect(PollPace(every: .seconds(100)).jitter == .seconds(10))
    }
}
