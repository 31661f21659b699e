import Synchronization

/// A value that arrives later, and the task that waits for it. The first of a value, an error and the cancellation of the
/// task wins.
package final class Promised<Value: Sendable>: Sendable {
    private enum State {
        case open
        case waited(CheckedContinuation<Value, any Error>)
        case settled(Result<Value, any Error>)
    }

    private let state = Mutex(State.open)

    package init() {}

    /// Whether there is a result.
    package var isSettled: Bool {
        state.withLock { state in
            if case .settled = state { true } else { false }
        }
    }

    /// Sets the result. Returns false if there was one.
    @discardableResult
    package func settle(_ result: Result<Value, any Error>) -> Bool {
        let (isFirst, waiting) = state.withLock { state in
            switch state {
            case .settled: return (false, nil as CheckedContinuation<Value, any Error>?)
            case .open:
                state = .settled(result)
                return (true, nil)
            case .waited(let continuation):
                state = .settled(result)
                return (true, continuation)
            }
        }
        waiting?.resume(with: result)
        return isFirst
    }

    /// The value. Throws `CancellationError` if the task is cancelled first.
    package var value: Value {
        get async throws {
            try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    let settled = state.withLock { state -> Result<Value, any Error>? in
                        switch state {
                        case .settled(let result): return result
                        case .open:
                            state = .waited(continuation)
                            return nil
                        // Another task waits already.
                        case .waited: return .failure(CancellationError())
                        }
                    }
                    if let settled { continuation.resume(with: settled) }
                }
            } onCancel: {
                settle(.failure(CancellationError()))
            }
        }
    }
}
