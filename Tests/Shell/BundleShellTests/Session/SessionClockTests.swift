import BundleValues
import BundleShell
import Testing

struct SessionClockTests {
    private static let earliest = 1_800_000_000
    private static let fiveYears = 5 * 365 * 86_400

    @Test(
        arguments: [
            (-earliest, .behind), (-1, .behind), (0, .plausible), (fiveYears - 1, .plausible), (fiveYears, .ahead),
            (2 * fiveYears, .ahead),
        ] as [(Int, SessionClock.ClockDecision)])
    func `rejects a clock in the past or years ahead of the latest signed time`(
        offset: Int, verdict: SessionClock.ClockDecision
    ) {
        let earliest = Timestamp(clamping: Self.earliest)
        #expect(SessionClock.judge(Timestamp(clamping: Self.earliest + offset), earliest: earliest) == verdict)
    }
}
