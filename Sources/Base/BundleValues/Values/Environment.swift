/// The log, the clocks and the random numbers of a component. Tests pass their own.
public struct Environment: Sendable {
    /// Returns the time of day.
    public var now: @Sendable () -> Timestamp
    /// Measures waits and durations.
    public var clock: any Clock<Duration>
    /// Returns a number in a range.
    public var random: @Sendable (ClosedRange<Double>) -> Double
    /// Receives each message for the log.
    public var log: @Sendable (String) -> Void

    /// Creates an environment: by default that of the machine, without a log.
    public init(
        now: @escaping @Sendable () -> Timestamp = { .now }, clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.now = now
        self.clock = clock
        self.random = random
        self.log = log
    }
}

/// The time since its creation by any clock.
package struct Stopwatch: Sendable {
    private let read: @Sendable () -> Duration

    package init(_ clock: any Clock<Duration> = SuspendingClock()) { read = Self.reading(of: clock) }

    package var elapsed: Duration { read() }

    private static func reading(of clock: some Clock<Duration>) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }
}
