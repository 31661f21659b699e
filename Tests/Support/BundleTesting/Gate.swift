import Glibc

/// Blocks threads until it is opened.
package final class Gate: Sendable {
    private let reading: Int32
    private let writing: Int32

    /// Creates a closed gate.
    package init() throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemCallError("pipe") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        (reading, writing) = (ends[0], ends[1])
    }

    deinit {
        close(reading)
        close(writing)
    }

    /// Opens the gate permanently.
    package func open() {
        var byte: UInt8 = 1
        write(writing, &byte, 1)
    }

    /// Returns when the gate is open, or when the socket `descriptor` is readable, such as at its end.
    func wait(besides descriptor: Int32) {
        var entries = [
            pollfd(fd: reading, events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        ]
        poll(&entries, 2, -1)
    }

    /// Waits for one opening and consumes it. Returns false when the socket `descriptor` is readable before.
    func waitOnce(besides descriptor: Int32) -> Bool {
        var entries = [
            pollfd(fd: reading, events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        ]
        poll(&entries, 2, -1)
        guard entries[0].revents != 0 else { return false }
        var byte: UInt8 = 0
        return read(reading, &byte, 1) == 1
    }
}
