package import ShellBoot
import Synchronization

/// Keeps the record of a device's sessions for as long as it lives, and can be told to fail.
package final class InMemorySessionRepository: SessionRepository {
    /// What it says when it is told to fail.
    package struct Broken: Error {
        /// It is all there is to say.
        package init() {}
    }

    private struct State {
        var record: SessionRecord
        var failsReading = false
        var failsWriting = false
        var changes = 0
    }

    private let state: Mutex<State>

    /// Begins with `record`.
    package init(_ record: SessionRecord = .open) { state = Mutex(State(record: record)) }

    /// How often the record has become another one.
    package var changeCount: Int { state.withLock { $0.changes } }

    /// What is kept, also when it is told to fail.
    package var kept: SessionRecord { state.withLock { $0.record } }

    /// From now on it cannot be read, or cannot be changed, or both.
    package func fail(reading: Bool, writing: Bool) {
        state.withLock { state in
            state.failsReading = reading
            state.failsWriting = writing
        }
    }

    /// What is remembered.
    package func record() throws -> SessionRecord {
        try state.withLock { state in
            if state.failsReading { throw Broken() }
            return state.record
        }
    }

    /// Changes what is remembered.
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
