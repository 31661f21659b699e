/// Returns the result of `work`, or throws `error` after `limit`.
///
/// The work must end soon after its cancellation. A value that it still returns then is passed to `discard`.
package func within<Value: Sendable>(
    _ limit: Duration, else error: TransportError, on clock: any Clock<Duration> = SuspendingClock(),
    discard: @escaping @Sendable (Value) async -> Void = { _ in }, _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await work() }
        group.addTask {
            try await clock.sleep(for: limit)
            return nil
        }
        let first: Result<Value?, any Error>
        do { first = .success(try await group.next() ?? nil) } catch { first = .failure(error) }
        group.cancelAll()
        while let late = await group.nextResult() {
            if case .success(let value?) = late { await discard(value) }
        }
        guard let value = try first.get() else { throw error }
        return value
    }
}
