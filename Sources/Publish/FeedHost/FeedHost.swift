package import BundleDisk
package import BundleServe
import BundleSockets
import NIOCore

/// A feed over HTTP, and a word to whoever listens at `/push` when one of its channels changes; or a relay, which has that word only.
package final class FeedHost: Sendable {
    /// Where devices listen.
    package static let pushPath = "/push"

    private let server: FeedServer
    private let announcer: Announcer
    private let watch: any ChannelWatch

    /// The port it listens on.
    package var port: Int { server.port }

    private init(_ server: FeedServer, _ announcer: Announcer, _ watch: any ChannelWatch) {
        self.server = server
        self.announcer = announcer
        self.watch = watch
    }

    /// Serves `feed`, and whatever folder takes its place at its path, with push; `say` is told what people should know. Throws
    /// `ServerFailure`, and `DiskError` where nothing can be watched.
    package static func start(
        _ configuration: FeedConfiguration, serving feed: Directory, say: @escaping @Sendable (String) -> Void
    ) async throws -> FeedHost {
        let announcer = Announcer()
        // Whoever connects first is told what there is.
        announcer.update(to: ChannelSequences().read(again: ChannelSequences.folder(in: feed)))
        let watch = try FeedFolderWatch(announcer, say)
        var served = configuration
        served.feed = feed
        served.push = SocketSwitch(pushPath, limits) { announcer.add($0, $1) }
        let server = try await FeedServer.start(served)
        do {
            try watch.begin(at: feed) { server.show($0) }
            return FeedHost(server, announcer, watch)
        } catch {
            await server.stop(grace: .zero)
            throw error
        }
    }

    /// Serves no file, and announces what the documents of `upstream` have; `say` is told what people should know. Throws
    /// `ServerFailure`.
    package static func start(
        _ configuration: FeedConfiguration, relaying upstream: Upstream, say: @escaping @Sendable (String) -> Void
    ) async throws -> FeedHost {
        let announcer = Announcer()
        let watch = UpstreamWatch(upstream, announcer, say: say)
        var served = configuration
        served.feed = nil
        served.push = SocketSwitch(pushPath, limits) { socket, subscription in
            announcer.add(socket, subscription)
            guard watch.enter(subscription) else { return }
            socket.closed.whenComplete { _ in watch.leave(subscription) }
        }
        let server = try await FeedServer.start(served)
        watch.begin()
        return FeedHost(server, announcer, watch)
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

    /// Returns when the server's thread has come round to this question: never, where it hangs.
    package func answer() async { await server.answer() }

    /// Ends in good order: nobody comes in any more, sockets are told farewell, and answers under way may go on for `grace`.
    package func stop(grace: Duration) async {
        await watch.stop()
        async let sockets: Void = announcer.close()
        await server.stop(grace: grace)
        await sockets
    }
}

/// Whoever finds out what channels have, and tells an `Announcer`.
protocol ChannelWatch: Sendable {
    /// Ends it, and returns when it has ended.
    func stop() async
}
