import BundleValues

/// Keeps a connection to one server: connects in time, runs a conversation, and reconnects after a wait.
package struct Reconnection: Sendable {
    /// The result of one attempt.
    package struct Ending: Sendable {
        package let error: TransportError
        /// The duration of the connection; nil if none was opened.
        package let lasted: Duration?
    }

    private let url: SocketURL
    private let connector: any TransportConnector
    private let opening: Duration
    private let clock: any Clock<Duration>

    /// Creates a reconnection to `url`. Each attempt must open within `opening`.
    package init(
        to url: SocketURL, over connector: any TransportConnector, opening: Duration,
        clock: any Clock<Duration>
    ) {
        self.url = url
        self.connector = connector
        self.opening = opening
        self.clock = clock
    }

    /// Connects until the task is cancelled or `next` returns nil. It leaves no connection open.
    ///
    /// `begin` is called before each attempt. `talk` uses an open transport and returns why it ended. `next` receives the
    /// result of the attempt and returns the wait before the next one.
    package func run(
        begin: () -> Void = {}, talk: (any SyncTransport) async -> TransportError,
        next: (Ending) async -> Duration?
    ) async {
        let stopwatch = Stopwatch(clock)
        while !Task.isCancelled {
            begin()
            let ending = await attempt(talk, stopwatch)
            if Task.isCancelled { return }
            guard let wait = await next(ending) else { return }
            do { try await clock.sleep(for: wait) } catch { return }
        }
    }

    private func attempt(
        _ talk: (any SyncTransport) async -> TransportError, _ stopwatch: Stopwatch
    ) async -> Ending {
        let transport: any SyncTransport
        do {
            // Closes a transport that opens too late.
            transport = try await within(
                opening, else: .timedOut(.connecting), on: clock, discard: { await $0.close() }
            ) { [connector, url] in try await connector.connect(url) }
        } catch {
            return Ending(error: TransportError(error), lasted: nil)
        }
        let opened = stopwatch.elapsed
        let error = await talk(transport)
        await transport.close()
        return Ending(error: error, lasted: stopwatch.elapsed - opened)
    }
}

extension TransportError {
    /// Converts any error of a transport.
    package init(_ error: any Error) {
        switch error {
        case let error as TransportError: self = error
        case is CancellationError: self = .isClosed
        default: self = .lost("\(error)")
        }
    }
}

/// The wait before a reconnection: a random part of a growing ceiling, so that clients that lost a host at the same time
/// do not reconnect at the same time.
package struct BackoffRule: Sendable, Equatable {
    /// The ceiling after the first loss.
    package var first = Duration.seconds(1)
    /// The factor by which the ceiling grows with each loss.
    package var factor = 2.0
    /// The largest ceiling.
    package var longest = Duration.seconds(300)
    /// The range of the random part: full jitter.
    package var spread = 0.0...1.0
    /// The number of first losses in a row that are followed by `soon`.
    package var soonLosses = 0
    /// The wait after the first losses.
    package var soon = Duration.milliseconds(10)
    /// The duration after which a connection counts as successful, which resets the ceiling. A connection that is
    /// accepted and closed at once does not count.
    package var success = Duration.seconds(30)
    /// The longest wait that the server may ask for.
    package var longestAsked = Duration.seconds(3600)

    package init() {}

    /// Returns the wait after `losses` earlier losses in a row, in whole milliseconds. `asked` is the minimum that the
    /// server asked for. `random` returns a number in a range.
    package func wait(
        losses: Int, asked: Duration? = nil, _ random: (ClosedRange<Double>) -> Double
    ) -> Duration {
        let least = min(max(asked ?? .zero, .zero), longestAsked)
        if losses < soonLosses { return least + soon }
        let draw = random(spread)
        let share =
            draw.isFinite ? min(max(draw, spread.lowerBound), spread.upperBound) : spread.upperBound
        let wait = Backoff(from: first, by: factor, upTo: longest).delay(after: losses) * share
        return least + .milliseconds(Int((wait / .milliseconds(1)).rounded()))
    }
}
