import CLibrary

/// A UTC time in whole seconds, from 1970 to 9999, in the form of RFC 3339 with `Z`.
public struct Timestamp: Sendable, Hashable {
    /// The last second of the year 9999.
    public static let latestSecond = 253_402_300_799

    /// Seconds since 1970-01-01T00:00:00Z, without leap seconds.
    public let secondsSinceEpoch: Int

    /// Throws if `seconds` is outside 0...`latestSecond`.
    package init(secondsSinceEpoch seconds: Int) throws(TimestampError) {
        guard (0...Self.latestSecond).contains(seconds) else { throw .outOfRange(seconds: seconds) }
        secondsSinceEpoch = seconds
    }

    /// Creates a timestamp from a clock's seconds, limited to 0...`latestSecond`.
    public init(clamping seconds: Int) {
        secondsSinceEpoch = min(max(seconds, 0), Self.latestSecond)
    }

    /// The time of the system clock.
    public static var now: Timestamp { Timestamp(clamping: time(nil)) }

    /// Accepts exactly the form `2026-11-21T21:09:38Z` of a date that exists, without fraction, offset or leap second.
    package init(parsing text: some StringProtocol) throws(TimestampError) {
        guard let seconds = Self.seconds(in: [UInt8](text.utf8)) else {
            throw .notATimestamp(text: UntrustedName.display(text))
        }
        secondsSinceEpoch = seconds
    }

    private static let form = [UInt8]("0000-00-00T00:00:00Z".utf8)

    private static func seconds(in bytes: [UInt8]) -> Int? {
        guard bytes.count == form.count else { return nil }
        var fields = [0]
        for (byte, wanted) in zip(bytes, form) {
            if wanted == UInt8(ascii: "0") {
                guard let digit = byte.digitValue else { return nil }
                fields[fields.count - 1] = fields[fields.count - 1] * 10 + digit
            } else {
                guard byte == wanted else { return nil }
                fields.append(0)
            }
        }
        let date = CivilDate(year: fields[0], month: fields[1], day: fields[2])
        guard date.year >= 1970, date.exists, fields[3] < 24, fields[4] < 60, fields[5] < 60 else { return nil }
        return date.daysSinceEpoch * 86_400 + fields[3] * 3600 + fields[4] * 60 + fields[5]
    }
}

extension Timestamp: Comparable, CustomStringConvertible {
    /// Compares by time.
    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.secondsSinceEpoch < right.secondsSinceEpoch
    }

    /// The time in the form that `init(parsing:)` accepts.
    public var description: String {
        let (days, second) = secondsSinceEpoch.quotientAndRemainder(dividingBy: 86_400)
        let date = CivilDate(daysSinceEpoch: days)
        let day = "\(date.year)-\(Self.twoDigits(date.month))-\(Self.twoDigits(date.day))"
        let fields = [second / 3600, second / 60 % 60, second % 60]
        return "\(day)T\(fields.map(Self.twoDigits).joined(separator: ":"))Z"
    }

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// Returns a time span for people, in the largest unit of which there are at least two, such as `47 hours`.
    package static func words(seconds: Int) -> String {
        for (unit, length) in [("days", 86_400), ("hours", 3600), ("minutes", 60)] where seconds >= 2 * length {
            return "\(seconds / length) \(unit)"
        }
        return seconds == 1 ? "1 second" : "\(seconds) seconds"
    }

    /// Returns the time since this one for people, such as `47 hours ago`. A clock that was set back gives `0 seconds ago`.
    package func ago(at now: Timestamp) -> String {
        "\(Self.words(seconds: max(0, now.secondsSinceEpoch - secondsSinceEpoch))) ago"
    }
}

/// The reason why a text or number is not a timestamp. `text` is printable and has at most one line.
package enum TimestampError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The text has another form, or the date does not exist.
    case notATimestamp(text: String)
    /// The number is before 1970 or after 9999.
    case outOfRange(seconds: Int)

    package var description: String {
        switch self {
        case .notATimestamp(let text): "\"\(text)\" is not a UTC time; write it like 2026-11-21T21:09:38Z"
        case .outOfRange(let seconds): "\(seconds) seconds since 1970 is not within the years 1970 to 9999"
        }
    }
}

/// A date in the proleptic Gregorian calendar, from 1970 on.
private struct CivilDate: Equatable {
    let year: Int
    let month: Int
    let day: Int

    init(year: Int, month: Int, day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    /// Counts years from March, so that the leap day is the last day of a year. The calendar repeats every 400 years.
    init(daysSinceEpoch days: Int) {
        let (era, dayOfEra) = (days + Self.daysFromMarchOfYear0ToEpoch).quotientAndRemainder(dividingBy: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    var daysSinceEpoch: Int {
        let yearFromMarch = month <= 2 ? year - 1 : year
        let (era, yearOfEra) = yearFromMarch.quotientAndRemainder(dividingBy: 400)
        let monthFromMarch = month > 2 ? month - 3 : month + 9
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - Self.daysFromMarchOfYear0ToEpoch
    }

    var exists: Bool { (1...12).contains(month) && (1...daysInMonth).contains(day) }

    private var daysInMonth: Int {
        switch month {
        case 2: isLeapYear ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    private var isLeapYear: Bool {
        year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
    }

    private static let daysFromMarchOfYear0ToEpoch = 719_468
}
