import NIOCore

/// The body of a request, which waits at its client until a service wants it.
struct RequestBody: Sendable {
    let channel: any Channel
    private let connection: NIOLoopBound<Connection>

    init(_ connection: Connection, _ channel: any Channel) {
        self.channel = channel
        self.connection = NIOLoopBound(connection, eventLoop: channel.eventLoop)
    }

    /// Reads all of it; the service has looked at its length before. Throws when the client has gone.
    func read() async throws -> [UInt8] {
        let promise = channel.eventLoop.makePromise(of: [UInt8].self)
        channel.eventLoop.execute { [connection] in connection.value.readBody(promise) }
        return try await promise.futureResult.get()
    }
}
