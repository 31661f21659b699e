public import BundleValues

/// The intervals at which a device checks for updates.
public struct PollPace: Sendable, Equatable {
    /// The intervals that a feed may set.
    public static let allowed = Duration.seconds(10)...Duration.seconds(7 * 86_400)

    /// The time between two checks.
    public let interval: Duration
    /// The longest random delay that is added to each interval.
    public let jitter: Duration

    /// Creates the pace that a device's operator sets. The default jitter is a tenth of the interval.
    public init(every interval: Duration, jitter: Duration? = nil) {
        self.interval = interval
        self.jitter = jitter ?? interval / 10
    }

    /// Creates the pace that a feed asks for, in seconds, clamped to `allowed`. The jitter is at most the interval.
    public init(asked interval: Int, jitter: Int) {
        let limits = Self.allowed
        self.interval = min(max(.seconds(interval), limits.lowerBound), limits.upperBound)
        self.jitter = min(max(.seconds(jitter), .zero), self.interval)
    }
}

/// Decides when a device checks for updates. Devices that start together check at different times, and repeated
/// failures lengthen the wait.
public struct PollRule: Sendable, Equatable {
    /// The result of a check.
    public enum PollOutcome: Sendable, Equatable {
        /// The feed answered, with or without an update for this device.
        case answered
        /// The failure may pass without a change of the feed, such as a network error. `asked` is the wait that the
        /// server asked for.
        case interrupted(asked: Duration?)
        /// The feed's content was refused and stays so until the publisher changes it.
        case refused
    }

    /// The longest wait before the first check after a start.
    static let longestFirst = Duration.seconds(60)
    /// The first wait after an interruption.
    static let shortest = Duration.seconds(60)
    /// The longest wait, in intervals.
    static let longestIntervals = 4
    /// The longest random wait before a check for an urgent release.
    package static let longestUrgent = Duration.seconds(60)
    /// The longest wait that a server may ask for, if it is below `longestIntervals`. The request is not signed, and must not keep
    /// recalls from a device for long.
    static let longestAsked = Duration.seconds(3600)

    private var failures = 0

    /// Creates the rule of a device that has not checked yet.
    public init() {}

    /// Returns the wait before the first check: 10 to 90 % of a minute, or of a shorter interval. `random` is random in
    /// 0...1.
    public func first(_ pace: PollPace, random: Double) -> Duration {
        min(pace.interval, Self.longestFirst) * (0.1 + 0.8 * Self.fraction(random))
    }

    /// Returns the wait after a check that ended with `outcome`.
    public mutating func wait(after outcome: PollOutcome, _ pace: PollPace, random: Double) -> Duration {
        let fraction = Self.fraction(random)
        let longest = pace.interval * Self.longestIntervals
        switch outcome {
        case .answered:
            failures = 0
            return pace.interval + pace.jitter * fraction
        case .interrupted(let asked):
            failures += 1
            let backoff = Backoff(from: min(Self.shortest, pace.interval), upTo: longest)
            let ceiling = backoff.delay(after: failures - 1)
            // The wait is at least half of the backoff, so that a failing feed gets a pause.
            let wait = ceiling * (0.5 + 0.5 * fraction)
            guard let asked, asked > wait else { return wait }
            return min(asked + pace.jitter * fraction, max(min(Self.longestAsked, longest), wait))
        case .refused:
            failures += 1
            let wait = Backoff(from: pace.interval, upTo: longest).delay(after: failures - 1)
            return min(wait + pace.jitter * fraction, longest)
        }
    }

    private static func fraction(_ random: Double) -> Double { random.isFinite ? min(max(random, 0), 1) : 1 }
}

extension PollRule.PollOutcome {
    /// Creates the outcome of a check that failed with `failure`.
    public init(_ failure: UpdateFailure, asked: Duration?) {
        switch failure.code {
        // The feed works; its release is for other devices, or failed on this one. The device waits for the next
        // release.
        case .incompatibleShell, .versionBlocked: self = .answered
        case .networkUnavailable, .httpStatus, .versionMismatch, .storeLocked: self = .interrupted(asked: asked)
        default: self = .refused
        }
    }
}
