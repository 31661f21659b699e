import BundleValues
import Testing

struct GrowthTests {
    @Test(
        arguments: [(0, 1), (1, 2), (2, 4), (8, 256), (9, 300), (1_000_000, 300), (.max, 300), (-1, 1)]
            as [(Int, Double)])
    func `a wait doubles up to the longest`(times: Int, seconds: Double) {
        #expect(Growth(from: .seconds(1), upTo: .seconds(300)).after(times) == .seconds(seconds))
    }

    @Test func `another factor, and waits that cannot grow`() {
        #expect(Growth(from: .seconds(10), by: 1.5, upTo: .seconds(60)).after(2) == .seconds(22.5))
        #expect(Growth(from: .seconds(10), upTo: .seconds(5)).after(0) == .seconds(5))
        #expect(Growth(from: .zero, upTo: .seconds(5)).after(.max) == .zero)
        #expect(Growth(from: .seconds(-1), upTo: .seconds(-5)).after(3) == .zero)
    }
}
