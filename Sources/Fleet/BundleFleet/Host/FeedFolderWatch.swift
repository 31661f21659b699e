import BundleDisk
import BundleValues
import Synchronization

/// Reads the channel files of a feed folder after each change, and periodically.
final class FeedFolderWatch: ChannelWatch {
    // The wait between periodic scans in milliseconds. A scan lists the folder and reads one small file for each channel.
    private static let scanInterval = 30_000
    private static let pollInterval = 1000
    /// The wait after a change in milliseconds, because a publisher replaces several files.
    private static let calm = 15

    private let announcer: Announcer
    private let environment: Environment
    private let watch: FolderWatch
    private let thread = Mutex<BlockingThread?>(nil)

    /// Throws `DiskError` if nothing can be watched.
    init(_ announcer: Announcer, environment: Environment) throws {
        self.announcer = announcer
        self.environment = environment
        watch = try FolderWatch()
    }

    /// Starts with `feed`. `show` receives the folder that replaces it at its path. Throws `ThreadFailure`.
    func begin(at feed: Directory, show: @escaping @Sendable (Directory) -> Void) throws {
        let thread = try BlockingThread { [self] in scan(at: feed, show) }
        self.thread.withLock { $0 = thread }
    }

    func stop() async {
        watch.wake()
        thread.withLock { $0 }?.join()
    }

    /// Scans until it is woken.
    private func scan(at feed: Directory, _ show: (Directory) -> Void) {
        var feed = feed
        var hasComplained = false
        while true {
            watch.watch(parentOf: feed.path)
            if let found = Self.replacement(of: feed) {
                feed = found
                show(found)
                environment.log("another folder replaced the feed at \(feed.path); it is served from now on")
            }
            // Watches before it scans, so that a change in between causes another scan. The folder of channels can be
            // new.
            let folder = ChannelSequences.folder(in: feed)
            let isNotified = watch.watch(feed) && (folder.map { watch.watch($0) } ?? true)
            if !isNotified && !hasComplained {
                environment.log("the system does not report changes (inotify), so the channels are read every second")
                hasComplained = true
            }
            let before = announcer.sequences
            let fresh = before.read(again: folder)
            for name in fresh.unreadable.subtracting(before.unreadable).sorted() {
                environment.log("channels/\(name).json cannot be read, so it is not announced")
            }
            announcer.update(to: fresh)
            var ending = watch.wait(milliseconds: isNotified ? Self.scanInterval : Self.pollInterval)
            // Waits a few times at most, so that constant changes do not delay announcements.
            for _ in 0..<4 where ending == .changed {
                ending = watch.wait(milliseconds: Self.calm) == .woken ? .woken : ending
            }
            if ending == .woken { return }
        }
    }

    /// Returns the folder at the path of `feed` if it is another one. A removed folder is still served as far as
    /// possible.
    private static func replacement(of feed: Directory) -> Directory? {
        guard let found = try? Directory.open(feed.path), !found.isSame(as: feed) else { return nil }
        return found
    }
}
