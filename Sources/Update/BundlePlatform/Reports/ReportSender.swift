package import BundleCore
import BundlePush
package import BundleValues

/// Sends what waits to be told of a device: one message at a time, removed from the store when a receiver has it.
package struct ReportSender: Sendable {
    /// The end of an address that takes samples in the text format of Prometheus, as VictoriaMetrics does.
    private static let importPath = "/api/v1/import/prometheus"
    /// The longest time that one message is waited for.
    private static let patience = Duration.seconds(30)

    private let desk: ReportStore
    private let url: FetchURL
    private let fetcher: any Fetcher
    private let within: Duration
    private let clock: any Clock<Duration>
    private let random: @Sendable (ClosedRange<Double>) -> Double

    /// From `desk` to `url`. `run` looks after 10 to 100 % of `within`, drawn anew each time.
    package init(
        _ desk: ReportStore, to url: FetchURL, by fetcher: any Fetcher, within: Duration,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }
    ) {
        self.desk = desk
        self.url = url
        self.fetcher = fetcher
        self.within = within
        self.clock = clock
        self.random = random
    }

    /// Sends what waits. Returns the message that a receiver has now; nil where nothing waits, or the device does not report.
    /// Throws `FetchError` where nobody took it, and what the store throws; the reports wait on then.
    package func send() async throws -> ReportMessage? {
        guard let (queue, appId) = try desk.read(), !queue.waiting.isEmpty || queue.dropped > 0 else { return nil }
        let message = ReportMessage(appId: appId, reports: queue.waiting, dropped: queue.dropped)
        try await fetcher.post(upload(message), to: url)
        try desk.settle(message)
        return message
    }

    /// The same, for no longer than `limit`; in the way of nobody.
    package func send(within limit: Duration) async throws -> ReportMessage? {
        do {
            return try await BundlePush.within(limit, else: .timedOut(.connecting), on: clock) { try await send() }
        } catch is TransportError {
            throw FetchError.timedOut(url)
        }
    }

    private func upload(_ message: ReportMessage) -> FetchRequest.Upload {
        url.path.hasSuffix(Self.importPath)
            ? FetchRequest.Upload(type: "text/plain; version=0.0.4", bytes: message.samples)
            : FetchRequest.Upload(type: "application/json", bytes: message.bytes)
    }

    /// Sends now and then, until it is cancelled; less and less often where nobody takes it. `say` hears what failed, each
    /// trouble once.
    package func run(_ say: (any Error) -> Void) async {
        var backoff = BackoffRule()
        backoff.first = within
        backoff.longest = max(within, .seconds(3600))
        backoff.spread = 0.1...1
        var losses = 0
        var asked: Duration?
        var trouble: String?
        while !Task.isCancelled {
            let wait = backoff.wait(losses: losses, asked: asked, random)
            do { try await clock.sleep(for: wait) } catch { return }
            do {
                _ = try await send(within: Self.patience)
                (losses, asked, trouble) = (0, nil, nil)
            } catch {
                if Task.isCancelled { return }
                losses += 1
                asked = (error as? FetchError)?.retryAfter
                if "\(error)" != trouble { say(error) }
                trouble = "\(error)"
            }
        }
    }
}
