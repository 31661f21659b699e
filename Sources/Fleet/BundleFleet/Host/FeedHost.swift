package import BundleDisk
package import BundleServe
import BundleSockets
package import BundleValues
import NIOCore

/// An HTTP server of a feed that announces changes of its channels at `/push`; or a relay, which only announces.
package final class FeedHost: Sendable {
    /// The path of the WebSocket.
    package static let pushPath = "/push"

    private let server: FeedServer
    private let announcer: Announcer
    private let watch: any ChannelWatch

    /// The listening port.
    package var port: Int { server.port }

    private init(_ server: FeedServer, _ announcer: Announcer, _ watch: any ChannelWatch) {
        self.server = server
        self.announcer = announcer
        self.watch = watch
    }

    /// Serves `feed`, and any folder that replaces it at its path, with announcements. Throws
    /// `ServerFailure`, or `DiskError` if nothing can be watched.
    package static func start(
        _ configuration: FeedConfiguration, serving feed: Directory, environment: Environment
    ) async throws -> FeedHost {
        let announcer = Announcer()
        // The first client must receive the present sequences.
        announcer.update(to: ChannelSequences().read(again: ChannelSequences.folder(in: feed)))
        let watch = try FeedFolderWatch(announcer, environment: environment)
        var served = configuration
        served.feed = feed
        served.push = SocketSwitch(pushPath, limits) { announcer.add($0, to: $1) }
        let server = try await FeedServer.start(served)
        do {
            try watch.begin(at: feed) { server.show($0) }
            return FeedHost(server, announcer, watch)
        } catch {
            await server.stop(grace: .zero)
            throw error
        }
    }

    /// Announces the channels of `upstream`, and serves the files of its releases from `cache`; without a cache, no files.
    /// Throws `ServerFailure`, or `DiskError` if the cache cannot be read.
    package static func start(
        _ configuration: FeedConfiguration, relaying upstream: Upstream, cache: (folder: Directory, bytes: Int)? = nil,
        environment: Environment
    ) async throws -> FeedHost {
        let announcer = Announcer()
        let watch = UpstreamWatch(upstream, announcer: announcer, environment: environment)
        var served = configuration
        served.feed = cache?.folder
        served.fill = try cache.map {
            try ReleaseCache(of: upstream, in: $0.folder, limit: $0.bytes, environment: environment)
        }
        served.push = SocketSwitch(pushPath, limits) { socket, subscription in
            announcer.add(socket, to: subscription)
            guard watch.enter(subscription) else { return }
            socket.closed.whenComplete { _ in watch.leave(subscription) }
        }
        let server = try await FeedServer.start(served)
        watch.begin()
        return FeedHost(server, announcer, watch)
    }

    /// Accepts these tokens from the next request on.
    package func admit(_ tokens: BearerTokens) { server.admit(tokens) }

    /// Accepts these tokens of operators from the next request on.
    package func admitOperators(_ tokens: BearerTokens) { server.admitOperators(tokens) }

    /// Devices send nothing and receive little.
    private static var limits: SocketLimits {
        var limits = SocketLimits()
        limits.message = 4096
        limits.unsent = 64 << 10
        limits.heartbeat = .seconds(45)
        return limits
    }

    /// Returns when the server's thread is responsive.
    package func answer() async { await server.answer() }

    /// Stops the server: it accepts no more connections, closes sockets, and gives running responses the time `grace`.
    package func stop(grace: Duration) async {
        await watch.stop()
        async let sockets: Void = announcer.close()
        await server.stop(grace: grace)
        await sockets
    }
}

/// Finds the sequences of channels and passes them to an `Announcer`.
protocol ChannelWatch: Sendable {
    /// Stops the watch and waits for its end.
    func stop() async
}
