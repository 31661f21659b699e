import Synchronization

/// Stays connected to one place, and tells what is said there.
///
/// It owns the protocol: time limits, signs of life, back-off, limits on messages. It knows no socket; a `TransportConnector`
/// opens them.
package struct SyncClient: Sendable {
    /// How it stays connected.
    package struct Configuration: Sendable {
        /// The place.
        package var url: SocketURL
        /// Text messages that are sent first over each connection.
        package var greeting: [String] = []
        /// The longest time from the beginning of a connection to the open socket, and again to the sent greeting.
        package var opening = Duration.seconds(15)
        /// Signs of life.
        package var heartbeat = HeartbeatRule()
        /// When to connect again.
        package var backoff = BackoffRule()
        /// The largest message that is taken, in bytes; a larger one ends the connection.
        package var maximumMessage = 64 << 10

        /// The defaults, for `url`.
        package init(url: SocketURL) { self.url = url }
    }

    private let configuration: Configuration
    private let connector: any TransportConnector
    private let clock: any Clock<Duration>
    private let random: @Sendable (ClosedRange<Double>) -> Double

    /// A client that has not begun. `random` draws from a range.
    package init(
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
    package func run(_ handle: @escaping @Sendable (SyncEvent) async -> Void) async {
        let reading = clock.reading()
        let backoff = configuration.backoff
        var losses = 0
        await Reconnection(
            to: configuration.url, over: connector, opening: configuration.opening, clock: clock
        ).run(
            talk: { await talk(over: $0, handle, reading) },
            next: { ending in
                if let lasted = ending.lasted, lasted >= backoff.success { losses = 0 }
                let wait = backoff.wait(losses: losses, asked: ending.error.retryAfter, random)
                losses += 1
                await handle(.lost(ending.error, retry: wait))
                return wait
            })
    }

    private func talk(
        over transport: any SyncTransport, _ handle: @escaping @Sendable (SyncEvent) async -> Void,
        _ reading: @escaping @Sendable () -> Duration
    ) async -> TransportError {
        do {
            try await within(configuration.opening, else: .timedOut(.sending), on: clock) {
                for text in configuration.greeting { try await transport.sendText(text) }
            }
        } catch {
            return TransportError(error)
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
            return TransportError(error)
        }
    }

    /// Asks for signs of life; ends when there are none.
    private func beat(over transport: any SyncTransport, _ pulse: Pulse) async -> TransportError {
        do {
            while true {
                switch pulse.step() {
                case .wait(let left): try await clock.sleep(for: left)
                case .ping:
                    try await within(configuration.heartbeat.answer, else: .timedOut(.sending), on: clock) {
                        try await transport.sendPing()
                    }
                case .dead: return .timedOut(.answering)
                }
            }
        } catch {
            return TransportError(error)
        }
    }
}

/// The heartbeat of one connection, for the two who share it.
private final class Pulse: Sendable {
    enum Step {
        case wait(Duration)
        case ping, dead
    }

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

/// What a `SyncClient` tells.
package enum SyncEvent: Sendable, Equatable {
    /// A connection is open. What was said while there was none is not said again: ask.
    case connected
    /// A text message came.
    case text(String)
    /// A binary message came.
    case binary([UInt8])
    /// There was no connection to be had, or it is over; the next attempt is after `retry`.
    case lost(TransportError, retry: Duration)
}

/// What whoever keeps a connection tells people about it.
package enum LinkReport: Sendable, Equatable {
    /// There is one, and the other side answers.
    case connected
    /// There is none, or no longer, for this reason.
    case lost(String)
    /// One sentence about something else.
    case note(String)
}

/// Makes one report of each change: a place that cannot be reached is tried for days, and that is one piece of news.
package struct LinkEvent: Sendable {
    private var isConnected: Bool?

    /// Nothing is known yet: whatever comes first is news.
    package init() {}

    /// There is a connection; nil where that was known.
    package mutating func connected() -> LinkReport? { turn(true, .connected) }

    /// There is none; nil where that was known, whatever the reason is this time.
    package mutating func lost(_ reason: @autoclosure () -> String) -> LinkReport? { turn(false, .lost(reason())) }

    private mutating func turn(_ now: Bool, _ report: @autoclosure () -> LinkReport) -> LinkReport? {
        defer { isConnected = now }
        return isConnected == now ? nil : report()
    }
}
