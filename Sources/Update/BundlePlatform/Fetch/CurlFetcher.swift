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
            throw .unreachable(url, reason: "libcurl (libcurl.so.4) cannot be started on this machine")
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
