import Glibc

/// Hears of changed names in folders, where the kernel tells of them (inotify), and waits for a time where it does not.
package final class FolderWatch: Sendable {
    /// Why waiting ended.
    package enum Ending: Sendable { case changed, timeOver, woken }

    // What a publisher's rename is, and what other tools do.
    private static let mask =
        UInt32(IN_MOVED_TO) | UInt32(IN_MOVED_FROM) | UInt32(IN_CLOSE_WRITE) | UInt32(IN_CREATE) | UInt32(IN_DELETE)

    /// Negative where the system has none to give.
    private let notices: Int32
    private let wakeEnd: Int32
    private let sleepEnd: Int32

    /// A watch that watches nothing yet.
    package init() throws(DiskError) {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        _ = try checked(socketpair(AF_UNIX, kind, 0, &ends), "open", "a pair of sockets")
        (sleepEnd, wakeEnd) = (ends[0], ends[1])
        notices = inotify_init1(O_CLOEXEC | O_NONBLOCK)
    }

    deinit {
        for descriptor in [notices, wakeEnd, sleepEnd] where descriptor >= 0 { close(descriptor) }
    }

    /// Watches a folder for as long as it exists; once more is no more. False where the system cannot.
    @discardableResult
    package func watch(_ folder: Directory) -> Bool {
        // By descriptor, since whatever has the path now may be another folder.
        notices >= 0 && inotify_add_watch(notices, "/proc/self/fd/\(folder.descriptor)", Self.mask) >= 0
    }

    /// Waits until something changed, at most `milliseconds`.
    package func wait(milliseconds: Int) -> Ending {
        var entries = [
            pollfd(fd: sleepEnd, events: Int16(POLLIN), revents: 0),
            pollfd(fd: notices, events: Int16(POLLIN), revents: 0),
        ]
        // A negative descriptor is passed over.
        guard poll(&entries, 2, Int32(clamping: milliseconds)) > 0 else { return .timeOver }
        if entries[0].revents != 0 {
            drain(sleepEnd)
            return .woken
        }
        drain(notices)
        return .changed
    }

    /// Watches the folder that has `path`, to hear when another one takes its place.
    @discardableResult
    package func watch(parentOf path: String) -> Bool {
        var end = path.endIndex
        while end > path.startIndex, path[path.index(before: end)] == "/" { end = path.index(before: end) }
        let parent = path[..<end].lastIndex(of: "/").map { "\(path[...$0])" } ?? "."
        return notices >= 0 && inotify_add_watch(notices, parent, Self.mask) >= 0
    }

    /// Ends the waiting that is under way, or the next.
    package func wake() {
        var byte: UInt8 = 1
        // A full pipe wakes as well.
        _ = write(wakeEnd, &byte, 1)
    }

    private func drain(_ descriptor: Int32) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        while read(descriptor, &bytes, bytes.count) > 0 {}
    }
}
