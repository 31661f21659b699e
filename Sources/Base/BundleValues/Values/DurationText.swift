/// A duration as people write it in flags and configuration: a whole number with its unit.
package struct DurationText: Sendable, Hashable {
    /// The longest duration that is accepted: ten years of 365 days.
    package static let longest = Duration.seconds(10 * 365 * 86_400)

    /// The duration.
    package let duration: Duration

    /// Wraps a duration in order to write it.
    package init(_ duration: Duration) {
        self.duration = duration
    }

    /// Accepts digits and one of the units ms, s, m, h, d; zero needs its unit too.
    package init(parsing text: some StringProtocol) throws(DurationTextError) {
        let shown = UntrustedName.display(text)
        guard let number = LeadingNumber(text) else { throw .notADuration(text: shown) }
        guard !number.unit.isEmpty else { throw .missingUnit(text: shown) }
        guard let unit = Self.units.first(where: { $0.name == number.unit }) else { throw .unknownUnit(text: shown) }
        guard let value = number.value,
            case let (total, overflowed) = value.multipliedReportingOverflow(by: unit.length), !overflowed,
            Duration.milliseconds(total) <= Self.longest
        else { throw .tooLong(text: shown) }
        self.init(.milliseconds(total))
    }

    /// The units in milliseconds, longest first.
    private static let units: [(name: String, length: Int)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]
}

extension DurationText: CustomStringConvertible {
    /// The duration in the longest unit that divides it, like `90s` or `1d`; parts of a millisecond are left out.
    package var description: String {
        let (seconds, attoseconds) = duration.components
        let parts = attoseconds / 1_000_000_000_000_000
        if parts != 0 {
            // A duration is stored in 128 bits: only the seconds can be beyond what milliseconds can count.
            let (scaled, overflowed) = seconds.multipliedReportingOverflow(by: 1000)
            let (total, overflowedAgain) = scaled.addingReportingOverflow(parts)
            return overflowed || overflowedAgain ? "\(seconds)s" : "\(total)ms"
        }
        for unit in Self.units where unit.length >= 1000 && seconds != 0 {
            let length = Int64(unit.length / 1000)
            if seconds.isMultiple(of: length) { return "\(seconds / length)\(unit.name)" }
        }
        return "0s"
    }
}

/// Why a text is not a duration; `text` is always printable and cut to a line.
package enum DurationTextError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The text does not start with a digit.
    case notADuration(text: String)
    /// Nothing follows the digits.
    case missingUnit(text: String)
    /// What follows the digits is no unit.
    case unknownUnit(text: String)
    /// The duration is longer than ten years.
    case tooLong(text: String)

    /// One sentence for people: what was refused and what to write.
    package var description: String {
        switch self {
        case .notADuration(let text): "\"\(text)\" is not a duration; write it like 10s, 15m or 24h"
        case .missingUnit(let text): "the duration \"\(text)\" has no unit; add one of ms, s, m, h, d"
        case .unknownUnit(let text): "the duration \"\(text)\" has no known unit; use ms, s, m, h or d"
        case .tooLong(let text): "the duration \"\(text)\" is too long; use at most 3650d"
        }
    }
}
