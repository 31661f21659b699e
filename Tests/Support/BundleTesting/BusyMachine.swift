import Glibc

/// How much slower than usual this machine is. A limit that a test is about, and which a healthy page, server or program has to keep, is
/// longer there.
package enum BusyMachine {
    /// So many wait for a processor while these tests run and nothing else does.
    private static let usual = 6.0

    /// `seconds`, and up to six times that where more wait for the processors than usual (proc_loadavg(5)).
    package static func seconds(_ seconds: Int) -> Int {
        let words = (try? contents(ofFile: "/proc/loadavg")).map {
            String(decoding: $0, as: UTF8.self).split(separator: " ")
        }
        guard let load = words?.first.flatMap({ Double($0) }) else { return seconds }
        let share = load / Double(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))) / usual
        return Int((Double(seconds) * min(6, max(1, share))).rounded(.up))
    }

    /// The same of a duration.
    package static func limit(_ seconds: Int) -> Duration { .seconds(Self.seconds(seconds)) }
}
