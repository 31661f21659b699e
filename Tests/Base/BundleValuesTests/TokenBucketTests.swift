import Testing

@testable import BundleValues

@Suite("TokenBucket")
struct TokenBucketTests {
    @Test(arguments: [8000, 256_000, 10_000_000]) func `keeps the average rate within one percent over a minute`(
        rate: Int
    ) {
        var bucket = TokenBucket(rate: rate, now: .zero)
        var received = 0
        for milliseconds in stride(from: 0, to: 60_000, by: 10) {
            while bucket.delay(at: .milliseconds(milliseconds)) == .zero {
                bucket.receive(1000, at: .milliseconds(milliseconds))
                received += 1000
            }
        }
        let wanted = rate * 60
        #expect(abs(received - wanted) <= wanted / 100 + 1000)
    }

    @Test func `waits as long as the received bytes take at the rate`() {
        var bucket = TokenBucket(rate: 10_000, now: .zero)
        bucket.receive(5000, at: .zero)
        #expect(bucket.delay(at: .zero) == .milliseconds(500))
        #expect(bucket.delay(at: .milliseconds(499)) == .milliseconds(1))
        #expect(bucket.delay(at: .milliseconds(500)) == .zero)
    }

    @Test func `allows a quarter second of bytes after a long pause`() {
        var bucket = TokenBucket(rate: 10_000, now: .zero)
        bucket.receive(2500 + 10_000, at: .seconds(3600))
        #expect(bucket.delay(at: .seconds(3600)) == .seconds(1))
    }

    @Test func `adds no tokens for a clock that was set back`() {
        var bucket = TokenBucket(rate: 10_000, now: .seconds(100))
        bucket.receive(10_000, at: .seconds(100))
        #expect(bucket.delay(at: .seconds(50)) == .seconds(1))
    }

    @Test func `raises a rate that servers would time out`() {
        #expect(TokenBucket(rate: 1, now: .zero).rate == TokenBucket.lowestRate)
    }
}
