package import BundleValues
internal import Synchronization

/// Fetches over http and https with libcurl, and reads files.
///
/// All transfers share one thread, which the first one starts, and its connections. libcurl reads proxies from the
/// usual environment variables. The fetcher requests no encoding, and removes one only for a request that
/// `isDecoded`.
package final class CurlFetcher: Fetcher {
    private let options: FetchOptions
    private let thread = Mutex<CurlThread?>(nil)

    package init(options: FetchOptions) {
        self.options = options
    }

    /// Passes the response to `sink`. Cancelling the task ends the transfer at once. See `Fetcher`.
    package func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout Sink
    ) async throws -> FetchHead {
        try await fetch(request, into: &sink, credential: options.credential)
    }

    /// Fetches with `credential` instead of that of the options.
    package func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout Sink, credential: BearerCredential?
    ) async throws -> FetchHead {
        if request.url.isFile {
            if request.upload != nil {
                throw FetchError.unsupportedURL(request.url.display, reason: "a file does not accept uploads")
            }
            return try await LocalFile(request).read(into: &sink)
        }
        var options = options
        options.credential = credential
        let loop = try runningLoop(for: request.url)
        let cell = SinkCell(sink)
        let began = ContinuousClock.now
        let outcome = await Self.transfer(request, options: options, sink: cell, on: loop)
        options.log?(Self.sentence(about: request, outcome, after: .now - began))
        sink = cell.moveOut()
        return try outcome.get()
    }

    private static func sentence(
        about request: FetchRequest, _ outcome: CurlTransfer.Outcome, after time: Duration
    ) -> String {
        let call = "\(request.upload == nil ? "GET" : "POST") \(request.url.display)"
        let milliseconds = "\(Int(time / .milliseconds(1))) ms"
        switch outcome {
        case .success(let head):
            let redirect = head.effectiveURL == request.url ? "" : "redirected to \(head.effectiveURL.display), "
            return "\(call): \(redirect)status \(head.status), \(milliseconds)"
        case .failure(FetchError.httpStatus(let status, _, _)): return "\(call): status \(status), \(milliseconds)"
        case .failure(let error as FetchError): return "\(call): failed after \(milliseconds): \(error)"
        // The sink needed no more, or failed, which the caller reports.
        case .failure: return "\(call): ended by this program after \(milliseconds)"
        }
    }

    private func runningLoop(for url: FetchURL) throws(FetchError) -> CurlLoop {
        let running = thread.withLock { thread in
            if thread == nil {
                thread = CurlThread(maximumTransfers: options.maximumTransfers, traffic: options.traffic)
            }
            return thread?.loop
        }
        guard let running else {
            throw CurlFailure.startError(at: url)
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

/// The connection settings and timeouts of a `CurlFetcher`.
public struct FetchOptions: Sendable {
    /// The User-Agent: product and version.
    public var userAgent: String
    /// Receives a sentence about each request that has ended; nil for none.
    package var log: (@Sendable (String) -> Void)?
    /// A PEM file of the trusted authorities; nil to trust those of the system.
    public var caFile: String?
    /// The proxy for other machines; empty for none, nil for the proxies in the environment.
    public var proxy: String?
    /// A token and the origin that receives it.
    package var credential: BearerCredential?
    /// Header fields and the origin that receives them.
    package var headers: OriginHeaders?
    /// The certificate that is sent to servers that request one; nil for none.
    public var clientCertificate: ClientCertificate?
    /// The count and the limit of the received bytes, shared by all fetchers of a process.
    package var traffic: Traffic?
    /// The timeout of name lookup, connection and TLS handshake together.
    public var connectTimeout: Duration = .seconds(15)
    /// The longest time from the request to the first byte of the body, and between two bytes after it.
    public var stallTimeout: Duration = .seconds(30)
    /// The lowest average rate over any `slowWindow`, in bytes per second.
    public var slowFloor = 1024
    /// The interval over which `slowFloor` is measured.
    public var slowWindow: Duration = .seconds(60)
    /// The shortest limit on the duration of a fetch with its redirects.
    public var minimumCeiling: Duration = .seconds(600)
    /// The rate in bytes per second from which the limit of a large fetch follows.
    public var ceilingRate = 8192
    /// The largest number of redirects.
    public var maximumRedirects = 5
    /// The largest number of parallel transfers. The timeouts of further ones begin when they start.
    public var maximumTransfers = 8
    /// The largest size of the status lines and headers of a response, in bytes.
    public var maximumHeaderBytes = 64 * 1024

    /// The host and port of `proxy` without its credentials, if requests to `url` use it.
    func proxyHost(for url: FetchURL) -> Substring? {
        guard let proxy, !proxy.isEmpty, !url.origin.isThisMachine else { return nil }
        let host = proxy.split(separator: "/").last { !$0.hasSuffix(":") } ?? proxy[...]
        return host.split(separator: "@").last
    }

    /// Creates options with the default limits.
    public init(userAgent: String, caFile: String? = nil) {
        self.userAgent = userAgent
        self.caFile = caFile
    }

    func ceiling(maximumBytes: Int) -> Duration {
        max(minimumCeiling, .seconds(maximumBytes / max(1, ceilingRate)))
    }
}
