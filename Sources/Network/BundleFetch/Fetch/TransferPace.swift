/// Decides whether a running transfer is too slow. The caller passes the time.
struct TransferPace {
    typealias Instant = SuspendingClock.Instant

    private let stallTimeout: Duration
    private let floor: Int
    private let window: Duration
    private var total = 0
    private var lastByte: Instant
    /// The totals at distances of about a sixteenth of a window. Once a whole window has passed, the first one is the
    /// newest of at least that age.
    private var samples: [(time: Instant, total: Int)]

    init(options: FetchOptions, start: Instant) {
        stallTimeout = options.stallTimeout
        floor = options.slowFloor
        window = options.slowWindow
        lastByte = start
        samples = [(start, 0)]
    }

    private var step: Duration { window / 16 }

    mutating func received(_ count: Int, at now: Instant) {
        total += count
        lastByte = now
    }

    mutating func isTooSlow(at now: Instant) -> Bool {
        if lastByte.duration(to: now) >= stallTimeout { return true }
        if let last = samples.last, last.time.duration(to: now) >= step { samples.append((now, total)) }
        let whole = samples.lastIndex { $0.time.duration(to: now) >= window }
        guard let whole else { return false }
        samples.removeFirst(whole)
        let elapsed = samples[0].time.duration(to: now) / .seconds(1)
        return Double(total - samples[0].total) < Double(floor) * elapsed
    }

    /// The time of the next check if no byte arrives.
    var nextCheck: Instant { lastByte.advanced(by: stallTimeout) }
}
