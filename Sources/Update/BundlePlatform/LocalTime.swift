public import BundleCore
import Glibc

extension ActivationWindows.LocalTime {
    /// What the device's clock shows in the time zone that is set (TZ, or /etc/localtime).
    public static var now: ActivationWindows.LocalTime {
        var seconds = time(nil)
        var fields = tm()
        // A zone that is changed while the shell runs counts, too.
        tzset()
        localtime_r(&seconds, &fields)
        return Self(day: (Int(fields.tm_wday) + 6) % 7, minute: Int(fields.tm_hour) * 60 + Int(fields.tm_min))
    }
}
