import Synchronization

/// The bytes that all transfers of a process receive, and the limit on their rate.
package final class Traffic: Sendable {
    private struct State {
        var total = 0
        var bucket: TokenBucket?
    }

    private let state = Mutex(State())
    private let start = SuspendingClock.now

    /// Creates a count without a limit.
    package init() {}

    /// The body bytes that were received so far.
    package var total: Int { state.withLock(\.total) }

    /// Whether the rate is limited.
    package var isLimited: Bool { state.withLock { $0.bucket != nil } }

    /// Sets the limit in bytes per second; nil removes it. The same limit keeps its tokens.
    package func limit(rate: Int?) {
        let now = now
        state.withLock { state in
            guard let rate else {
                state.bucket = nil
                return
            }
            let next = TokenBucket(rate: rate, now: now)
            if state.bucket?.rate != next.rate { state.bucket = next }
        }
    }

    /// Counts received body bytes.
    package func receive(_ count: Int) {
        let now = now
        state.withLock { state in
            state.total += count
            state.bucket?.receive(count, at: now)
        }
    }

    /// The time until the next byte may be received; zero if that is now.
    package var delay: Duration {
        let now = now
        return state.withLock { $0.bucket?.delay(at: now) ?? .zero }
    }

    private var now: Duration { start.duration(to: .now) }
}
