import BundleTransport
import Testing

@testable import MeteorSource

@Suite("DDPTimers") struct DDPTimersTests {
    @Test(
        arguments: [
            (0, 0.01...0.01), (1, 0.01...0.01), (2, 3.63...6.05), (3, 7.986...13.31), (4, 17.5692...29.282),
            (7, 187.07...311.8), (8, 225...375), (9, 225...375), (1_000_000, 225...375),
        ] as [(Int, ClosedRange<Double>)])
    func `increases the waits before a reconnection`(
        losses: Int, seconds: ClosedRange<Double>
    ) {
        check(DDPTimers.reconnect, losses, seconds)
    }

    @Test(
        arguments: [(1, 49.5...82.5), (2, 108.9...181.5), (3, 225...375), (99, 225...375)]
            as [(Int, ClosedRange<Double>)])
    func `increases the waits before another subscription`(
        refusals: Int, seconds: ClosedRange<Double>
    ) {
        check(DDPTimers.resubscribe, refusals, seconds)
    }

    private func check(_ rule: BackoffRule, _ losses: Int, _ seconds: ClosedRange<Double>) {
        #expect(
            abs(rule.wait(losses: losses) { $0.lowerBound } / .seconds(1) - seconds.lowerBound) < 0.01)
        #expect(
            abs(rule.wait(losses: losses) { $0.upperBound } / .seconds(1) - seconds.upperBound) < 0.01)
    }
}
