import Testing

@testable import BundlePlatform

/// Inside access: no public door lets a test tell the time.
@Suite struct `The pace of a transfer` {
    let start = SuspendingClock.Instant.now

    /// Feeds bytes per second for each second and says in which second the pace became too slow.
    func failure(of rates: [Int], _ change: (inout FetchOptions) -> Void = { _ in }) -> Int? {
        var options = FetchOptions(userAgent: "t")
        change(&options)
        var pace = TransferPace(options: options, start: start)
        for (second, rate) in rates.enumerated() {
            let now = start.advanced(by: .seconds(second + 1))
            if rate > 0 { pace.received(rate, at: now) }
            if pace.isTooSlow(at: now) { return second + 1 }
        }
        return nil
    }

    @Test func `is too slow after a gap of 30 seconds and not before`() {
        #expect(failure(of: [1_000_000] + Array(repeating: 0, count: 29)) == nil)
        #expect(failure(of: [1_000_000] + Array(repeating: 0, count: 40)) == 31)
    }

    @Test func `is too slow below 1 KiB a second over the first minute`() {
        #expect(failure(of: Array(repeating: 1023, count: 59)) == nil)
        #expect(failure(of: Array(repeating: 1023, count: 100)) == 60)
        #expect(failure(of: Array(repeating: 1024, count: 1000)) == nil)
    }

    @Test func `is too slow in any later minute, however fast it began`() throws {
        let second = try #require(
            failure(of: Array(repeating: 1_000_000, count: 100) + Array(repeating: 500, count: 100)))
        #expect((160...168).contains(second))
    }

    @Test func `may pause within a minute that is fast enough`() {
        let minute = Array(repeating: 0, count: 20) + Array(repeating: 4096, count: 20)
        #expect(failure(of: Array(repeating: minute, count: 10).flatMap { $0 }) == nil)
    }

    @Test func `is to be looked at again when a gap would be too long`() {
        var pace = TransferPace(options: FetchOptions(userAgent: "t"), start: start)
        pace.received(1, at: start.advanced(by: .seconds(5)))
        #expect(pace.nextCheck == start.advanced(by: .seconds(35)))
        let isTooSlow = pace.isTooSlow(at: pace.nextCheck)
        #expect(isTooSlow)
    }
}
