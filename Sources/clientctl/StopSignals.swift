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
        sources = [SIGTERM, SIGINT].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                told.finish()
                then()
            }
            source.resume()
            return source
        }
    }

    /// Returns when one of them has come.
    func wait() async {
        for await _ in stream {}
        for source in sources { source.cancel() }
    }
}
