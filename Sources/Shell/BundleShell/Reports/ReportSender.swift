package import BundleCore
import BundleTransport
package import BundleValues

/// Sends the queued reports of a device, one message at a time, and removes them from the store after a receiver has
/// accepted them.
package struct ReportSender: Sendable {
    /// The path suffix of a receiver for samples in the text format of Prometheus, such as VictoriaMetrics.
    private static let importPath = "/api/v1/import/prometheus"
    /// The timeout of one message.
    private static let timeout = Duration.seconds(30)

    private let desk: ReportStore
    private let url: FetchURL
    private let fetcher: any Fetcher
    private let within: Duration
    private let environment: Environment

    /// Creates a sender from `desk` to `url`. `run` sends after random pauses of 10 to 100 % of `within`.
    package init(
        _ desk: ReportStore, to url: FetchURL, by fetcher: any Fetcher, within: Duration,
        environment: Environment = Environment()
    ) {
        self.desk = desk
        self.url = url
        self.fetcher = fetcher
        self.within = within
        self.environment = environment
    }

    /// Sends the queued reports and returns the accepted message; nil if there is nothing to send or the device does
    /// not report. Throws `FetchError` if no receiver accepts it, and errors of the store; the reports then stay
    /// queued.
    package func send() async throws -> ReportMessage? {
        guard let (queue, appId) = try desk.read(), !queue.waiting.isEmpty || queue.dropped > 0 else { return nil }
        let message = ReportMessage(appId: appId, reports: queue.waiting, dropped: queue.dropped)
        try await fetcher.post(upload(message), to: url)
        try desk.settle(message)
        return message
    }

    /// Sends the queued reports with a timeout of `limit`.
    package func send(within limit: Duration) async throws -> ReportMessage? {
        do {
            return try await BundleTransport.within(limit, else: .timedOut(.connecting), on: environment.clock) {
                try await send()
            }
        } catch is TransportError {
            throw FetchError.timedOut(url)
        }
    }

    private func upload(_ message: ReportMessage) -> FetchRequest.Upload {
        url.path.hasSuffix(Self.importPath)
            ? FetchRequest.Upload(type: "text/plain; version=0.0.4", bytes: message.samples)
            : FetchRequest.Upload(type: "application/json", bytes: message.bytes)
    }

    /// Sends at intervals until the task is cancelled, and less often after failures. `say` receives each new failure
    /// once.
    package func run(_ say: (any Error) -> Void) async {
        var backoff = BackoffRule()
        backoff.first = within
        backoff.longest = max(within, .seconds(3600))
        backoff.spread = 0.1...1
        var losses = 0
        var asked: Duration?
        var lastFailure: String?
        while !Task.isCancelled {
            let wait = backoff.wait(losses: losses, asked: asked, environment.random)
            do { try await environment.clock.sleep(for: wait) } catch { return }
            do {
                _ = try await send(within: Self.timeout)
                (losses, asked, lastFailure) = (0, nil, nil)
            } catch {
                if Task.isCancelled { return }
                losses += 1
                asked = (error as? FetchError)?.retryAfter
                if "\(error)" != lastFailure { say(error) }
                lastFailure = "\(error)"
            }
        }
    }
}
