public import BundleCore
import CLibrary

extension ActivationWindows.LocalTime {
    /// The time of the device's clock in its time zone (TZ, or /etc/localtime).
    public static var now: ActivationWindows.LocalTime {
        var seconds = time(nil)
        var fields = tm()
        // Reads the time zone again, because it may change while the shell runs.
        tzset()
        localtime_r(&seconds, &fields)
        return Self(day: (Int(fields.tm_wday) + 6) % 7, minute: Int(fields.tm_hour) * 60 + Int(fields.tm_min))
    }
}
