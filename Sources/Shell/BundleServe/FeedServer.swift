package import BundleDisk
import CLibrary
import NIOCore

/// The settings of a feed's server.
package struct FeedConfiguration: Sendable {
    /// The folder of the feed; nil for a server without files.
    package var feed: Directory?
    /// Fetches the files of releases that the folder does not have; nil for a folder that is the feed itself.
    package var fill: (any FileFill)?
    /// A numeric address of this machine.
    package var address = "127.0.0.1"
    /// The port; 0 selects a free one.
    package var port = 0
    /// The tokens that authorize requests; nil authorizes every request.
    package var tokens: BearerTokens?
    /// The protocol that requests for `/push` switch to; nil disables push.
    package var push: (any ProtocolSwitch)?
    /// The receiver of device reports; nil disables reports.
    package var reports: (any ReportReceiver)?
    /// The roster of devices; nil disables it.
    package var roster: RosterService?
    /// Answers the updater plugins of phones; nil disables their paths.
    package var phones: (any PhoneReceiver)?
    /// Receives every response, on the server's only thread. It must not block.
    package var log: (@Sendable (AccessEntry) -> Void)?
    package var limits = ServerLimits()

    /// Creates the defaults, without files.
    package init() { limits.connections = 10_000 }
}

/// An HTTP/1.1 server that serves the files of a feed to devices.
package final class FeedServer: Sendable {
    /// The port that it listens on.
    package let port: Int

    private let listener: Listener
    private let service: FeedService

    private init(_ listener: Listener, _ service: FeedService) {
        (self.listener, self.service) = (listener, service)
        port = listener.port
    }

    /// Starts a server. Throws `ServerFailure`.
    package static func start(_ configuration: FeedConfiguration) async throws -> FeedServer {
        let (address, port) = (configuration.address, configuration.port)
        guard (0...65535).contains(port) else { throw ServerFailure.port(port) }
        let service = FeedService(configuration)
        do {
            return FeedServer(
                try await Listener.bind(address: address, port: port, configuration.limits, backlog: 1024) { _ in
                    service
                }, service)
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

    /// Serves the folder `feed` from the next request on.
    package func show(_ feed: Directory) { service.show(feed) }

    /// Authorizes requests with `tokens` from the next request on.
    package func admit(_ tokens: BearerTokens) { service.admit(tokens) }

    /// Authorizes the readers of the roster with `tokens` from the next request on.
    package func admitOperators(_ tokens: BearerTokens) { service.admitOperators(tokens) }

    /// Returns when the server's thread responds. A stuck thread never returns.
    package func answer() async { await listener.answer() }

    /// Closes the listener. Responses may continue for `grace`, then all HTTP connections are closed.
    package func stop(grace: Duration) async { await listener.stop(grace: grace) }
}
