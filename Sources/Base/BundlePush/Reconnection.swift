import BundleValues

/// Stays connected to one place: opens a connection in time, has somebody talk over it, and opens the next one after a wait.
package struct Reconnection: Sendable {
    /// How one attempt ended.
    package struct Ending: Sendable {
        /// Why.
        package let error: TransportError
        /// How long the connection was open; nil where there was none.
        package let lasted: Duration?
    }

    private let url: SocketURL
    private let connector: any TransportConnector
    private let opening: Duration
    private let clock: any Clock<Duration>

    /// Connections to `url`, each of which is open within `opening`.
    package init(
        to url: SocketURL, over connector: any TransportConnector, opening: Duration,
        clock: any Clock<Duration>
    ) {
        self.url = url
        self.connector = connector
        self.opening = opening
        self.clock = clock
    }

    /// Connects until the task is cancelled or `next` gives no wait; leaves no connection open.
    ///
    /// `begin` is called before each attempt. `talk` uses an open transport, and returns why it is over. `next` gets how the
    /// attempt ended, and gives the wait before another one.
    package func run(
        begin: () -> Void = {}, talk: (any SyncTransport) async -> TransportError,
        next: (Ending) async -> Duration?
    ) async {
        let reading = clock.reading()
        while !Task.isCancelled {
            begin()
            let ending = await attempt(talk, reading)
            if Task.isCancelled { return }
            guard let wait = await next(ending) else { return }
            do { try await clock.sleep(for: wait) } catch { return }
        }
    }

    /// One connection from its beginning to its end.
    private func attempt(
        _ talk: (any SyncTransport) async -> TransportError, _ reading: () -> Duration
    ) async -> Ending {
        let transport: any SyncTransport
        do {
            // One that was opened too late is nobody's.
            transport = try await within(
                opening, else: .timedOut(.connecting), on: clock, discard: { await $0.close() }
            ) { [connector, url] in try await connector.connect(url) }
        } catch {
            return Ending(error: TransportError(error), lasted: nil)
        }
        let opened = reading()
        let error = await talk(transport)
        await transport.close()
        return Ending(error: error, lasted: reading() - opened)
    }
}

extension TransportError {
    /// Whatever a transport threw, in its words.
    package init(_ error: any Error) {
        switch error {
        case let error as TransportError: self = error
        case is CancellationError: self = .isClosed
        default: self = .lost("\(error)")
        }
    }
}

extension Clock where Duration == Swift.Duration {
    /// Readings of this clock, counted from now.
    package func reading() -> @Sendable () -> Swift.Duration {
        let start = now
        return { start.duration(to: now) }
    }
}

/// How long to wait before connecting again: a random share of a ceiling that grows, so that clients which lost one host at
/// the same moment do not all come back at the same moment.
package struct BackoffRule: Sendable, Equatable {
    /// The ceiling after the first loss.
    package var first = Duration.seconds(1)
    /// How much the ceiling grows with each further loss.
    package var factor = 2.0
    /// The highest ceiling.
    package var longest = Duration.seconds(300)
    /// The share of the ceiling that is waited: full jitter.
    package var spread = 0.0...1.0
    /// So many losses in a row are followed by `soon` only.
    package var soonLosses = 0
    /// The wait after the first losses.
    package var soon = Duration.milliseconds(10)
    /// How long a connection must have lasted to count as a success, after which the ceiling starts low again. One that is
    /// accepted and dropped at once does not.
    package var success = Duration.seconds(30)
    /// The longest wait that the other side may ask for.
    package var longestAsked = Duration.seconds(3600)

    /// The rule as it is recommended.
    package init() {}

    /// The wait in whole milliseconds after `losses` losses in a row before this one; `asked` is what the other side asks for at
    /// least. `random` draws from a range.
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
