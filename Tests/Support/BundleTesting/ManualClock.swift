import Synchronization

/// A clock that only a test advances.
package final class ManualClock: Clock {
    package struct Instant: InstantProtocol {
        package let sinceStart: Duration

        package func advanced(by duration: Duration) -> Instant { Instant(sinceStart: sinceStart + duration) }

        package func duration(to other: Instant) -> Duration { other.sinceStart - sinceStart }

        package static func < (left: Instant, right: Instant) -> Bool { left.sinceStart < right.sinceStart }
    }

    private struct Sleeper {
        let number: Int
        let end: Instant
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var now = Instant(sinceStart: .zero)
        var sleepers: [Sleeper] = []
        var cancelled: Set<Int> = []
        var lastNumber = 0
        var watchers: [(wanted: (State) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []

        /// Removes and returns the waiting tasks whose condition is true now.
        mutating func satisfied() -> [CheckedContinuation<Void, Never>] {
            let state = self
            let met = watchers.filter { $0.wanted(state) }.map(\.continuation)
            watchers.removeAll { $0.wanted(state) }
            return met
        }
    }

    private let state = Mutex(State())

    package init() {}

    package var now: Instant { state.withLock { $0.now } }

    package var minimumResolution: Duration { Duration(secondsComponent: 0, attosecondsComponent: 1) }

    /// Returns when the clock reaches `deadline`. Throws when the task is cancelled.
    package func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                enter(Sleeper(number: number, end: deadline, continuation: continuation))
            }
        } onCancel: {
            cancel(number)
        }
    }

    private func enter(_ sleeper: Sleeper) {
        enum Answer { case slept, cancelled, sleeps }
        let (answer, met) = state.withLock { state in
            if state.cancelled.remove(sleeper.number) != nil { return (Answer.cancelled, state.satisfied()) }
            if sleeper.end <= state.now { return (Answer.slept, state.satisfied()) }
            state.sleepers.append(sleeper)
            return (Answer.sleeps, state.satisfied())
        }
        switch answer {
        case .slept: sleeper.continuation.resume()
        case .cancelled: sleeper.continuation.resume(throwing: CancellationError())
        case .sleeps: break
        }
        for continuation in met { continuation.resume() }
    }

    private func cancel(_ number: Int) {
        let (found, met) = state.withLock { state in
            let found = state.sleepers.first { $0.number == number }
            state.sleepers.removeAll { $0.number == number }
            // The task was cancelled before it started to sleep.
            if found == nil { state.cancelled.insert(number) }
            return (found, state.satisfied())
        }
        found?.continuation.resume(throwing: CancellationError())
        for continuation in met { continuation.resume() }
    }

    /// Advances the clock and wakes the sleepers whose time has come.
    package func advance(by duration: Duration) {
        let (woken, met) = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let now = state.now
            let woken = state.sleepers.filter { $0.end <= now }
            state.sleepers.removeAll { $0.end <= now }
            return (woken, state.satisfied())
        }
        for sleeper in woken { sleeper.continuation.resume() }
        for continuation in met { continuation.resume() }
    }

    /// The wake times of all sleepers since the start of the clock, sorted.
    package var wakeTimes: [Duration] { state.withLock { $0.sleepers.map(\.end.sinceStart).sorted() } }

    /// Returns when at least `count` sleepers wait for exactly `moment`.
    package func sleeper(until moment: Duration, count: Int = 1) async {
        await wait { state in state.sleepers.count { $0.end.sinceStart == moment } >= count }
    }

    /// Returns when the sleeper with this number, counted from 1, sleeps.
    package func sleeper(number: Int) async { await wait { state in state.sleepers.contains { $0.number == number } } }

    /// Returns when no sleeper waits for `moment`.
    package func noSleeper(until moment: Duration) async {
        await wait { state in !state.sleepers.contains { $0.end.sinceStart == moment } }
    }

    private func wait(for wanted: @escaping @Sendable (State) -> Bool) async {
        await withCheckedContinuation { continuation in
            let isMet = state.withLock { state in
                if wanted(state) { return true }
                state.watchers.append((wanted, continuation))
                return false
            }
            if isMet { continuation.resume() }
        }
    }
}
