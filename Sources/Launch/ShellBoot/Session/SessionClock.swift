package import BundleValues

/// Whether a clock may say when a session ends.
package enum SessionClock {
    /// A device may have been switched off for years, and a clock that is wrong is often further off.
    private static let mostYears = 5

    /// What a clock is worth.
    package enum Verdict: Sendable, Equatable {
        /// It may be right.
        case plausible
        /// It is before a time that has passed.
        case behind
        /// It is years after the latest time that is known.
        case ahead
    }

    /// Judges a clock by the `earliest` time that it can be. Pure.
    package static func judge(_ clock: Timestamp, earliest: Timestamp) -> Verdict {
        if clock < earliest { return .behind }
        let years = (clock.secondsSinceEpoch - earliest.secondsSinceEpoch) / (365 * 86_400)
        return years >= mostYears ? .ahead : .plausible
    }
}
