import Glibc

/// Extends time limits on a busy machine, for limits that are the subject of a test.
package enum BusyMachine {
    /// The usual number of processes that wait for a processor while these tests run alone.
    private static let usual = 6.0

    /// Returns `seconds`, up to six times as long if more processes wait than usual (proc_loadavg(5)).
    package static func seconds(_ seconds: Int) -> Int {
        let words = (try? contents(ofFile: "/proc/loadavg")).map {
            String(decoding: $0, as: UTF8.self).split(separator: " ")
        }
        guard let load = words?.first.flatMap({ Double($0) }) else { return seconds }
        let share = load / Double(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))) / usual
        return Int((Double(seconds) * min(6, max(1, share))).rounded(.up))
    }

    /// Returns a duration in the same way.
    package static func limit(_ seconds: Int) -> Duration { .seconds(Self.seconds(seconds)) }
}
