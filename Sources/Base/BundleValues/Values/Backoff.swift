/// An exponential backoff with a maximum delay.
package struct Backoff: Sendable, Equatable {
    private let first: Duration
    private let factor: Double
    private let longest: Duration

    /// Negative durations become zero.
    package init(from first: Duration, by factor: Double = 2, upTo longest: Duration) {
        self.first = max(first, .zero)
        self.factor = factor
        self.longest = max(longest, .zero)
    }

    /// Returns the delay after it was multiplied `times` times.
    package func delay(after times: Int) -> Duration {
        var wait = first
        var remaining = times
        while remaining > 0 && wait < longest && wait > .zero {
            wait = wait * factor
            remaining -= 1
        }
        return min(wait, longest)
    }
}
