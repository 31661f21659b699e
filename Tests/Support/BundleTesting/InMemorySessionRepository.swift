package import BundleShell
import Synchronization

/// A session repository in memory that can fail on request.
package final class InMemorySessionRepository: SessionRepository {
    /// The error of a failure on request.
    package struct Broken: Error {
        package init() {}
    }

    private struct State {
        var record: SessionRecord
        var failsReading = false
        var failsWriting = false
        var changes = 0
    }

    private let state: Mutex<State>

    package init(_ record: SessionRecord = .open) { state = Mutex(State(record: record)) }

    /// The number of changes of the record.
    package var changeCount: Int { state.withLock { $0.changes } }

    /// The record, even while reading fails.
    package var kept: SessionRecord { state.withLock { $0.record } }

    /// Makes reading or writing fail from now on.
    package func fail(reading: Bool, writing: Bool) {
        state.withLock { state in
            state.failsReading = reading
            state.failsWriting = writing
        }
    }

    package func record() throws -> SessionRecord {
        try state.withLock { state in
            if state.failsReading { throw Broken() }
            return state.record
        }
    }

    @discardableResult
    package func change(_ body: @Sendable (inout SessionRecord) -> Void) throws -> SessionRecord {
        try state.withLock { state in
            if state.failsReading || state.failsWriting { throw Broken() }
            var next = state.record
            body(&next)
            if next != state.record { state.changes += 1 }
            state.record = next
            return next
        }
    }
}
