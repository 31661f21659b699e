import CLinux
import CLibrary

/// A process that this one did not start, such as its parent. No other process with its ID is taken for it.
package final class WatchedProcess: Sendable {
    private let process: pid_t
    private let descriptor: Int32

    /// Throws if the process does not exist, or if the kernel is older than Linux 5.3.
    package init(_ process: Int32) throws(DiskError) {
        self.process = process
        descriptor = try checkedNegative(clinux_open_process(process), to: "watch", at: "process \(process)")
    }

    deinit { close(descriptor) }

    /// Waits until the process has ended, for at most `milliseconds`, or until `other` is readable. Returns whether it has ended.
    package func hasEnded(within milliseconds: Int32, orReadable other: Int32 = -1) -> Bool {
        var both = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: other, events: Int16(POLLIN), revents: 0),
        ]
        _ = poll(&both, 2, milliseconds)
        return both[0].revents != 0
    }

    /// Sends `signal` to the process if it runs.
    package func send(_ signal: Int32) { if !hasEnded(within: 0) { kill(process, signal) } }
}
