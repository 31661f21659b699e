/// What answers the requests of one server.
protocol Service: AnyObject, Sendable {
    var limits: ServerLimits { get }
    var fields: ResponseFields { get }
    /// Told of every response, on the server's thread; nil where nobody wants to know.
    var log: (@Sendable (AccessEntry) -> Void)? { get }

    /// The response to a request. Starts on the server's thread, so that what needs no wait is answered without one; what may
    /// take long is somebody else's to do (`elsewhere`).
    nonisolated(nonsending) func respond(to request: Request) async -> Response
}

extension Service {
    var log: (@Sendable (AccessEntry) -> Void)? { nil }

    /// Lets somebody work who may take a while, and not on the server's thread.
    nonisolated(nonsending) func elsewhere<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        // A page does not wait for what the process does in the background.
        try await Task(priority: .high, operation: work).value
    }
}
