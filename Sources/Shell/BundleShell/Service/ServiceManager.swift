import BundleValues
import CLibrary

/// The service manager that started this process, such as systemd, which receives its state by the protocol of
/// sd_notify(3).
///
/// A message never fails and blocks for at most a second. Without a manager, messages are dropped.
package final class ServiceManager: Sendable {
    private static let variables = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]

    private let socket: NotifySocket?

    /// The longest time between two keep-alive messages; nil if the manager does not expect them.
    package let watchdog: Duration?

    /// Creates a manager from `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`, as in sd_notify(3) and
    /// sd_watchdog_enabled(3), for the process with that id. Invalid values are ignored.
    package init(_ variables: [String: String], process: Int32) {
        socket = variables["NOTIFY_SOCKET"].flatMap(NotifySocket.init)
        watchdog = socket == nil ? nil : Self.watchdog(variables, process)
    }

    /// Returns the manager from the environment, and removes its variables so that child processes do not use them.
    /// Called once, before other threads read the environment.
    package static func adopt() -> ServiceManager {
        var values: [String: String] = [:]
        for name in variables {
            values[name] = getenv(name).map { String(cString: $0) }
            unsetenv(name)
        }
        return ServiceManager(values, process: getpid())
    }

    private static func watchdog(_ variables: [String: String], _ process: Int32) -> Duration? {
        if let id = variables["WATCHDOG_PID"], Int32(id) != process { return nil }
        guard let microseconds = variables["WATCHDOG_USEC"].flatMap({ Int64($0) }), microseconds > 0 else { return nil }
        return .microseconds(microseconds)
    }

    // MARK: Messages

    /// Reports that the process is ready, with its `status`.
    package func ready(_ status: String) { socket?.send("READY=1\n\(Self.line(status))") }

    /// Reports the status of the process in one line.
    package func status(_ text: String) { socket?.send(Self.line(text)) }

    /// Reports that the process ends on request.
    package func stopping() { socket?.send("STOPPING=1\n\(Self.line("stopping"))") }

    private static func line(_ status: String) -> String {
        "STATUS=" + PrintableText.line(String(status.map { $0.isNewline ? " " : $0 }))
    }

    /// Sends two keep-alive messages in the time of the watchdog, each after `answer` has returned, until the task is
    /// cancelled. The manager restarts a process that hangs. Returns at once if the manager does not expect messages.
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

/// The datagram socket of a service manager, at a path or an abstract name.
private final class NotifySocket: Sendable {
    private let descriptor: Int32
    private let address: sockaddr_un
    private let length: socklen_t

    /// Creates a socket for an address in the format of `NOTIFY_SOCKET`: an absolute path, or `@` and an abstract name.
    /// Returns nil for another format, or if the system cannot create a socket.
    init?(_ name: String) {
        var bytes = Array(name.utf8)
        var address = sockaddr_un()
        let isAbstract = bytes.first == UInt8(ascii: "@")
        guard bytes.count > 1, isAbstract || bytes.first == UInt8(ascii: "/"),
            bytes.count < MemoryLayout.size(ofValue: address.sun_path)
        else { return nil }
        if isAbstract { bytes[0] = 0 }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        self.address = address
        // A path ends with a zero byte, an abstract name with its length.
        length = socklen_t(MemoryLayout.size(ofValue: address.sun_family) + bytes.count + (isAbstract ? 0 : 1))
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        if descriptor < 0 { return nil }
        // A manager that does not read must not block the process.
        var timeout = (seconds: 1, microseconds: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout.size(ofValue: timeout)))
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Sends one datagram. Returns false if it was not accepted.
    @discardableResult
    func send(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        var address = address
        return withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                while true {
                    let sent = sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL), address, length)
                    if sent >= 0 || errno != EINTR { return sent == bytes.count }
                }
            }
        }
    }
}
