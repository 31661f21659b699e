import Synchronization

/// A bounded queue of received messages. A slow receiver stops the reading from the network and does not fill the memory.
package final class MessageQueue: Sendable {
    /// The limits of the queue. It accepts a message while neither is reached.
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
        var receivers: [Promised<TransportMessage?>] = []
        var senders: [Promised<Void>] = []
        var end: TransportError??

        func hasRoom(_ limit: Limit) -> Bool { messages.count < limit.messages && bytes < limit.bytes }
    }

    private let limit: Limit
    private let whenRoom: @Sendable () -> Void
    private let state = Mutex(State())

    /// Creates an empty queue. `whenRoom` is called each time a full queue has space again, on the receiving task.
    package init(_ limit: Limit, whenRoom: @escaping @Sendable () -> Void = {}) {
        self.limit = limit
        self.whenRoom = whenRoom
    }

    /// The number of waiting messages.
    package var count: Int { state.withLock { $0.messages.count } }

    /// The number of tasks that wait for a message or for space. Cancelled tasks count until the next task waits.
    package var waiters: Int { state.withLock { $0.receivers.count + $0.senders.count } }

    /// Whether the reader should read more.
    package var hasRoom: Bool { state.withLock { $0.hasRoom(limit) } }

    /// Whether the queue ended.
    package var hasEnded: Bool { state.withLock { $0.end != nil } }

    /// Adds a message even if the queue is full. Returns false if the reader should pause. After the end it does nothing.
    @discardableResult
    package func add(_ message: TransportMessage) -> Bool {
        state.withLock { state in
            if state.end != nil { return true }
            // One pong is enough.
            if message == .pong, state.messages.last == .pong { return state.hasRoom(limit) }
            while !state.receivers.isEmpty {
                // A cancelled receiver does not receive the message.
                if state.receivers.removeFirst().settle(.success(message)) { return true }
            }
            state.messages.append(message)
            state.bytes += message.byteCount
            return state.hasRoom(limit)
        }
    }

    /// Waits for space and adds a message. After the end it does nothing. Throws `CancellationError`.
    package func put(_ message: TransportMessage) async throws {
        while true {
            let waiting = state.withLock { state -> Promised<Void>? in
                if state.end != nil || state.hasRoom(limit) { return nil }
                let waiting = Promised<Void>()
                // Removes cancelled senders.
                state.senders.removeAll(where: \.isSettled)
                state.senders.append(waiting)
                return waiting
            }
            guard let waiting else { break }
            try await waiting.value
        }
        add(message)
    }

    /// Returns the next message, or nil after a normal end. Throws the error of another end, or `CancellationError`.
    package func take() async throws -> TransportMessage? {
        enum Step {
            case taken(TransportMessage, madeRoom: Bool, senders: [Promised<Void>])
            case ended(TransportError?)
            case wait(Promised<TransportMessage?>)
        }
        let step = state.withLock { state -> Step in
            if !state.messages.isEmpty {
                let hadRoom = state.hasRoom(limit)
                let message = state.messages.removeFirst()
                state.bytes -= message.byteCount
                let madeRoom = !hadRoom && state.hasRoom(limit)
                let senders = madeRoom ? state.senders : []
                if madeRoom { state.senders = [] }
                return .taken(message, madeRoom: madeRoom, senders: senders)
            }
            if let end = state.end { return .ended(end) }
            let waiting = Promised<TransportMessage?>()
            state.receivers.removeAll(where: \.isSettled)
            state.receivers.append(waiting)
            return .wait(waiting)
        }
        switch step {
        case .taken(let message, let madeRoom, let senders):
            for sender in senders { sender.settle(.success(())) }
            if madeRoom { whenRoom() }
            return message
        case .ended(nil): return nil
        case .ended(let error?): throw error
        case .wait(let waiting): return try await waiting.value
        }
    }

    /// Ends the queue. Receivers get the waiting messages and then the end. The first end wins; returns whether it was
    /// this one.
    @discardableResult
    package func end(_ error: TransportError?) -> Bool { end(error, discarding: false) }

    /// Drops the waiting messages. More messages can follow.
    package func drop() {
        state.withLock { state in
            state.messages = []
            state.bytes = 0
        }
    }

    /// Ends the queue normally and drops the waiting messages.
    @discardableResult
    package func discard() -> Bool { end(nil, discarding: true) }

    private func end(_ error: TransportError?, discarding: Bool) -> Bool {
        let (isFirst, receivers, senders) = state.withLock { state in
            let isFirst = state.end == nil
            if isFirst || discarding { state.end = .some(discarding ? nil : error) }
            if discarding {
                state.messages = []
                state.bytes = 0
            }
            defer { (state.receivers, state.senders) = ([], []) }
            return (isFirst, state.receivers, state.senders)
        }
        for receiver in receivers { receiver.settle(error.map { .failure($0) } ?? .success(nil)) }
        for sender in senders { sender.settle(.success(())) }
        return isFirst
    }
}
