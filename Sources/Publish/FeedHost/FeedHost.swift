import BundleDisk
package import BundleServe
import BundleSockets
import BundleThreads

/// A feed over HTTP, and a word to whoever listens at `/push` when one of its channels changes.
package final class FeedHost: Sendable {
    /// Where devices listen.
    package static let pushPath = "/push"

    // A look costs one listing and as many small files as there are channels.
    private static let slowLook = 30_000
    private static let blindLook = 1000
    /// A publisher replaces more than one file.
    private static let calm = 15

    private let server: FeedServer
    private let announcer: Announcer
    private let watch: FolderWatch
    private let watcher: BlockingThread

    /// The port it listens on.
    package var port: Int { server.port }

    private init(_ server: FeedServer, _ announcer: Announcer, _ watch: FolderWatch, _ watcher: BlockingThread) {
        self.server = server
        self.announcer = announcer
        self.watch = watch
        self.watcher = watcher
    }

    /// Serves the feed of `configuration`, and whatever folder takes its place at `path`, with push; `say` is told what people
    /// should know. Throws `ServerFailure`, and `DiskError` where nothing can be watched.
    package static func start(
        _ configuration: FeedConfiguration, at path: String, say: @escaping @Sendable (String) -> Void
    ) async throws -> FeedHost {
        let announcer = Announcer()
        let watch = try FolderWatch()
        let feed = configuration.feed
        // Whoever connects first is told what there is.
        announcer.update(to: ChannelSequences().read(again: ChannelSequences.folder(in: feed)))
        var served = configuration
        served.push = SocketSwitch(
            WebSocketUpgrade(UpgradeRule(path: pushPath), limits: limits) { socket, _ in announcer.add(socket) })
        let server = try await FeedServer.start(served)
        do {
            let watcher = try BlockingThread {
                look(at: feed, watch, announcer, say) { feed in
                    watch.watch(parentOf: path)
                    guard let found = replacement(of: feed, at: path) else { return feed }
                    server.show(found)
                    say("another folder has taken the feed's place at \(path): it is served from now on")
                    return found
                }
            }
            return FeedHost(server, announcer, watch, watcher)
        } catch {
            await server.stop(grace: .zero)
            throw error
        }
    }

    /// The folder at `path`, where that is another one than `feed`; one that is gone is served on, as far as it goes.
    private static func replacement(of feed: Directory, at path: String) -> Directory? {
        guard let found = try? Directory.open(path), !found.isSame(as: feed) else { return nil }
        return found
    }

    /// Answers those with `tokens` from the next request on.
    package func admit(_ tokens: BearerTokens) { server.admit(tokens) }

    /// Devices say nothing, and are told little.
    private static var limits: SocketLimits {
        var limits = SocketLimits()
        limits.message = 4096
        limits.unsent = 64 << 10
        limits.heartbeat = .seconds(45)
        return limits
    }

    /// Looks at the channels whenever something changes in their folder, and now and then, until it is woken; `follow` gives the
    /// folder that has the feed's path by then.
    private static func look(
        at feed: Directory, _ watch: FolderWatch, _ announcer: Announcer, _ say: (String) -> Void,
        follow: (Directory) -> Directory
    ) {
        var feed = feed
        var hasComplained = false
        while true {
            feed = follow(feed)
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
            var ending = watch.wait(milliseconds: isHeard ? slowLook : blindLook)
            // A few times at most: one who changes things without end keeps nobody from hearing of them.
            for _ in 0..<4 where ending == .changed {
                ending = watch.wait(milliseconds: calm) == .woken ? .woken : ending
            }
            if ending == .woken { return }
        }
    }

    /// Returns when the server's thread has come round to this question: never, where it hangs.
    package func answer() async { await server.answer() }

    /// Ends in good order: nobody comes in any more, sockets are told farewell, and answers under way may go on for `grace`.
    package func stop(grace: Duration) async {
        watch.wake()
        watcher.join()
        async let sockets: Void = announcer.close()
        await server.stop(grace: grace)
        await sockets
    }
}
