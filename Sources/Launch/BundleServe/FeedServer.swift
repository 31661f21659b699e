package import BundleDisk
import Glibc
import NIOCore

/// How a feed is served.
package struct FeedConfiguration: Sendable {
    /// The feed's folder; nil for a server that has no files.
    package var feed: Directory?
    /// An address of this machine, in numbers.
    package var address = "127.0.0.1"
    /// The port; 0 is any that is free.
    package var port = 0
    /// Whose requests are answered; nil is everybody's.
    package var tokens: BearerTokens?
    /// What requests for `/push` switch to; nil is nothing.
    package var push: (any ProtocolSwitch)?
    /// Who takes what devices report; nil is nobody.
    package var reports: (any ReportReceiver)?
    /// Told of every answer, on the server's one thread: must not block.
    package var log: (@Sendable (AccessEntry) -> Void)?
    /// How much and how long.
    package var limits = ServerLimits()

    /// The defaults, without files.
    package init() { limits.connections = 10_000 }
}

/// An HTTP/1.1 server that shows the files of a feed to devices.
package final class FeedServer: Sendable {
    /// The port it listens on.
    package let port: Int

    private let listener: Listener
    private let service: FeedService

    private init(_ listener: Listener, _ service: FeedService) {
        (self.listener, self.service) = (listener, service)
        port = listener.port
    }

    /// Listens. Throws `ServerFailure`.
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

    /// Shows this folder from the next request on.
    package func show(_ feed: Directory) { service.show(feed) }

    /// Answers those with `tokens` from the next request on.
    package func admit(_ tokens: BearerTokens) { service.admit(tokens) }

    /// Returns when the server's thread has come round to this question: never, where it hangs.
    package func answer() async { await listener.answer() }

    /// Closes the listener; answers that are under way may go on for `grace`, then every connection is closed that HTTP still has.
    package func stop(grace: Duration) async { await listener.stop(grace: grace) }
}
