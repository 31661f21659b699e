/// Decides when a device sends its next message to a roster. Times are readings of a monotonic clock.
struct RosterPace: Sendable, Equatable {
    /// The shortest time between two messages after checks.
    static let checkPause = Duration.seconds(300)
    /// The shortest time between two messages after other events, so that an event is sent within 10 seconds.
    static let eventPause = Duration.seconds(5)

    private let interval: Duration
    private var sent: Duration?
    private var failures = 0
    private var notBefore = Duration.zero
    /// The earliest times at which an event and a check may be sent; nil if there was none since the last message.
    private var event: Duration?
    private var check: Duration?

    /// Plans messages at least every `interval`. The first one follows the first check or event, or `delay` if there is none.
    init(every interval: Duration, first delay: Duration) {
        self.interval = interval
        check = delay
    }

    /// The longest time between two messages.
    static func interval(ofChecks interval: Duration) -> Duration { max(checkPause, interval) }

    /// Records the end of a check at `now`.
    mutating func noteCheck(at now: Duration) { check = min(check ?? now, now) }

    /// Records another event at `now`, which is sent after `delay`, a random part of `eventPause`.
    mutating func noteEvent(at now: Duration, delay: Duration) { event = min(event ?? now + delay, now + delay) }

    /// The time of the next message.
    var next: Duration {
        let last = sent ?? .zero
        let due =
            [
                event.map { max($0, sent.map { $0 + Self.eventPause } ?? .zero) },
                check.map { max($0, sent.map { $0 + Self.checkPause } ?? .zero) }, last + interval,
            ].compactMap(\.self).min() ?? last + interval
        return max(due, notBefore)
    }

    /// Records that a message begins at `now`. It includes the events and checks so far; later ones need another message.
    mutating func begin(at now: Duration) {
        sent = now
        (event, check) = (nil, nil)
    }

    /// Records the end of the attempt at `now`. After a failure the next one follows a pause that grows up to the interval; `asked` is
    /// the minimum that the host asked for.
    mutating func end(at now: Duration, failed: Bool, asked: Duration?) {
        sent = now
        if failed {
            failures += 1
            let pause = min(interval, .seconds(60) * (1 << min(failures - 1, 10)))
            notBefore = now + max(min(asked ?? .zero, .seconds(3600)), min(pause, interval))
            check = now
        } else {
            failures = 0
            notBefore = .zero
        }
    }
}
