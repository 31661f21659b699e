/// Detects that the whole process was suspended by a stop signal, a paused machine or heavy swapping, because its timer fires
/// late.
package struct StallDetector: Sendable {
    /// The largest delay of a timer on a busy machine.
    private static let tolerance = Duration.seconds(2)

    private let interval: Duration
    private var last: Duration

    /// Expects a call of `tick` every `interval` from the clock's reading `now` on.
    package init(every interval: Duration, from now: Duration) { (self.interval, last) = (interval, now) }

    /// Returns how long the process was suspended before `now`; nil if the timer fired in time.
    package mutating func tick(at now: Duration) -> Duration? {
        let late = now - last - interval
        last = now
        return late > Self.tolerance ? late : nil
    }
}
