import CLibrary

/// Waits for changes in folders, by inotify where the kernel supports it, otherwise for a fixed time.
package final class FolderWatch: Sendable {
    /// The reason why a wait ended.
    package enum WaitResult: Sendable { case changed, timedOut, woken }

    // A publisher's rename, and the operations of other tools.
    private static let mask =
        UInt32(IN_MOVED_TO) | UInt32(IN_MOVED_FROM) | UInt32(IN_CLOSE_WRITE) | UInt32(IN_CREATE) | UInt32(IN_DELETE)

    /// Negative if inotify is not available.
    private let notices: Int32
    private let wakeEnd: Int32
    private let sleepEnd: Int32

    /// Creates a watch without folders.
    package init() throws(DiskError) {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        _ = try checked(socketpair(AF_UNIX, kind, 0, &ends), to: "open", at: "a pair of sockets")
        (sleepEnd, wakeEnd) = (ends[0], ends[1])
        notices = inotify_init1(O_CLOEXEC | O_NONBLOCK)
    }

    deinit {
        for descriptor in [notices, wakeEnd, sleepEnd] where descriptor >= 0 { close(descriptor) }
    }

    /// Watches a folder while it exists. A second call has no effect. Returns false if inotify is not available.
    @discardableResult
    package func watch(_ folder: Directory) -> Bool {
        // The descriptor names this folder even if its path now leads to another one.
        notices >= 0 && inotify_add_watch(notices, "/proc/self/fd/\(folder.descriptor)", Self.mask) >= 0
    }

    /// Waits for a change, at most `milliseconds`.
    package func wait(milliseconds: Int) -> WaitResult {
        var entries = [
            pollfd(fd: sleepEnd, events: Int16(POLLIN), revents: 0),
            pollfd(fd: notices, events: Int16(POLLIN), revents: 0),
        ]
        // poll ignores a negative descriptor.
        guard poll(&entries, 2, Int32(clamping: milliseconds)) > 0 else { return .timedOut }
        if entries[0].revents != 0 {
            drain(sleepEnd)
            return .woken
        }
        drain(notices)
        return .changed
    }

    /// Watches the parent of `path`, to notice when `path` is replaced.
    @discardableResult
    package func watch(parentOf path: String) -> Bool {
        notices >= 0 && inotify_add_watch(notices, PathLook.parent(of: path), Self.mask) >= 0
    }

    /// Ends the current wait or the next one.
    package func wake() {
        var byte: UInt8 = 1
        // A full socket wakes the waiting thread too.
        _ = write(wakeEnd, &byte, 1)
    }

    private func drain(_ descriptor: Int32) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        while read(descriptor, &bytes, bytes.count) > 0 {}
    }
}
