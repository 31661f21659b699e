import Dispatch
import CLibrary
import Synchronization

/// Receives SIGTERM and SIGINT instead of ending the program, and logs the first one. Create one for the whole program, because a signal between two of them would
/// be lost.
struct StopSignals {
    private let received = Received()
    private let sources: [any DispatchSourceSignal]

    init() {
        // Dispatch listens only some time after `resume`, and an earlier signal would be lost.
        let listening = DispatchSemaphore(value: 0)
        sources = [(SIGTERM, "SIGTERM"), (SIGINT, "SIGINT")].map { [received] number, name in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { received.stop(name) }
            source.setRegistrationHandler { listening.signal() }
            source.resume()
            return source
        }
        for _ in sources { listening.wait() }
    }

    /// Calls `body` at the first signal, or at once if it has arrived.
    func then(_ body: @escaping @Sendable () -> Void) { received.then(body) }

    /// Waits for the first signal.
    func wait() async {
        let (stream, end) = AsyncStream<Void>.makeStream()
        then { end.finish() }
        for await _ in stream {}
        for source in sources { source.cancel() }
    }

    private final class Received: Sendable {
        /// The functions to call; nil after the first signal.
        private let waiting = Mutex<[@Sendable () -> Void]?>([])

        func then(_ body: @escaping @Sendable () -> Void) {
            let hasArrived = waiting.withLock { waiting in
                waiting?.append(body)
                return waiting == nil
            }
            if hasArrived { body() }
        }

        func stop(_ signal: String) {
            let bodies = waiting.withLock { waiting in
                defer { waiting = nil }
                return waiting
            }
            guard let bodies else { return }
            Log.note(LogLine(level: .info, event: "stopping", message: "\(signal): the program stops"))
            for body in bodies { body() }
        }
    }
}

/// Calls a function at each SIGHUP instead of ending the program, until it is released.
final class HangupSignal {
    private let source: any DispatchSourceSignal

    init(then: @escaping @Sendable () -> Void) {
        let listening = DispatchSemaphore(value: 0)
        source = DispatchSource.makeSignalSource(signal: SIGHUP, queue: .global())
        source.setEventHandler(handler: then)
        source.setRegistrationHandler { listening.signal() }
        source.resume()
        listening.wait()
    }

    deinit { source.cancel() }
}
