/// The pauses after checks that pages request: short after one request, and longer for a page in a loop.
struct CheckPace {
    static let shortest = Duration.seconds(1)
    static let longest = Duration.seconds(10)

    private var next = shortest
    private var last: Duration?

    /// Returns the pause after a check that begins at `reading`.
    mutating func pause(at reading: Duration) -> Duration {
        if let last, reading - last > Self.longest * 2 { next = Self.shortest }
        last = reading
        defer { next = min(next * 2, Self.longest) }
        return next
    }
}
