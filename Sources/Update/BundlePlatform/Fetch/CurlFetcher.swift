import BundleCore
package import BundleValues
internal import Synchronization

/// Fetches over http and https with libcurl, and files by reading them.
///
/// Transfers share one thread, started by the first, and their connections. Proxies come from the usual environment
/// variables, which libcurl reads. Bytes arrive as served: no encoding is asked for or undone.
package final class CurlFetcher: Fetcher {
    private let options: FetchOptions
    private let thread = Mutex<CurlThread?>(nil)

    /// Creates a fetcher that has done nothing yet.
    package init(options: FetchOptions) {
        self.options = options
    }

    /// Brings the answer into `sink`; cancelling the task ends the transfer at once. See `Fetcher`.
    package func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout sending Sink
    ) async throws -> FetchHead {
        try await fetch(request, into: &sink, credential: options.credential)
    }

    /// The same with another credential than the usual one.
    func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout sending Sink, credential: BearerCredential?
    ) async throws -> FetchHead {
        if request.url.isFile {
            if request.upload != nil {
                throw FetchError.unsupportedURL(request.url.display, reason: "nothing can be sent to a file")
            }
            return try await LocalFile(request).read(into: &sink)
        }
        var options = options
        options.credential = credential
        let loop = try runningLoop(for: request.url)
        let cell = SinkCell(sink)
        let outcome = await Self.transfer(request, options: options, sink: cell, on: loop)
        sink = cell.takeBack()
        return try outcome.get()
    }

    private func runningLoop(for url: FetchURL) throws(FetchError) -> CurlLoop {
        let running = thread.withLock { thread in
            if thread == nil { thread = CurlThread(maximumTransfers: options.maximumTransfers) }
            return thread?.loop
        }
        guard let running else {
            throw .exhausted(url, reason: "libcurl (libcurl.so.4) cannot be loaded or started")
        }
        return running
    }

    private static func transfer<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, options: FetchOptions, sink: SinkCell<Sink>, on loop: CurlLoop
    ) async -> CurlTransfer.Outcome {
        let transfer = CurlTransfer(request, options: options, sink: sink.erased)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                transfer.resume = { continuation.resume(returning: $0) }
                loop.submit(transfer)
            }
        } onCancel: {
            loop.cancel(transfer)
        }
    }
}

/// How a `CurlFetcher` connects, and when it gives up.
public struct FetchOptions: Sendable {
    /// Sent as User-Agent: product and version.
    public var userAgent: String
    /// A PEM file of the only authorities to trust; nil trusts the system's.
    public var caFile: String?
    /// The proxy for what is not for this machine; empty for none, nil for those that the environment names.
    public var proxy: String?
    /// A token and the one origin that may see it.
    package var credential: BearerCredential?
    /// Name, connection and TLS handshake together.
    public var connectTimeout: Duration = .seconds(15)
    /// The longest wait from the request to the first byte of the body, and the longest gap after that.
    public var stallTimeout: Duration = .seconds(30)
    /// Bytes per second below which a transfer ends, as the average over any `slowWindow`.
    public var slowFloor = 1024
    /// The span `slowFloor` is measured over.
    public var slowWindow: Duration = .seconds(60)
    /// The time every fetch is allowed in all, redirects included.
    public var minimumCeiling: Duration = .seconds(600)
    /// Bytes per second at which a fetch of `maximumBytes` outgrows `minimumCeiling`.
    public var ceilingRate = 8192
    /// How many redirects to follow.
    public var maximumRedirects = 5
    /// Transfers, and so connections, that run at once; further ones wait, and no time-out runs meanwhile.
    public var maximumTransfers = 8
    /// Bytes of status lines and headers accepted of one server answer.
    public var maximumHeaderBytes = 64 * 1024

    /// Creates the default limits for a program called `userAgent`.
    public init(userAgent: String, caFile: String? = nil) {
        self.userAgent = userAgent
        self.caFile = caFile
    }

    func ceiling(maximumBytes: Int) -> Duration {
        max(minimumCeiling, .seconds(maximumBytes / max(1, ceilingRate)))
    }
}
