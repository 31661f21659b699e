import BundleTransport
import Synchronization

/// One of two connected ends in memory.
final class PairEnd: SyncTransport {
    static let maximumMessage = 1 << 20

    private let incoming: MessageQueue
    private let outgoing: MessageQueue
    private let answersPings: Bool
    private let waitsForAnswers: Bool
    private let counted = Mutex(0)

    private init(incoming: MessageQueue, outgoing: MessageQueue, answersPings: Bool, waitsForAnswers: Bool = false) {
        self.incoming = incoming
        self.outgoing = outgoing
        self.answersPings = answersPings
        self.waitsForAnswers = waitsForAnswers
    }

    /// Creates both ends. `answersPings` applies to pings of the first end. With `waitsForAnswers` a ping counts as sent
    /// only when its answer has been received.
    static func make(answersPings: Bool = true, waitsForAnswers: Bool = false) -> (PairEnd, PairEnd) {
        let limit = MessageQueue.Limit(messages: 16, bytes: 256 << 10)
        let (one, other) = (MessageQueue(limit), MessageQueue(limit))
        return (
            PairEnd(
                incoming: one, outgoing: other, answersPings: answersPings, waitsForAnswers: waitsForAnswers),
            PairEnd(incoming: other, outgoing: one, answersPings: true)
        )
    }

    /// The number of pings sent here.
    var pings: Int { counted.withLock { $0 } }

    /// Whether either end closed the connection.
    var isClosed: Bool { incoming.hasEnded }

    /// Whether the peer has processed all messages from here and waits for more.
    var isAwaited: Bool { outgoing.count == 0 && outgoing.waiters > 0 }

    func sendBinary(_ bytes: [UInt8]) async throws { try await send(.binary(bytes)) }

    func sendText(_ text: String) async throws { try await send(.text(text)) }

    func sendPing() async throws {
        if outgoing.hasEnded { throw TransportError.isClosed }
        counted.withLock { $0 += 1 }
        guard answersPings else { return }
        incoming.add(.pong)
        while waitsForAnswers, !incoming.hasEnded, incoming.count > 0 || incoming.waiters == 0 {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    private func send(_ message: TransportMessage) async throws {
        if message.byteCount > Self.maximumMessage { throw TransportError.messageTooLarge(limit: Self.maximumMessage) }
        if outgoing.hasEnded { throw TransportError.isClosed }
        try await outgoing.put(message)
        if outgoing.hasEnded { throw TransportError.isClosed }
    }

    func receive() async throws -> TransportMessage? { try await incoming.take() }

    func close() async {
        incoming.discard()
        outgoing.end(nil)
    }

    /// Breaks the connection, like a cut cable.
    func cut() {
        for queue in [incoming, outgoing] { queue.end(.lost("it was cut")) }
    }
}

/// Opens pairs and passes the other ends to a test.
final class PairConnector: TransportConnector {
    /// The result of an attempt.
    enum Answer: Sendable {
        case opens(answersPings: Bool = true)
        case fails(TransportError)
        /// The attempt does not end until it is cancelled.
        case hangs
        /// The attempt ignores its cancellation and opens when the promise is settled.
        case opensLate(Promised<Void>)
    }

    private let answers: Mutex<[Answer]>
    private let ends: AsyncStream<PairEnd>.Continuation
    /// The other ends in order.
    let opened: AsyncStream<PairEnd>
    private let begun = Mutex(0)
    private let cancelled = Mutex(0)

    /// Creates a connector that returns these results in order, and then opens pairs.
    init(_ answers: [Answer] = []) {
        self.answers = Mutex(answers)
        (opened, ends) = AsyncStream.makeStream()
    }

    var attempts: Int { begun.withLock { $0 } }
    var cancellations: Int { cancelled.withLock { $0 } }

    func connect(_ url: SocketURL) async throws -> any SyncTransport {
        begun.withLock { $0 += 1 }
        let answer = answers.withLock { $0.isEmpty ? .opens() : $0.removeFirst() }
        switch answer {
        case .opens(let answersPings): return open(answersPings: answersPings)
        case .fails(let error): throw error
        case .hangs:
            do {
                return try await Promised<PairEnd>().value
            } catch {
                cancelled.withLock { $0 += 1 }
                throw error
            }
        case .opensLate(let release):
            await withTaskCancellationHandler {
                await Task { _ = try? await release.value }.value
            } onCancel: {
                cancelled.withLock { $0 += 1 }
            }
            return open(answersPings: true)
        }
    }

    private func open(answersPings: Bool) -> PairEnd {
        let (near, far) = PairEnd.make(answersPings: answersPings, waitsForAnswers: true)
        ends.yield(far)
        return near
    }
}
