import BundleValues
import Glibc

/// The service manager that started this process, such as systemd, told how the process is doing: the protocol of sd_notify(3),
/// without its library.
///
/// Telling never fails and never waits for more than a second: a process that nobody manages tells nobody.
package final class ServiceManager: Sendable {
    private static let variables = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]

    private let socket: NotifySocket?

    /// The longest time between two signs of life that the manager puts up with; nil where it waits for none.
    package let watchdog: Duration?

    /// The manager that these variables name for the process with that id: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`, as
    /// sd_notify(3) and sd_watchdog_enabled(3) have them. What means nothing counts as nothing.
    package init(_ variables: [String: String], process: Int32) {
        socket = variables["NOTIFY_SOCKET"].flatMap(NotifySocket.init)
        watchdog = socket == nil ? nil : Self.watchdog(variables, process)
    }

    /// The manager that the environment names, which it names no longer from then on: no child is meant. Called once, before
    /// other threads look at the environment.
    package static func adopt() -> ServiceManager {
        var values: [String: String] = [:]
        for name in variables {
            values[name] = getenv(name).map { String(cString: $0) }
            unsetenv(name)
        }
        return ServiceManager(values, process: getpid())
    }

    private static func watchdog(_ variables: [String: String], _ process: Int32) -> Duration? {
        if let meant = variables["WATCHDOG_PID"], Int32(meant) != process { return nil }
        guard let microseconds = variables["WATCHDOG_USEC"].flatMap({ Int64($0) }), microseconds > 0 else { return nil }
        return .microseconds(microseconds)
    }

    // MARK: What it is told

    /// The process is ready, and does what `status` says.
    package func ready(_ status: String) { socket?.send("READY=1\n\(Self.line(status))") }

    /// What the process does at present, in one line for people.
    package func status(_ text: String) { socket?.send(Self.line(text)) }

    /// The process ends, because it was told to.
    package func stopping() { socket?.send("STOPPING=1\n\(Self.line("stopping"))") }

    private static func line(_ status: String) -> String {
        "STATUS=" + PrintableText.line(String(status.map { $0.isNewline ? " " : $0 }))
    }

    /// Gives a sign of life twice in the time of the watchdog, each after `answer` has come back, until it is cancelled: a process
    /// that no longer answers gives none, and is started again. Returns at once where nobody waits for signs.
    package func beat(
        clock: any Clock<Duration> = SuspendingClock(), asking answer: @Sendable () async -> Void
    ) async {
        guard let watchdog else { return }
        let pause = watchdog / 2
        while !Task.isCancelled {
            async let paused: Void? = try? clock.sleep(for: pause)
            await answer()
            socket?.send("WATCHDOG=1")
            await paused
        }
    }
}
