package import BundleTransport

/// Opens streams with libcurl. Proxies, authorities, names and timeouts are those of `CurlFetcher`.
package struct CurlStreamConnector: StreamConnector {
    private let options: FetchOptions

    /// Creates a connector. Its credential is not sent, because the caller sends the request over the stream.
    package init(options: FetchOptions) {
        self.options = options
    }

    /// Opens a stream.
    package func connectStream(_ url: SocketURL) async throws -> any OpenStream {
        try Task.checkCancellation()
        let relay = try StreamRelay(to: url.start, options: options)
        try relay.start()
        let socket = try await withTaskCancellationHandler {
            try await relay.opened.value
        } onCancel: {
            relay.cancel()
        }
        return CurlStream(socket: socket, relay: relay, isSecure: url.isSecure, options: options)
    }
}

/// A stream over libcurl. Its relay runs until either end closes.
private struct CurlStream: OpenStream {
    let socket: Int32
    let relay: StreamRelay
    let isSecure: Bool
    let options: FetchOptions

    func certificateError(after response: ErrorResponse?) -> TransportError? {
        relay.certificateError ?? (isSecure ? CurlFailure.certificateError(of: response, options) : nil)
    }
}
