/// Limits an average rate: each byte costs a token, and tokens arrive at the rate. The caller passes the time.
package struct TokenBucket: Sendable, Equatable {
    /// The lowest rate, in bytes per second. A lower one would exceed the timeouts of servers.
    package static let lowestRate = 8000

    /// The rate in bytes per second.
    package let rate: Int
    /// The tokens at `filledAt`; negative while more was received than the rate allows.
    private var tokens: Double
    private var filledAt: Duration

    /// The largest number of tokens: those of a quarter second. A pause does not allow a long burst after it.
    private var capacity: Double { Double(rate) / 4 }

    /// Creates a bucket without tokens at the reading `now` of a clock. A rate below `lowestRate` is raised to it.
    package init(rate: Int, now: Duration) {
        self.rate = max(rate, Self.lowestRate)
        tokens = 0
        filledAt = now
    }

    /// Uses a token for each byte that was received.
    package mutating func receive(_ count: Int, at now: Duration) {
        fill(at: now)
        tokens -= Double(count)
    }

    /// Returns the time until the next byte may be received; zero if that is now.
    package mutating func delay(at now: Duration) -> Duration {
        fill(at: now)
        return tokens >= 0 ? .zero : .seconds(-tokens / Double(rate))
    }

    private mutating func fill(at now: Duration) {
        // A clock that was set back adds no tokens.
        let elapsed = max(.zero, now - filledAt)
        tokens = min(capacity, tokens + elapsed / .seconds(1) * Double(rate))
        filledAt = now
    }
}
