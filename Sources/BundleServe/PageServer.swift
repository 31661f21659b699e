import NIOCore
import NIOPosix

/// A loopback HTTP/1.1 server that shows one client to browsers on the same machine.
///
/// Everything but the host's own work happens on one thread, which all servers of the process share and which never ends.
public final class PageServer: Sendable {
    private static let loop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()

    /// The port it listens on.
    public let port: Int
    /// The port that was wanted. Where `port` is another one, browsers find nothing that the client stored before.
    public let wantedPort: Int

    private let listener: any Channel
    private let table: NIOLoopBound<ConnectionTable>

    private init(_ listener: any Channel, port: Int, wantedPort: Int, _ table: NIOLoopBound<ConnectionTable>) {
        self.listener = listener
        self.port = port
        self.wantedPort = wantedPort
        self.table = table
    }

    /// Listens on 127.0.0.1, and answers from `host`. Throws `ServerFailure`.
    public static func start(_ configuration: ServerConfiguration, host: any PageHost) async throws -> PageServer {
        let choice = configuration.port
        guard (0...65535).contains(choice.wanted) else { throw ServerFailure.port(choice.wanted) }
        // What is wrong with the configuration is told before any port is taken.
        _ = try Service(configuration, port: choice.wanted, host: host)
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
        let limits = configuration.limits
        let table = try await loop.submit { NIOLoopBound(ConnectionTable(limits, loop), eventLoop: loop) }.get()
        let listener = try await ServerBootstrap(group: loop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: 128)
            .serverChannelOption(.maxMessagesPerRead, value: 1)
            // Nothing is accepted before the port is known, which requests are checked against.
            .serverChannelOption(.autoRead, value: false)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptGate(limit: limits.connections))
                }
            }
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try table.value.connect(channel.pipeline.syncOperations)
                }
            }
            .bind(to: try SocketAddress(ipAddress: "127.0.0.1", port: candidate)).get()
        let port = listener.localAddress?.port ?? candidate
        let service = try Service(configuration, port: port, host: host)
        try await loop.submit { table.value.service = service }.get()
        try await listener.setOption(.autoRead, value: true).get()
        let wanted = configuration.port.wanted
        return PageServer(listener, port: port, wantedPort: wanted == 0 ? port : wanted, table)
    }

    /// Closes the listener and ends the streams of events; answers that are under way may go on for `grace`, then everything is closed.
    public func stop(grace: Duration) async {
        try? await listener.close()
        let table = table
        let stopped = Self.loop.flatSubmit { table.value.stop() }
        let end = Self.loop.scheduleTask(in: TimeAmount(grace)) { table.value.closeAll() }
        try? await stopped.get()
        end.cancel()
    }
}
