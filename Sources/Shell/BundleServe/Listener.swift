import NIOCore
import NIOPosix

/// A listening socket and the connections that it accepted. Both are closed with its last reference.
///
/// All of it runs on one thread, which all servers of the process share and which never ends.
package final class Listener: Sendable {
    package let port: Int

    private let channel: any Channel
    private let table: NIOLoopBound<ConnectionTable>

    private init(_ channel: any Channel, port: Int, _ table: NIOLoopBound<ConnectionTable>) {
        self.channel = channel
        self.port = port
        self.table = table
    }

    deinit {
        channel.close(promise: nil)
        ServerLoop.loop.execute { [table] in table.value.closeAll() }
    }

    /// Listens, and responds with the service that `service` creates for the port. Throws errors of NIO.
    package static func bind(
        address: String, port: Int, _ limits: ServerLimits, backlog: Int32 = 128,
        service: (_ port: Int) throws -> any Service
    ) async throws -> Listener {
        let loop = ServerLoop.loop
        let table = try await loop.submit {
            NIOLoopBound(ConnectionTable(limits, loop), eventLoop: loop)
        }.get()
        let channel = try await ServerBootstrap(group: loop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: backlog)
            .serverChannelOption(.maxMessagesPerRead, value: 1)
            // No connection is accepted before the port is known, because requests are checked against it.
            .serverChannelOption(.autoRead, value: false)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let gate = AcceptGate(limit: limits.connections) { table.value.closeIdleConnection() }
                    table.value.gate = gate
                    try channel.pipeline.syncOperations.addHandler(gate)
                }
            }
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try table.value.connect(channel.pipeline.syncOperations)
                }
            }
            .bind(to: try SocketAddress(ipAddress: address, port: port)).get()
        let bound = channel.localAddress?.port ?? port
        let service = try service(bound)
        try await loop.submit { table.value.service = service }.get()
        try await channel.setOption(.autoRead, value: true).get()
        return Listener(channel, port: bound, table)
    }

    /// Returns when the thread of the servers responds. A stuck thread never returns.
    package func answer() async { try? await ServerLoop.loop.submit {}.get() }

    /// Closes the listener. Responses may continue for `grace`, then all connections are closed.
    package func stop(grace: Duration) async {
        try? await channel.close()
        let table = table
        let stopped = ServerLoop.loop.flatSubmit { table.value.stop() }
        let end = ServerLoop.loop.scheduleTask(in: TimeAmount(grace)) { table.value.closeAll() }
        try? await stopped.get()
        end.cancel()
    }
}

/// The thread of all servers in the process.
enum ServerLoop {
    static let loop: any EventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()
}

/// Limits the connections of a server. Connections above the limit wait, one here and the others in the kernel's
/// queue. The gate requests the closing of an idle connection for the waiting one.
final class AcceptGate: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    private let limit: Int
    private let closeIdleConnection: () -> Void
    private var open: Set<ObjectIdentifier> = []
    private var waiting: [any Channel] = []
    private var holdsRead = false
    private var context: ChannelHandlerContext?

    init(limit: Int, closeIdleConnection: @escaping () -> Void) {
        self.limit = limit
        self.closeIdleConnection = closeIdleConnection
    }

    /// Whether a connection is waiting.
    var isFull: Bool { !waiting.isEmpty }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// Stops counting a connection that has ended or is counted elsewhere.
    func release(_ channel: any Channel) {
        guard open.remove(ObjectIdentifier(channel)) != nil, let context else { return }
        admit(context)
    }

    func read(context: ChannelHandlerContext) {
        if waiting.isEmpty { context.read() } else { holdsRead = true }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        waiting.append(unwrapInboundIn(data))
        admit(context)
        if !waiting.isEmpty { closeIdleConnection() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        for channel in waiting { channel.close(promise: nil) }
        waiting = []
        context.fireChannelInactive()
    }

    private func admit(_ context: ChannelHandlerContext) {
        while open.count < limit, let channel = waiting.first {
            waiting.removeFirst()
            open.insert(ObjectIdentifier(channel))
            channel.closeFuture.assumeIsolated().whenComplete { [self] _ in release(channel) }
            context.fireChannelRead(wrapInboundOut(channel))
        }
        guard waiting.isEmpty, holdsRead else { return }
        holdsRead = false
        context.read()
    }
}
