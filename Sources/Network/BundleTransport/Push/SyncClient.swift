package import BundleValues
import Synchronization

/// Stays connected to one server and reports its messages.
///
/// It implements timeouts, heartbeats, backoff and message limits. A `TransportConnector` opens the sockets.
package struct SyncClient: Sendable {
    package struct Configuration: Sendable {
        package var url: SocketURL
        /// Text messages that are sent first over each connection.
        package var greeting: [String] = []
        /// The timeout for opening the socket, and for sending the greeting.
        package var opening = Duration.seconds(15)
        package var heartbeat = HeartbeatRule()
        package var backoff = BackoffRule()
        /// The largest accepted message in bytes. A larger one ends the connection.
        package var maximumMessage = 64 << 10

        package init(url: SocketURL) { self.url = url }
    }

    private let configuration: Configuration
    private let connector: any TransportConnector
    private let environment: Environment

    /// Creates a client that waits by the clock of `environment`, with jitter from its random numbers.
    package init(
        _ configuration: Configuration, connector: any TransportConnector, environment: Environment = Environment()
    ) {
        self.configuration = configuration
        self.connector = connector
        self.environment = environment
    }

    /// Stays connected until the task is cancelled. It leaves no task running and no connection open.
    ///
    /// `handle` receives one event at a time, in order. Nothing is read while it runs, so it should only record the work
    /// to do.
    package func run(_ handle: @escaping @Sendable (SyncEvent) async -> Void) async {
        let stopwatch = Stopwatch(environment.clock)
        let backoff = configuration.backoff
        var losses = 0
        await Reconnection(
            to: configuration.url, over: connector, opening: configuration.opening, clock: environment.clock
        ).run(
            talk: { await talk(over: $0, handle, stopwatch) },
            next: { ending in
                if let lasted = ending.lasted, lasted >= backoff.success { losses = 0 }
                let wait = backoff.wait(losses: losses, asked: ending.error.retryAfter, environment.random)
                losses += 1
                await handle(.lost(ending.error, retry: wait))
                return wait
            })
    }

    private func talk(
        over transport: any SyncTransport, _ handle: @escaping @Sendable (SyncEvent) async -> Void,
        _ stopwatch: Stopwatch
    ) async -> TransportError {
        do {
            try await within(configuration.opening, else: .timedOut(.sending), on: environment.clock) {
                for text in configuration.greeting { try await transport.sendText(text) }
            }
        } catch {
            return TransportError(error)
        }
        await handle(.connected)
        let heartbeat = SharedHeartbeat(Heartbeat(configuration.heartbeat, now: stopwatch.elapsed), stopwatch)
        return await withTaskGroup(of: TransportError.self) { group in
            group.addTask { await receive(over: transport, heartbeat, handle) }
            group.addTask { await beat(over: transport, heartbeat) }
            // The first task to end ends the connection. A cancellation ends the heartbeat.
            let error = await group.next() ?? .isClosed
            group.cancelAll()
            return error
        }
    }

    private func receive(
        over transport: any SyncTransport, _ heartbeat: SharedHeartbeat, _ handle: @Sendable (SyncEvent) async -> Void
    ) async -> TransportError {
        do {
            while let message = try await transport.receive() {
                if message.byteCount > configuration.maximumMessage {
                    return .messageTooLarge(limit: configuration.maximumMessage)
                }
                heartbeat.beginProcessing()
                switch message {
                case .text(let text): await handle(.text(text))
                case .binary(let bytes): await handle(.binary(bytes))
                case .pong: break
                }
                heartbeat.endProcessing()
                try Task.checkCancellation()
            }
            return .isClosed
        } catch {
            return TransportError(error)
        }
    }

    /// Sends pings. Returns when the peer does not answer.
    private func beat(over transport: any SyncTransport, _ heartbeat: SharedHeartbeat) async -> TransportError {
        do {
            while true {
                switch heartbeat.step() {
                case .wait(let left): try await environment.clock.sleep(for: left)
                case .ping:
                    try await within(configuration.heartbeat.answer, else: .timedOut(.sending), on: environment.clock) {
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

/// The heartbeat of one connection, shared by two tasks.
private final class SharedHeartbeat: Sendable {
    enum Step {
        case wait(Duration)
        case ping, dead
    }

    private let heartbeat: Mutex<Heartbeat>
    private let stopwatch: Stopwatch

    init(_ heartbeat: Heartbeat, _ stopwatch: Stopwatch) {
        self.heartbeat = Mutex(heartbeat)
        self.stopwatch = stopwatch
    }

    func beginProcessing() { heartbeat.withLock { $0.beginProcessing() } }

    func endProcessing() { heartbeat.withLock { $0.endProcessing(stopwatch.elapsed) } }

    func step() -> Step {
        heartbeat.withLock { heartbeat in
            let now = stopwatch.elapsed
            switch heartbeat.step(now) {
            case .wait(let until): return .wait(until - now)
            case .ping: return .ping
            case .dead: return .dead
            }
        }
    }
}

/// An event of a `SyncClient`.
package enum SyncEvent: Sendable, Equatable {
    /// A connection is open. Messages sent while there was none are lost, so the client should ask for the present state.
    case connected
    case text(String)
    case binary([UInt8])
    /// A connection could not be opened or was lost. The next attempt is after `retry`.
    case lost(TransportError, retry: Duration)
}

/// A change of a connection, for logs and status.
package enum LinkReport: Sendable, Equatable {
    /// A connection is open and the server answers.
    case connected
    /// There is no connection, for this reason.
    case lost(String)
    /// A message about something else, in one sentence.
    case note(String)
}

/// Reports each change of a connection once, however many attempts fail in between.
package struct LinkEvent: Sendable {
    private var isConnected: Bool?

    package init() {}

    /// Returns a report unless the connection was open before.
    package mutating func connected() -> LinkReport? { update(true, .connected) }

    /// Returns a report unless the connection was lost before. A new reason is not reported.
    package mutating func lost(_ reason: @autoclosure () -> String) -> LinkReport? { update(false, .lost(reason())) }

    private mutating func update(_ now: Bool, _ report: @autoclosure () -> LinkReport) -> LinkReport? {
        defer { isConnected = now }
        return isConnected == now ? nil : report()
    }
}
