public import BundleCore
import BundleValues
import CLibrary

extension ActivationWindows.LocalTime {
    /// The time of the device's clock in its time zone (TZ, or /etc/localtime).
    public static var now: ActivationWindows.LocalTime {
        var seconds = time(nil)
        var fields = tm()
        // Reads the time zone again, because it may change while the shell runs.
        tzset()
        localtime_r(&seconds, &fields)
        return Self(
            day: (Int(fields.tm_wday) + 6) % 7, minute: Int(fields.tm_hour) * 60 + Int(fields.tm_min),
            skipped: skipped(at: seconds, offset: fields.tm_gmtoff))
    }

    /// Returns the minutes that the clock skipped less than that time before `seconds`.
    private static func skipped(at seconds: time_t, offset: Int) -> Int {
        // The largest usual step is an hour.
        var (before, fields) = (seconds - 3600, tm())
        localtime_r(&before, &fields)
        let step = offset - fields.tm_gmtoff
        guard step > 0 else { return 0 }
        var (start, earlier) = (seconds - step, tm())
        localtime_r(&start, &earlier)
        return earlier.tm_gmtoff < offset ? step / 60 : 0
    }
}

extension Timestamp {
    /// The time in the time zone of the device, to the minute, such as `2026-11-29 14:03`.
    package var localMinute: String {
        var (seconds, fields) = (time_t(secondsSinceEpoch), tm())
        tzset()
        localtime_r(&seconds, &fields)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return
            "\(fields.tm_year + 1900)-\(two(fields.tm_mon + 1))-\(two(fields.tm_mday)) \(two(fields.tm_hour)):\(two(fields.tm_min))"
    }
}
