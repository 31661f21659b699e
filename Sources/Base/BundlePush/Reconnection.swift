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
