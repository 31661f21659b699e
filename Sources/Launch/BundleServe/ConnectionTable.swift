import NIOCore

/// The open connections of one server, and the clock that ends those that last too long. Lives on the event loop.
final class ConnectionTable {
    private let loop: any EventLoop
    private let pause: TimeAmount
    private var connections: [ObjectIdentifier: Connection] = [:]
    private var sweeping: RepeatedTask?
    private var whenEmpty: EventLoopPromise<Void>?
    /// What is left for bodies under way.
    private var room: Int
    private let slowBody: TimeAmount
    /// The connections with event streams, the oldest first, and the pages that they are for.
    private var streams: [(connection: Connection, page: String)] = []
    private let maximumStreams: Int
    private(set) var isStopping = false
    /// Counts the connections; there is none before the server listens.
    weak var gate: AcceptGate?
    /// What the connections serve; there are none before it is known.
    var service: (any Service)?

    init(_ limits: ServerLimits, _ loop: any EventLoop) {
        self.loop = loop
        room = limits.bodies
        slowBody = TimeAmount(limits.slowBody)
        maximumStreams = limits.streams
        let shortest =
            [limits.request, limits.idle, limits.stall, limits.heartbeat, limits.farewell].min() ?? .seconds(1)
        pause = min(max(TimeAmount(shortest / 8), .milliseconds(5)), .seconds(1))
    }

    /// Gives a new connection to the service.
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

    /// Closes the connection that has waited for a request the longest, else the one that has not read its response the longest. Many
    /// connections that send nothing, or read nothing, keep no other one out.
    func makeRoom() {
        if let waiting = connections.values.filter(\.isWaiting).min(by: { $0.waitsSince < $1.waitsSince }) {
            return waiting.close()
        }
        let latest = NIODeadline.now() - slowBody
        connections.values.compactMap { connection in connection.unreadSince.map { (connection, $0) } }
            .filter { $0.1 <= latest }.min { $0.1 < $1.1 }?.0.close()
    }

    /// Gives the connection of an event stream a place among the streams in exchange for the one among the connections. The stream that the
    /// page had before ends, and the oldest one where there are too many.
    func beginStream(_ connection: Connection, of page: String, on channel: any Channel) {
        let before = streams.filter { $0.page == page }
        streams.removeAll { $0.page == page }
        streams.append((connection, page))
        let surplus = streams.prefix(max(0, streams.count - maximumStreams))
        streams.removeFirst(surplus.count)
        for stream in before + surplus { stream.connection.close() }
        gate?.release(channel)
    }

    /// Whether there is room for a body of that many bytes, which is the connection's until it gives it back.
    ///
    /// Where there is none, bodies that are slow to come lose theirs, the slowest first: many that promise one and say nothing keep
    /// nobody out for long.
    func giveRoom(for length: Int) -> Bool {
        while length > room, let slowest = slowestBody() { slowest.giveWay() }
        if length > room { return false }
        room -= length
        return true
    }

    private func slowestBody() -> Connection? {
        let latest = NIODeadline.now() - slowBody
        return connections.values.compactMap { connection in connection.bodySince.map { (connection, $0) } }
            .filter { $0.1 <= latest }.min { $0.1 < $1.1 }?.0
    }

    func takeRoom(back length: Int) { room += length }

    private func sweep() {
        let now = NIODeadline.now()
        for connection in Array(connections.values) { connection.sweep(now) }
        if gate?.isFull == true { makeRoom() }
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

    /// Lets what is under way go on and ends the rest; the future is done when no connection is left.
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
