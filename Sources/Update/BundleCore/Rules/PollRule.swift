public import BundleValues

/// How often a device checks for updates.
public struct PollPace: Sendable, Equatable {
    /// What a feed may ask of its devices: neither a flood nor silence.
    public static let allowed = Duration.seconds(10)...Duration.seconds(7 * 86_400)

    /// The time between two checks.
    public let interval: Duration
    /// At most as much more, drawn anew each time.
    public let jitter: Duration

    /// As the device's owner wants it; a tenth of the interval is the jitter where none is stated.
    public init(every interval: Duration, jitter: Duration? = nil) {
        self.interval = interval
        self.jitter = jitter ?? interval / 10
    }

    /// As a feed asks for it, in seconds, moved into `allowed`; its jitter is at most its interval.
    public init(asked interval: Int, jitter: Int) {
        let limits = Self.allowed
        self.interval = min(max(.seconds(interval), limits.lowerBound), limits.upperBound)
        self.jitter = min(max(.seconds(jitter), .zero), self.interval)
    }
}

/// When a device checks for updates: devices that start together do not ask together, and a feed that fails is asked less and
/// less often.
public struct PollRule: Sendable, Equatable {
    /// How a check ended.
    public enum Outcome: Sendable, Equatable {
        /// The feed was asked and answered, with something for this device or not.
        case answered
        /// What failed goes away by itself, such as a network; `asked` is the wait that the server asked for.
        case interrupted(asked: Duration?)
        /// What was answered is no good; it is until somebody mends it.
        case refused
    }

    /// The first check comes within this time of a start.
    static let longestFirst = Duration.seconds(60)
    /// Where the wait after an interruption begins.
    static let shortest = Duration.seconds(60)
    /// No wait is longer than this many intervals.
    static let longestIntervals = 4
    /// The longest random wait before a check for what is urgent.
    package static let longestUrgent = Duration.seconds(60)
    /// The longest wait that a server may ask for, if it is below `longestIntervals`. The request is not signed, and must not keep
    /// recalls from a device for long.
    static let longestAsked = Duration.seconds(3600)

    private var failures = 0

    /// A device that has not checked yet.
    public init() {}

    /// Returns the wait before the first check: 10 to 90 % of a minute, or of the interval where that is shorter. `draw` is random
    /// in 0...1.
    public func first(_ pace: PollPace, draw: Double) -> Duration {
        min(pace.interval, Self.longestFirst) * (0.1 + 0.8 * Self.share(draw))
    }

    /// Returns the wait after a check that ended with `outcome`.
    public mutating func wait(after outcome: Outcome, _ pace: PollPace, draw: Double) -> Duration {
        let share = Self.share(draw)
        let longest = pace.interval * Self.longestIntervals
        switch outcome {
        case .answered:
            failures = 0
            return pace.interval + pace.jitter * share
        case .interrupted(let asked):
            failures += 1
            let backoff = Backoff(from: min(Self.shortest, pace.interval), upTo: longest)
            let ceiling = backoff.delay(after: failures - 1)
            // At least half of it, so that a feed in trouble is not asked again at once.
            let wait = ceiling * (0.5 + 0.5 * share)
            guard let asked, asked > wait else { return wait }
            return min(asked + pace.jitter * share, max(min(Self.longestAsked, longest), wait))
        case .refused:
            failures += 1
            let wait = Backoff(from: pace.interval, upTo: longest).delay(after: failures - 1)
            return min(wait + pace.jitter * share, longest)
        }
    }

    private static func share(_ draw: Double) -> Double { draw.isFinite ? min(max(draw, 0), 1) : 1 }
}

extension PollRule.Outcome {
    /// What a check that failed so means for the next one.
    public init(_ failure: UpdateFailure, asked: Duration?) {
        switch failure.code {
        // The feed is well; what it has is for others, or was tried here. Such devices wait for the next release.
        case .incompatibleShell, .versionBlocked: self = .answered
        case .networkUnavailable, .httpStatus, .versionMismatch, .storeLocked: self = .interrupted(asked: asked)
        default: self = .refused
        }
    }
}
