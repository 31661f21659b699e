import NIOCore
import NIOPosix

/// A listening socket with the connections that it accepted, whatever they are answered from; both are closed with its last reference.
///
/// Everything but a host's own work happens on one thread, which all servers of the process share and which never ends.
final class Listener: Sendable {
    let port: Int

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

    /// Listens, and answers from what `service` makes of the port. Throws NIO's errors.
    static func bind(
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
            // Nothing is accepted before the port is known, which requests are checked against.
            .serverChannelOption(.autoRead, value: false)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let gate = AcceptGate(limit: limits.connections) { table.value.makeRoom() }
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

    /// Returns when the thread of all servers has come round to this question: never, where it hangs.
    func answer() async { try? await ServerLoop.loop.submit {}.get() }

    /// Closes the listener and ends what lasts; answers that are under way may go on for `grace`, then everything is closed.
    func stop(grace: Duration) async {
        try? await channel.close()
        let table = table
        let stopped = ServerLoop.loop.flatSubmit { table.value.stop() }
        let end = ServerLoop.loop.scheduleTask(in: TimeAmount(grace)) { table.value.closeAll() }
        try? await stopped.get()
        end.cancel()
    }
}

/// The thread of all servers.
enum ServerLoop {
    static let loop: any EventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()
}

/// Stands before the connections of a server: those over the limit wait here, one in the program and the rest in the kernel's queue, and
/// room is made for the one that waits where that takes nothing from anybody.
final class AcceptGate: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    private let limit: Int
    private let makeRoom: () -> Void
    private var open: Set<ObjectIdentifier> = []
    private var waiting: [any Channel] = []
    private var holdsRead = false
    private var context: ChannelHandlerContext?

    init(limit: Int, makeRoom: @escaping () -> Void) {
        self.limit = limit
        self.makeRoom = makeRoom
    }

    /// Whether a connection waits for room.
    var isFull: Bool { !waiting.isEmpty }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// Stops counting a connection, which has ended or has a limit of its own by now.
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
        if !waiting.isEmpty { makeRoom() }
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
