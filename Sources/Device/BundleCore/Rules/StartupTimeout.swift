import BundleValues

/// The time in which a client on trial has to confirm its start.
public struct StartupTimeout: Sendable, Equatable {
    /// The accepted times. No page can start faster, and a broken page must not stay for longer.
    public static let range = Duration.milliseconds(100)...Duration.seconds(600)
    /// 10 s (METEOR section 4.4).
    public static let standard = StartupTimeout(unchecked: .seconds(10))

    /// The time.
    public let duration: Duration

    private init(unchecked duration: Duration) {
        self.duration = duration
    }

    /// Throws if `duration` is not in `range`.
    public init(_ duration: Duration) throws(StartupTimeoutError) {
        guard Self.range.contains(duration) else { throw .outOfRange(DurationText(duration).description) }
        self.duration = duration
    }
}

/// The reason why a startup timeout is refused.
public enum StartupTimeoutError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The time as text.
    case outOfRange(String)

    /// The reason, with the accepted times.
    public var description: String {
        switch self {
        case .outOfRange(let text): "\(text) is not a valid startup timeout. Use 100ms to 10m, such as 10s"
        }
    }
}
