import Dispatch
import Glibc
import Synchronization

/// Notes SIGTERM and SIGINT from the moment it is made, in place of ending the program. One for all that is to be ended: what comes
/// between the end of one and the beginning of the next would be lost.
struct StopSignals {
    private let heard = Heard()
    private let sources: [any DispatchSourceSignal]

    init() {
        // Dispatch listens a moment after `resume`, and what comes before would be lost.
        let listening = DispatchSemaphore(value: 0)
        sources = [SIGTERM, SIGINT].map { [heard] number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { heard.stop() }
            source.setRegistrationHandler { listening.signal() }
            source.resume()
            return source
        }
        for _ in sources { listening.wait() }
    }

    /// Has `body` called when the first one comes, or at once if it has come.
    func then(_ body: @escaping @Sendable () -> Void) { heard.then(body) }

    /// Returns when one of them has come.
    func wait() async {
        let (stream, told) = AsyncStream<Void>.makeStream()
        then { told.finish() }
        for await _ in stream {}
        for source in sources { source.cancel() }
    }

    private final class Heard: Sendable {
        /// Who wants to know; nil when it has come.
        private let waiting = Mutex<[@Sendable () -> Void]?>([])

        func then(_ body: @escaping @Sendable () -> Void) {
            let hasCome = waiting.withLock { waiting in
                waiting?.append(body)
                return waiting == nil
            }
            if hasCome { body() }
        }

        func stop() {
            let told = waiting.withLock { waiting in
                defer { waiting = nil }
                return waiting ?? []
            }
            for body in told { body() }
        }
    }
}

/// Calls a function whenever SIGHUP comes, in place of ending the program, for as long as it lives.
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
