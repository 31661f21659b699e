import ArchiveSource
package import BundleDisk
package import BundleServe
import BundleSockets
package import BundleValues
import CLibrary
import NIOCore

/// The settings of a feed's host.
package struct FeedConfiguration: Sendable {
    /// A numeric address of this machine.
    package var address = "127.0.0.1"
    /// The port; 0 selects a free one.
    package var port = 0
    /// The tokens that authorize requests; nil authorizes every request.
    package var tokens: BearerTokens?
    /// Counts the reports of devices; nil disables reports.
    package var reports: ReportCounter?
    /// The roster of devices; nil disables it.
    package var roster: RosterService?
    /// Answers the updater plugins of phones; nil disables their paths.
    package var phones: PhoneDesk?
    /// Receives every response, on the server's only thread. It must not block.
    package var log: (@Sendable (AccessEntry) -> Void)?
    package var limits = ServerLimits()

    /// Creates the defaults.
    package init() { limits.connections = 10_000 }
}

/// An HTTP/1.1 server of a feed that announces changes of its channels at `/push`; or a relay, which only announces.
package final class FeedHost: Sendable {
    /// The path of the WebSocket.
    package static let pushPath = "/push"

    private let listener: Listener
    private let service: FeedService
    private let announcer: Announcer
    private let watch: any ChannelWatch

    /// The listening port.
    package var port: Int { listener.port }

    private init(_ listener: Listener, _ service: FeedService, _ announcer: Announcer, _ watch: any ChannelWatch) {
        (self.listener, self.service, self.announcer, self.watch) = (listener, service, announcer, watch)
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
        let service = FeedService(configuration, feed: feed, cache: nil) { announcer.add($0, to: $1) }
        let listener = try await listen(configuration, service)
        do {
            try watch.begin(at: feed) { service.show($0) }
            return FeedHost(listener, service, announcer, watch)
        } catch {
            await listener.stop(grace: .zero)
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
        let releases = try cache.map {
            try ReleaseCache(of: upstream, in: $0.folder, limit: $0.bytes, environment: environment)
        }
        let service = FeedService(configuration, feed: cache?.folder, cache: releases) { socket, subscription in
            announcer.add(socket, to: subscription)
            guard watch.enter(subscription) else { return }
            socket.closed.whenComplete { _ in watch.leave(subscription) }
        }
        let listener = try await listen(configuration, service)
        watch.begin()
        return FeedHost(listener, service, announcer, watch)
    }

    private static func listen(_ configuration: FeedConfiguration, _ service: FeedService) async throws -> Listener {
        let (address, port) = (configuration.address, configuration.port)
        guard (0...65535).contains(port) else { throw ServerFailure.port(port) }
        do {
            return try await Listener.bind(address: address, port: port, configuration.limits, backlog: 1024) { _ in
                service
            }
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            throw ServerFailure.portBusy(port)
        } catch let error as IOError where error.errnoCode == EADDRNOTAVAIL {
            throw ServerFailure.address(address)
        } catch let error as IOError {
            throw ServerFailure.bind(address: address, port: port, code: error.errnoCode)
        } catch is SocketAddressError {
            throw ServerFailure.address(address)
        }
    }

    /// Authorizes requests with `tokens` from the next request on.
    package func admit(_ tokens: BearerTokens) { service.admit(tokens) }

    /// Authorizes the readers of the roster with `tokens` from the next request on.
    package func admitOperators(_ tokens: BearerTokens) { service.admitOperators(tokens) }

    /// Returns when the server's thread responds. A stuck thread never returns.
    package func answer() async { await listener.answer() }

    /// Stops the host: it accepts no more connections, closes sockets, and gives running responses the time `grace`.
    package func stop(grace: Duration) async {
        await watch.stop()
        async let sockets: Void = announcer.close()
        await listener.stop(grace: grace)
        await sockets
    }
}

/// Finds the sequences of channels and passes them to an `Announcer`.
protocol ChannelWatch: Sendable {
    /// Stops the watch and waits for its end.
    func stop() async
}
