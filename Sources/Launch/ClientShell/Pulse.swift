/// Notices that the whole process stood still, for a stop signal, a paused machine or heavy swapping: its own timer is late then.
package struct Pulse: Sendable {
    /// Timers of a busy machine are late by less.
    private static let tolerance = Duration.seconds(2)

    private let pause: Duration
    private var last: Duration

    /// A pulse that beats every `pause` from the clock's reading `now` on.
    package init(every pause: Duration, from now: Duration) { (self.pause, last) = (pause, now) }

    /// Takes in the beat at `now`. Returns for how long the process stood still before it, nil for a beat in time.
    package mutating func beat(at now: Duration) -> Duration? {
        let late = now - last - pause
        last = now
        return late > Self.tolerance ? late : nil
    }
}
