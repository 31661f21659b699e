import BundleValues

/// How long a client on trial may take to confirm its start; a value in reason.
public struct StartupTimeout: Sendable, Equatable {
    /// What is accepted: below it no page can start, above it a broken one stays for ever.
    public static let range = Duration.milliseconds(100)...Duration.seconds(600)
    /// 10 s (METEOR section 4.4).
    public static let standard = StartupTimeout(unchecked: .seconds(10))

    /// The time.
    public let duration: Duration

    private init(unchecked duration: Duration) {
        self.duration = duration
    }

    /// Accepts 100 ms to 10 min.
    package init(_ duration: Duration) throws(StartupTimeoutError) {
        guard Self.range.contains(duration) else { throw .outOfRange(DurationText(duration).description) }
        self.duration = duration
    }
}

/// Why a startup timeout is refused.
package enum StartupTimeoutError: Error, Sendable, Equatable, CustomStringConvertible {
    /// It is too short or too long.
    case outOfRange(String)

    /// What was refused and what to write.
    package var description: String {
        switch self {
        case .outOfRange(let text): "\(text) is no sensible time for a start; use 100ms to 10m, such as 10s"
        }
    }
}
