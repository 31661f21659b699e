import BundleValues

/// The times of a week, by the device's own clock, at which a shell may show another client without a user's action, or at
/// which a device may download releases.
public struct ActivationWindows: Sendable, Equatable, CustomStringConvertible {
    /// A day and a minute in the device's time zone.
    public struct LocalTime: Sendable, Equatable {
        /// 0 for Monday to 6 for Sunday.
        public let day: Int
        /// 0 to 1439.
        public let minute: Int
        /// The minutes that the clock skipped less than that time ago, when it was set forward; 0 at other times.
        public let skipped: Int

        /// Creates a time and clamps each value to its range.
        public init(day: Int, minute: Int, skipped: Int = 0) {
            self.day = min(max(day, 0), 6)
            self.minute = min(max(minute, 0), 1439)
            self.skipped = min(max(skipped, 0), 1439)
        }

        /// Returns the time `minutes` later (or earlier, if negative), in a week without a change of the clock.
        package func adding(minutes: Int) -> LocalTime {
            let total = (day * 1440 + minute + minutes % (7 * 1440) + 7 * 1440) % (7 * 1440)
            return LocalTime(day: total / 1440, minute: total % 1440)
        }
    }

    private struct Window: Equatable {
        let days: [Bool]
        let begin: Int
        /// More than 1440 if the window continues after midnight.
        let end: Int

        func contains(_ time: LocalTime) -> Bool {
            if days[time.day], (begin..<end).contains(time.minute) { return true }
            return days[(time.day + 6) % 7] && (begin..<end).contains(time.minute + 1440)
        }
    }

    private let windows: [Window]
    /// The windows as they were written.
    public let description: String

    /// Parses windows separated by commas, such as `02:00-04:00` for every day, `Mon-Fri 22:00-01:30`, `Sun
    /// 00:00-24:00`, or `always`. A window whose end is before its begin continues after midnight.
    public init(parsing text: some StringProtocol) throws(ActivationWindowsError) {
        if text == "always" {
            self.windows = [Window(days: [Bool](repeating: true, count: 7), begin: 0, end: 1440)]
            description = "always"
            return
        }
        var windows: [Window] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let window = Self.window(part) else { throw .notAWindow(text: UntrustedName.display(part)) }
            windows.append(window)
        }
        self.windows = windows
        description = String(text)
    }

    /// Returns whether a window contains `time`. After the clock was set forward, the hours that it skipped follow.
    public func isOpen(at time: LocalTime) -> Bool {
        let times = time.skipped == 0 ? [time] : [time, time.adding(minutes: -time.skipped)]
        return windows.contains { times.contains(where: $0.contains) }
    }

    private static let dayNames = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

    private static func window(_ text: some StringProtocol) -> Window? {
        let words = text.split(separator: " ")
        guard let last = words.last, words.count <= 2 else { return nil }
        let everyDay = [Bool](repeating: true, count: 7)
        guard let days = words.count == 2 ? Self.days(words[0]) : everyDay else { return nil }
        let times = last.split(separator: "-", omittingEmptySubsequences: false)
        guard times.count == 2, let begin = minute(times[0]), let end = minute(times[1]), begin < 1440, begin != end
        else { return nil }
        return Window(days: days, begin: begin, end: end > begin ? end : end + 1440)
    }

    /// Parses `Mon` or `Mon-Fri`. A range may pass the end of the week, as in `Sat-Mon`.
    private static func days(_ text: some StringProtocol) -> [Bool]? {
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map { name in
            dayNames.firstIndex(of: name.lowercased())
        }
        guard (1...2).contains(ends.count), let first = ends[0], let last = ends[ends.count - 1] else { return nil }
        return (0..<7).map { ($0 - first + 7) % 7 <= (last - first + 7) % 7 }
    }

    /// Parses `00:00` to `24:00`, in minutes.
    private static func minute(_ text: some StringProtocol) -> Int? {
        let bytes = [UInt8](text.utf8)
        guard bytes.count == 5, bytes[2] == UInt8(ascii: ":") else { return nil }
        let digits = [bytes[0], bytes[1], bytes[3], bytes[4]].map { Int($0) - 48 }
        guard digits.allSatisfy((0...9).contains) else { return nil }
        let (hour, minute) = (digits[0] * 10 + digits[1], digits[2] * 10 + digits[3])
        guard minute < 60, hour < 24 || (hour == 24 && minute == 0) else { return nil }
        return hour * 60 + minute
    }
}

/// The reason why a text is not a list of windows. `text` is printable and cut to one line.
public enum ActivationWindowsError: Error, Sendable, Equatable, CustomStringConvertible {
    /// A part of the text is not a window.
    case notAWindow(text: String)

    /// The failure and the remedy.
    public var description: String {
        switch self {
        case .notAWindow(let text):
            "\"\(text)\" is not a window of time. Write it like 02:00-04:00 or Mon-Fri 22:00-01:30, separated by commas, or write always"
        }
    }
}
