import BundleValues

/// How long to wait before connecting again: a random share of a ceiling that grows, so that clients which lost one host at
/// the same moment do not all come back at the same moment.
package struct BackoffRule: Sendable, Equatable {
    /// The ceiling after the first loss.
    package var first = Duration.seconds(1)
    /// How much the ceiling grows with each further loss.
    package var factor = 2.0
    /// The highest ceiling.
    package var longest = Duration.seconds(300)
    /// The share of the ceiling that is waited: full jitter.
    package var spread = 0.0...1.0
    /// So many losses in a row are followed by `soon` only.
    package var soonLosses = 0
    /// The wait after the first losses.
    package var soon = Duration.milliseconds(10)
    /// How long a connection must have lasted to count as a success, after which the ceiling starts low again. One that is
    /// accepted and dropped at once does not.
    package var success = Duration.seconds(30)
    /// The longest wait that the other side may ask for.
    package var longestAsked = Duration.seconds(3600)

    /// The rule as it is recommended.
    package init() {}

    /// The wait in whole milliseconds after `losses` losses in a row before this one; `asked` is what the other side asks for at
    /// least. `random` draws from a range.
    package func wait(
        losses: Int, asked: Duration? = nil, _ random: (ClosedRange<Double>) -> Double
    ) -> Duration {
        let least = min(max(asked ?? .zero, .zero), longestAsked)
        if losses < soonLosses { return least + soon }
        let draw = random(spread)
        let share =
            draw.isFinite ? min(max(draw, spread.lowerBound), spread.upperBound) : spread.upperBound
        let wait = Growth(from: first, by: factor, upTo: longest).after(losses) * share
        return least + .milliseconds(Int((wait / .milliseconds(1)).rounded()))
    }
}
