/// How long to wait before connecting again: full jitter below a ceiling that grows, so that clients which lost one host at
/// the same moment do not all come back at the same moment.
public struct BackoffRule: Sendable, Equatable {
    /// The ceiling after the first loss.
    public var first = Duration.seconds(1)
    /// The highest ceiling.
    public var longest = Duration.seconds(300)
    /// How long a connection must have lasted to count as a success, after which the ceiling starts low again. One that is
    /// accepted and dropped at once does not.
    public var success = Duration.seconds(30)
    /// The longest wait that the other side may ask for.
    public var longestAsked = Duration.seconds(3600)

    /// The rule as it is recommended.
    public init() {}

    /// The ceiling after `losses` losses in a row before this one.
    func ceiling(losses: Int) -> Duration {
        var ceiling = max(first, .zero)
        var left = losses
        while left > 0 && ceiling < longest && ceiling > .zero {
            ceiling = ceiling * 2
            left -= 1
        }
        return min(ceiling, max(longest, .zero))
    }

    /// The wait; `draw` is random in 0...1, `asked` is what the other side asks for at least.
    func wait(losses: Int, draw: Double, asked: Duration? = nil) -> Duration {
        let share = draw.isFinite ? min(max(draw, 0), 1) : 1
        return min(max(asked ?? .zero, .zero), longestAsked) + ceiling(losses: losses) * share
    }
}
