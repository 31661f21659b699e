import NIOCore
import NIOPosix

/// A loopback HTTP/1.1 server that shows one client to browsers on the same machine.
///
/// All but the host's own work runs on one thread, which all servers of the process share and which never ends.
package final class PageServer: Sendable {
    /// The port that it listens on.
    package let port: Int
    /// The preferred port. If `port` differs, browsers do not find data that the client stored before.
    package let wantedPort: Int

    private let listener: Listener
    private let sockets: PageSockets?

    private init(_ listener: Listener, _ sockets: PageSockets?, wantedPort: Int) {
        self.listener = listener
        self.sockets = sockets
        port = listener.port
        self.wantedPort = wantedPort
    }

    /// Listens on 127.0.0.1 and responds from `host`. Throws `ServerFailure`.
    package static func start(_ configuration: ServerConfiguration, host: any PageHost) async throws -> PageServer {
        let choice = configuration.port
        guard (0...65535).contains(choice.wanted) else { throw ServerFailure.port(choice.wanted) }
        // Errors in the configuration are reported before a port is used.
        _ = try PageService(configuration, port: choice.wanted, host: host)
        for candidate in choice.candidates {
            do {
                return try await listen(candidate, configuration, host)
            } catch let error as IOError where error.errnoCode == EADDRINUSE {
                continue
            } catch let error as IOError {
                throw ServerFailure.bind(port: candidate, code: error.errnoCode)
            }
        }
        if case .derived = choice { throw ServerFailure.rangeBusy(PortChoice.range) }
        throw ServerFailure.portBusy(choice.wanted)
    }

    private static func listen(
        _ candidate: Int, _ configuration: ServerConfiguration, _ host: any PageHost
    ) async throws -> PageServer {
        var sockets: PageSockets?
        let listener = try await Listener.bind(address: "127.0.0.1", port: candidate, configuration.limits) { port in
            let service = try PageService(configuration, port: port, host: host)
            sockets = service.sockets
            return service
        }
        let wanted = configuration.port.wanted
        return PageServer(listener, sockets, wantedPort: wanted == 0 ? listener.port : wanted)
    }

    /// Returns when the server's thread responds. A stuck thread never returns.
    package func answer() async { await listener.answer() }

    /// Closes the listener, the event streams and the WebSockets. Responses may continue for `grace`, then all connections
    /// are closed.
    package func stop(grace: Duration) async {
        sockets?.close()
        await listener.stop(grace: grace)
    }
}
