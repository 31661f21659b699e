import BundleValues
import Testing

@Suite("BackoffRule") struct BackoffTests {
    @Test(
        arguments: [(0, 1), (1, 2), (2, 4), (8, 256), (9, 300), (1_000_000, 300), (.max, 300), (-1, 1)]
            as [(Int, Double)])
    func `doubles the delay up to the maximum`(times: Int, seconds: Double) {
        #expect(Backoff(from: .seconds(1), upTo: .seconds(300)).delay(after: times) == .seconds(seconds))
    }

    @Test func `multiplies by any factor and keeps delays that cannot grow`() {
        #expect(Backoff(from: .seconds(10), by: 1.5, upTo: .seconds(60)).delay(after: 2) == .seconds(22.5))
        #expect(Backoff(from: .seconds(10), upTo: .seconds(5)).delay(after: 0) == .seconds(5))
        #expect(Backoff(from: .zero, upTo: .seconds(5)).delay(after: .max) == .zero)
        #expect(Backoff(from: .seconds(-1), upTo: .seconds(-5)).delay(after: 3) == .zero)
    }
}
