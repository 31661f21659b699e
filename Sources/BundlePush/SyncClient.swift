import Synchronization

/// Stays connected to one place, and tells what is said there.
///
/// It owns the protocol: time limits, signs of life, back-off, limits on messages. It knows no socket; a `TransportConnector`
/// opens them.
public struct SyncClient: Sendable {
    /// How it stays connected.
    public struct Configuration: Sendable {
        /// The place.
        public var url: SocketURL
        /// Text messages that are sent first over each connection.
        public var greeting: [String] = []
        /// The longest time from the beginning of a connection to the open socket, and again to the sent greeting.
        public var opening = Duration.seconds(15)
        /// Signs of life.
        public var heartbeat = HeartbeatRule()
        /// When to connect again.
        public var backoff = BackoffRule()
        /// The largest message that is taken, in bytes; a larger one ends the connection.
        public var maximumMessage = 64 << 10

        /// The defaults, for `url`.
        public init(url: SocketURL) { self.url = url }
    }

    private let configuration: Configuration
    private let connector: any TransportConnector
    private let clock: any Clock<Duration>
    private let random: @Sendable (ClosedRange<Double>) -> Double

    /// A client that has not begun. `random` draws from a range.
    public init(
        _ configuration: Configuration, connector: any TransportConnector,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }
    ) {
        self.configuration = configuration
        self.connector = connector
        self.clock = clock
        self.random = random
    }

    /// Stays connected until the task is cancelled; leaves nothing running, and no connection open.
    ///
    /// `handle` is told one event at a time, in order. While it works, nothing is read, so what is sent faster than it works
    /// waits at the sender: let it only note what work there is.
    public func run(_ handle: @escaping @Sendable (SyncEvent) async -> Void) async {
        let reading = Self.reading(of: clock)
        var losses = 0
        while !Task.isCancelled {
            let (error, lasted) = await connection(handle, reading)
            if Task.isCancelled { return }
            if let lasted, lasted >= configuration.backoff.success { losses = 0 }
            let wait = configuration.backoff.wait(losses: losses, draw: random(0...1), asked: error.retryAfter)
            losses += 1
            await handle(.lost(error, retry: wait))
            do { try await clock.sleep(for: wait) } catch { return }
        }
    }

    /// One connection from its beginning to its end: why it ended, and how long it was open.
    private func connection(
        _ handle: @escaping @Sendable (SyncEvent) async -> Void, _ reading: @escaping @Sendable () -> Duration
    ) async -> (TransportError, lasted: Duration?) {
        let transport: any SyncTransport
        do {
            transport = try await connect()
        } catch {
            return (Self.transportError(error), nil)
        }
        let opened = reading()
        let error = await talk(over: transport, handle, reading)
        await transport.close()
        return (error, reading() - opened)
    }

    /// Opens a transport, in time.
    private func connect() async throws -> any SyncTransport {
        try await withThrowingTaskGroup(of: (any SyncTransport)?.self) { group in
            group.addTask { try await connector.connect(configuration.url) }
            group.addTask {
                try await clock.sleep(for: configuration.opening)
                return nil
            }
            let first: Result<(any SyncTransport)?, any Error>
            do { first = .success(try await group.next() ?? nil) } catch { first = .failure(error) }
            group.cancelAll()
            // One that was opened too late is nobody's.
            while let late = await group.nextResult() {
                if case .success(let transport?) = late { await transport.close() }
            }
            guard let transport = try first.get() else { throw TransportError.timedOut(.connecting) }
            return transport
        }
    }

    private func talk(
        over transport: any SyncTransport, _ handle: @escaping @Sendable (SyncEvent) async -> Void,
        _ reading: @escaping @Sendable () -> Duration
    ) async -> TransportError {
        do {
            try await within(configuration.opening, else: .timedOut(.sending)) {
                for text in configuration.greeting { try await transport.sendText(text) }
            }
        } catch {
            return Self.transportError(error)
        }
        await handle(.connected)
        let pulse = Pulse(Heartbeat(configuration.heartbeat, now: reading()), reading)
        return await withTaskGroup(of: TransportError.self) { group in
            group.addTask { await receive(over: transport, pulse, handle) }
            group.addTask { await beat(over: transport, pulse) }
            // Whoever ends first ends the connection: also the heartbeat, when the task is cancelled.
            let error = await group.next() ?? .isClosed
            group.cancelAll()
            return error
        }
    }

    private func receive(
        over transport: any SyncTransport, _ pulse: Pulse, _ handle: @Sendable (SyncEvent) async -> Void
    ) async -> TransportError {
        do {
            while let message = try await transport.receive() {
                if message.byteCount > configuration.maximumMessage {
                    return .messageTooLarge(limit: configuration.maximumMessage)
                }
                pulse.works()
                switch message {
                case .text(let text): await handle(.text(text))
                case .binary(let bytes): await handle(.binary(bytes))
                case .pong: break
                }
                pulse.rested()
                try Task.checkCancellation()
            }
            return .isClosed
        } catch {
            return Self.transportError(error)
        }
    }

    /// Asks for signs of life; ends when there are none.
    private func beat(over transport: any SyncTransport, _ pulse: Pulse) async -> TransportError {
        do {
            while true {
                switch pulse.step() {
                case .wait(let left): try await clock.sleep(for: left)
                case .ping:
                    try await within(configuration.heartbeat.answer, else: .timedOut(.sending)) {
                        try await transport.sendPing()
                    }
                case .dead: return .timedOut(.answering)
                }
            }
        } catch {
            return Self.transportError(error)
        }
    }

    /// Lets `work` take this long at most; it must end soon after it is cancelled.
    private func within(
        _ limit: Duration, else error: TransportError, _ work: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await work()
                return true
            }
            group.addTask {
                try await clock.sleep(for: limit)
                return false
            }
            let isDone = try await group.next() ?? false
            group.cancelAll()
            if !isDone { throw error }
        }
    }

    private static func transportError(_ error: any Error) -> TransportError {
        if let error = error as? TransportError { return error }
        return error is CancellationError ? .isClosed : .lost("\(error)")
    }

    private static func reading<Ticking: Clock<Duration>>(of clock: Ticking) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }
}

/// The heartbeat of one connection, for the two who share it.
private final class Pulse: Sendable {
    enum Step { case wait(Duration), ping, dead }

    private let heartbeat: Mutex<Heartbeat>
    private let reading: @Sendable () -> Duration

    init(_ heartbeat: Heartbeat, _ reading: @escaping @Sendable () -> Duration) {
        self.heartbeat = Mutex(heartbeat)
        self.reading = reading
    }

    func works() { heartbeat.withLock { $0.works() } }

    func rested() { heartbeat.withLock { $0.rested(reading()) } }

    func step() -> Step {
        heartbeat.withLock { heartbeat in
            let now = reading()
            switch heartbeat.step(now) {
            case .wait(let until): return .wait(until - now)
            case .ping: return .ping
            case .dead: return .dead
            }
        }
    }
}
