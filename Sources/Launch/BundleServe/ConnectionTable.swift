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
    private(set) var isStopping = false
    /// What the connections serve; there are none before it is known.
    var service: (any Service)?

    init(_ limits: ServerLimits, _ loop: any EventLoop) {
        self.loop = loop
        room = limits.bodies
        slowBody = TimeAmount(limits.slowBody)
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

    /// Ends the connection that has been waiting for a request for the longest time, where there is one: of many that say nothing, or a
    /// little now and then, none keeps others out.
    func makeRoom() { connections.values.filter(\.isWaiting).min { $0.waitsSince < $1.waitsSince }?.close() }

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
    }

    func remove(_ connection: Connection) {
        connections[ObjectIdentifier(connection)] = nil
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
