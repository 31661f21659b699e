import Testing

@testable import BundleFetch

/// Uses internal access to pass the time.
@Suite struct TransferPaceTests {
    let start = SuspendingClock.Instant.now

    /// Adds bytes for each second, and returns the second in which the transfer became too slow.
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

    @Test func `reports a transfer as too slow after a gap of 30 seconds`() {
        #expect(failure(of: [1_000_000] + Array(repeating: 0, count: 29)) == nil)
        #expect(failure(of: [1_000_000] + Array(repeating: 0, count: 40)) == 31)
    }

    @Test func `reports a transfer below 1 KiB/s in the first minute`() {
        #expect(failure(of: Array(repeating: 1023, count: 59)) == nil)
        #expect(failure(of: Array(repeating: 1023, count: 100)) == 60)
        #expect(failure(of: Array(repeating: 1024, count: 1000)) == nil)
    }

    @Test func `reports a transfer that becomes too slow in a later minute`() throws {
        let second = try #require(
            failure(of: Array(repeating: 1_000_000, count: 100) + Array(repeating: 500, count: 100)))
        #expect((160...168).contains(second))
    }

    @Test func `accepts a pause if the minute's average is fast enough`() {
        let minute = Array(repeating: 0, count: 20) + Array(repeating: 4096, count: 20)
        #expect(failure(of: Array(repeating: minute, count: 10).flatMap { $0 }) == nil)
    }

    @Test func `schedules the next check at the end of the longest gap`() {
        var pace = TransferPace(options: FetchOptions(userAgent: "t"), start: start)
        pace.received(1, at: start.advanced(by: .seconds(5)))
        #expect(pace.nextCheck == start.advanced(by: .seconds(35)))
        let isTooSlow = pace.isTooSlow(at: pace.nextCheck)
        #expect(isTooSlow)
    }
}
