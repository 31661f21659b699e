import Synchronization

/// What came and was not taken yet: bounded, so that a slow taker stops the reading instead of filling the memory.
package final class MessageQueue: Sendable {
    /// How much may wait: less than both, and one message more.
    package struct Limit: Sendable {
        package var messages: Int
        package var bytes: Int

        package init(messages: Int, bytes: Int) {
            self.messages = messages
            self.bytes = bytes
        }
    }

    private struct State {
        var messages: [TransportMessage] = []
        var bytes = 0
        var takers: [Promised<TransportMessage?>] = []
        var givers: [Promised<Void>] = []
        var end: TransportError??

        func hasRoom(_ limit: Limit) -> Bool { messages.count < limit.messages && bytes < limit.bytes }
    }

    private let limit: Limit
    private let whenRoom: @Sendable () -> Void
    private let state = Mutex(State())

    /// An empty one. `whenRoom` is called each time that there is room again, from whatever task took.
    package init(_ limit: Limit, whenRoom: @escaping @Sendable () -> Void = {}) {
        self.limit = limit
        self.whenRoom = whenRoom
    }

    /// How many wait.
    package var count: Int { state.withLock { $0.messages.count } }

    /// How many wait for one, or for room; those that were cancelled count until the next one waits.
    package var waiters: Int { state.withLock { $0.takers.count + $0.givers.count } }

    /// Whether more should be read.
    package var hasRoom: Bool { state.withLock { $0.hasRoom(limit) } }

    /// Whether nothing more comes.
    package var hasEnded: Bool { state.withLock { $0.end != nil } }

    /// Adds a message, whether there is room or not; false when no more should be read. Nothing is added after the end.
    @discardableResult
    package func add(_ message: TransportMessage) -> Bool {
        state.withLock { state in
            if state.end != nil { return true }
            // Signs of life that nobody has taken yet say the same once.
            if message == .pong, state.messages.last == .pong { return state.hasRoom(limit) }
            while !state.takers.isEmpty {
                // A taker that was cancelled meanwhile takes nothing.
                if state.takers.removeFirst().settle(.success(message)) { return true }
            }
            state.messages.append(message)
            state.bytes += message.byteCount
            return state.hasRoom(limit)
        }
    }

    /// Waits for room and adds a message; does nothing after the end. Throws `CancellationError`.
    package func put(_ message: TransportMessage) async throws {
        while true {
            let waiting = state.withLock { state -> Promised<Void>? in
                if state.end != nil || state.hasRoom(limit) { return nil }
                let waiting = Promised<Void>()
                // Those that were cancelled wait no longer.
                state.givers.removeAll(where: \.isSettled)
                state.givers.append(waiting)
                return waiting
            }
            guard let waiting else { break }
            try await waiting.value
        }
        add(message)
    }

    /// The next message in order, nil at a good end; throws at another one, and when the task is cancelled.
    package func take() async throws -> TransportMessage? {
        enum Step {
            case taken(TransportMessage, madeRoom: Bool, givers: [Promised<Void>])
            case ended(TransportError?)
            case wait(Promised<TransportMessage?>)
        }
        let step = state.withLock { state -> Step in
            if !state.messages.isEmpty {
                let hadRoom = state.hasRoom(limit)
                let message = state.messages.removeFirst()
                state.bytes -= message.byteCount
                let madeRoom = !hadRoom && state.hasRoom(limit)
                let givers = madeRoom ? state.givers : []
                if madeRoom { state.givers = [] }
                return .taken(message, madeRoom: madeRoom, givers: givers)
            }
            if let end = state.end { return .ended(end) }
            let waiting = Promised<TransportMessage?>()
            state.takers.removeAll(where: \.isSettled)
            state.takers.append(waiting)
            return .wait(waiting)
        }
        switch step {
        case .taken(let message, let madeRoom, let givers):
            for giver in givers { giver.settle(.success(())) }
            if madeRoom { whenRoom() }
            return message
        case .ended(nil): return nil
        case .ended(let error?): throw error
        case .wait(let waiting): return try await waiting.value
        }
    }

    /// Nothing more comes: what waits is still taken, then the end. The first end counts; true if it was this one.
    @discardableResult
    package func end(_ error: TransportError?) -> Bool { end(error, discarding: false) }

    /// Throws away what waits; more may come.
    package func drop() {
        state.withLock { state in
            state.messages = []
            state.bytes = 0
        }
    }

    /// Ends in good order and throws away what waits.
    @discardableResult
    package func discard() -> Bool { end(nil, discarding: true) }

    private func end(_ error: TransportError?, discarding: Bool) -> Bool {
        let (isFirst, takers, givers) = state.withLock { state in
            let isFirst = state.end == nil
            if isFirst || discarding { state.end = .some(discarding ? nil : error) }
            if discarding {
                state.messages = []
                state.bytes = 0
            }
            defer { (state.takers, state.givers) = ([], []) }
            return (isFirst, state.takers, state.givers)
        }
        for taker in takers { taker.settle(error.map { .failure($0) } ?? .success(nil)) }
        for giver in givers { giver.settle(.success(())) }
        return isFirst
    }
}
