import BundleDisk
import BundleThreads
import Synchronization

/// Looks at the channels of a feed's folder whenever something changes there, and now and then.
final class FeedFolderWatch: ChannelWatch {
    // A look costs one listing and as many small files as there are channels.
    private static let slowLook = 30_000
    private static let blindLook = 1000
    /// A publisher replaces more than one file.
    private static let calm = 15

    private let announcer: Announcer
    private let say: @Sendable (String) -> Void
    private let watch: FolderWatch
    private let thread = Mutex<BlockingThread?>(nil)

    /// One that has not begun. Throws `DiskError` where nothing can be watched.
    init(_ announcer: Announcer, _ say: @escaping @Sendable (String) -> Void) throws {
        self.announcer = announcer
        self.say = say
        watch = try FolderWatch()
    }

    /// Begins with `feed`; `show` is given whatever other folder is at its path by then. Throws `ThreadFailure`.
    func begin(at feed: Directory, show: @escaping @Sendable (Directory) -> Void) throws {
        let thread = try BlockingThread { [self] in look(at: feed, show) }
        self.thread.withLock { $0 = thread }
    }

    func stop() async {
        watch.wake()
        thread.withLock { $0 }?.join()
    }

    /// Looks until it is woken.
    private func look(at feed: Directory, _ show: (Directory) -> Void) {
        var feed = feed
        var hasComplained = false
        while true {
            watch.watch(parentOf: feed.path)
            if let found = Self.replacement(of: feed) {
                feed = found
                show(found)
                say("another folder has taken the feed's place at \(feed.path): it is served from now on")
            }
            // Watched first, looked at then: what changes between the two is looked at again. The channels' folder may be new.
            let folder = ChannelSequences.folder(in: feed)
            let isHeard = watch.watch(feed) && (folder.map { watch.watch($0) } ?? true)
            if !isHeard && !hasComplained {
                say("the system tells of no changes (inotify), so the channels are looked at every second")
                hasComplained = true
            }
            let before = announcer.sequences
            let fresh = before.read(again: folder)
            for name in fresh.unreadable.subtracting(before.unreadable).sorted() {
                say("channels/\(name).json cannot be read, so nobody is told of it")
            }
            announcer.update(to: fresh)
            var ending = watch.wait(milliseconds: isHeard ? Self.slowLook : Self.blindLook)
            // A few times at most: one who changes things without end keeps nobody from hearing of them.
            for _ in 0..<4 where ending == .changed {
                ending = watch.wait(milliseconds: Self.calm) == .woken ? .woken : ending
            }
            if ending == .woken { return }
        }
    }

    /// The folder at the path of `feed`, where that is another one; one that is gone is served on, as far as it goes.
    private static func replacement(of feed: Directory) -> Directory? {
        guard let found = try? Directory.open(feed.path), !found.isSame(as: feed) else { return nil }
        return found
    }
}
