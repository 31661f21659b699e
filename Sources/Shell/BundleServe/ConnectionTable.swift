import NIOCore

/// The open connections of one server. Closes those that exceed a time limit. It belongs to the event loop.
final class ConnectionTable {
    private let loop: any EventLoop
    private let pause: TimeAmount
    private var connections: [ObjectIdentifier: Connection] = [:]
    private var sweeping: RepeatedTask?
    private var whenEmpty: EventLoopPromise<Void>?
    /// The buffer space that is left for request bodies, in bytes.
    private var bufferSpace: Int
    private let slowBody: TimeAmount
    /// The event streams and the pages that they belong to, the oldest first.
    private var streams: [(connection: Connection, page: String)] = []
    private let maximumStreams: Int
    private(set) var isStopping = false
    /// The gate that counts the connections; nil before the server listens.
    weak var gate: AcceptGate?
    /// The service of the connections; nil before it is set.
    var service: (any Service)?

    init(_ limits: ServerLimits, _ loop: any EventLoop) {
        self.loop = loop
        bufferSpace = limits.bodies
        slowBody = TimeAmount(limits.slowBody)
        maximumStreams = limits.streams
        let shortest =
            [limits.request, limits.idle, limits.stall, limits.heartbeat, limits.closing].min() ?? .seconds(1)
        pause = min(max(TimeAmount(shortest / 8), .milliseconds(5)), .seconds(1))
    }

    /// Connects a new connection to the service.
    func connect(_ pipeline: ChannelPipeline.SynchronousOperations) throws {
        guard let service, !isStopping else { throw ChannelError.eof }
        try pipeline.addHandler(Connection(service, self))
    }

    func add(_ connection: Connection) {
        connections[ObjectIdentifier(connection)] = connection
        if sweeping != nil { return }
        let table = NIOLoopBound(self, eventLoop: loop)
        sweeping = loop.scheduleRepeatedTask(initialDelay: pause, delay: pause) { _ in table.value.sweep() }
    }

    /// Closes the connection that has waited longest for a request, or else the one that has not read its response
    /// for the longest time. Idle and stalled connections therefore do not exclude others.
    func closeIdleConnection() {
        if let waiting = connections.values.filter(\.isWaiting).min(by: { $0.waitsSince < $1.waitsSince }) {
            return waiting.close()
        }
        let latest = NIODeadline.now() - slowBody
        connections.values.compactMap { connection in connection.unreadSince.map { (connection, $0) } }
            .filter { $0.1 <= latest }.min { $0.1 < $1.1 }?.0.close()
    }

    /// Counts a connection as an event stream instead of a connection. Closes the page's former stream, and the
    /// oldest stream if there are too many.
    func beginStream(_ connection: Connection, of page: String, on channel: any Channel) {
        let before = streams.filter { $0.page == page }
        streams.removeAll { $0.page == page }
        streams.append((connection, page))
        let surplus = streams.prefix(max(0, streams.count - maximumStreams))
        streams.removeFirst(surplus.count)
        for stream in before + surplus { stream.connection.close() }
        gate?.release(channel)
    }

    /// Reserves buffer space for a body of `length` bytes, until `release`. Returns false if there is not enough.
    ///
    /// Connections with slow bodies are closed to free space, the slowest first, so unfinished bodies do not exclude
    /// others for long.
    func reserve(_ length: Int) -> Bool {
        while length > bufferSpace, let slowest = slowestBody() { slowest.closeForSpace() }
        if length > bufferSpace { return false }
        bufferSpace -= length
        return true
    }

    private func slowestBody() -> Connection? {
        let latest = NIODeadline.now() - slowBody
        return connections.values.compactMap { connection in connection.bodySince.map { (connection, $0) } }
            .filter { $0.1 <= latest }.min { $0.1 < $1.1 }?.0
    }

    func release(_ length: Int) { bufferSpace += length }

    private func sweep() {
        let now = NIODeadline.now()
        for connection in Array(connections.values) { connection.sweep(now) }
        if gate?.isFull == true { closeIdleConnection() }
    }

    func remove(_ connection: Connection) {
        connections[ObjectIdentifier(connection)] = nil
        streams.removeAll { $0.connection === connection }
        guard connections.isEmpty else { return }
        sweeping?.cancel()
        sweeping = nil
        whenEmpty?.succeed()
        whenEmpty = nil
    }

    /// Lets responses that are being sent complete, and closes the other connections. The future succeeds when no
    /// connection is left.
    func stop() -> EventLoopFuture<Void> {
        isStopping = true
        for connection in Array(connections.values) { connection.stop() }
        if connections.isEmpty { return loop.makeSucceededVoidFuture() }
        let promise = whenEmpty ?? loop.makePromise(of: Void.self)
        whenEmpty = promise
        return promise.futureResult
    }

    func closeAll() {
        for connection in Array(connections.values) { connection.close() }
    }
}
