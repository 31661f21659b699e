import Dispatch
import Glibc

/// Notes SIGTERM and SIGINT from the moment it is made, in place of ending the program.
struct StopSignals {
    private let stream: AsyncStream<Void>
    private let sources: [any DispatchSourceSignal]

    /// `then` is called when the first one has come.
    init(then: @escaping @Sendable () -> Void = {}) {
        let (stream, told) = AsyncStream<Void>.makeStream()
        self.stream = stream
        // Dispatch listens a moment after `resume`, and what comes before would be lost.
        let listening = DispatchSemaphore(value: 0)
        sources = [SIGTERM, SIGINT].map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                told.finish()
                then()
            }
            source.setRegistrationHandler { listening.signal() }
            source.resume()
            return source
        }
        for _ in sources { listening.wait() }
    }

    /// Returns when one of them has come.
    func wait() async {
        for await _ in stream {}
        cancel()
    }

    /// Notes them no more.
    func cancel() {
        for source in sources { source.cancel() }
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
