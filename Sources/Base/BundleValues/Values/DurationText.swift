/// A duration as written in flags and configuration files: an integer with a unit.
package struct DurationText: Sendable, Hashable {
    /// The longest valid duration: ten years of 365 days.
    package static let longest = Duration.seconds(10 * 365 * 86_400)

    package let duration: Duration

    package init(_ duration: Duration) { self.duration = duration }

    /// Accepts digits and one of the units ms, s, m, h and d. Zero needs a unit too.
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
    /// The duration in the longest unit that divides it, such as `90s` or `1d`. Fractions of a millisecond are omitted.
    package var description: String {
        let (seconds, attoseconds) = duration.components
        let parts = attoseconds / 1_000_000_000_000_000
        if parts != 0 {
            // The seconds of a `Duration` can be too large for a number of milliseconds.
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

/// The reason why a text is not a duration. `text` is printable and has at most one line.
package enum DurationTextError: Error, Sendable, Equatable, CustomStringConvertible {
    case notADuration(text: String)
    case missingUnit(text: String)
    case unknownUnit(text: String)
    /// The duration is longer than ten years.
    case tooLong(text: String)

    package var description: String {
        switch self {
        case .notADuration(let text): "\"\(text)\" is not a duration; write it like 10s, 15m or 24h"
        case .missingUnit(let text): "the duration \"\(text)\" has no unit; add one of ms, s, m, h, d"
        case .unknownUnit(let text): "the duration \"\(text)\" has no known unit; use ms, s, m, h or d"
        case .tooLong(let text): "the duration \"\(text)\" is too long; use at most 3650d"
        }
    }
}
