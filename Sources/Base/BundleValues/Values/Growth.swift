/// A wait that grows by a factor each time, up to a longest one.
package struct Growth: Sendable, Equatable {
    private let first: Duration
    private let factor: Double
    private let longest: Duration

    /// Waits from `first` to `longest`; neither is less than nothing.
    package init(from first: Duration, by factor: Double = 2, upTo longest: Duration) {
        self.first = max(first, .zero)
        self.factor = factor
        self.longest = max(longest, .zero)
    }

    /// The wait after it has grown so many times.
    package func after(_ times: Int) -> Duration {
        var wait = first
        var left = times
        while left > 0 && wait < longest && wait > .zero {
            wait = wait * factor
            left -= 1
        }
        return min(wait, longest)
    }
}
