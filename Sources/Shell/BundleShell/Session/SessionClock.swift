package import BundleValues

/// Decides whether a clock is reliable enough to expire a session.
package enum SessionClock {
    /// The largest plausible difference, in years. A device may have been switched off for years, and a wrong clock
    /// is often further off.
    private static let mostYears = 5

    /// The plausibility of a clock.
    package enum ClockDecision: Sendable, Equatable {
        /// The time is possible.
        case plausible
        /// The time is before the earliest possible time.
        case behind
        /// The time is years after the latest known time.
        case ahead
    }

    /// Compares a clock with the `earliest` possible time.
    package static func judge(_ clock: Timestamp, earliest: Timestamp) -> ClockDecision {
        if clock < earliest { return .behind }
        let years = (clock.secondsSinceEpoch - earliest.secondsSinceEpoch) / (365 * 86_400)
        return years >= mostYears ? .ahead : .plausible
    }
}
