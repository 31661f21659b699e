import Synchronization

/// A value that comes later and the one task that waits for it. What is first counts: a value, a failure, or the
/// cancellation of the task.
package final class Promised<Value: Sendable>: Sendable {
    private enum State {
        case open
        case waited(CheckedContinuation<Value, any Error>)
        case settled(Result<Value, any Error>)
    }

    private let state = Mutex(State.open)

    package init() {}

    /// Whether something counts already.
    package var isSettled: Bool {
        state.withLock { state in
            if case .settled = state { true } else { false }
        }
    }

    /// Whether this was the first, and so the one that counts.
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

    /// Waits for it; throws `CancellationError` when the task is cancelled first.
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
                        // There is one that waits already.
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
