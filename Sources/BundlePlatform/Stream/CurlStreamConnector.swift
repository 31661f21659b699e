import BundleCore
package import BundlePush

/// Opens streams with libcurl: proxies, authorities, names and time limits are those of `CurlFetcher`.
package struct CurlStreamConnector: StreamConnector {
    private let options: FetchOptions

    /// A connector that has opened nothing yet. Its credential is shown to nobody: a request goes over the stream, not before it.
    package init(options: FetchOptions) {
        self.options = options
    }

    /// Opens a stream.
    package func connectStream(_ url: SocketURL) async throws -> Int32 {
        try Task.checkCancellation()
        let relay = try StreamRelay(to: try Self.server(of: url), options: options)
        try relay.start()
        return try await withTaskCancellationHandler {
            try await relay.opened.value
        } onCancel: {
            relay.cancel()
        }
    }

    /// A socket starts out as HTTP: `ws` is `http`, `wss` is `https` (RFC 6455, section 3).
    private static func server(of url: SocketURL) throws -> FetchURL {
        do throws(FetchError) {
            return try FetchURL(parsing: "\(url.isSecure ? "https" : "http")://\(url.authority)/")
        } catch {
            throw TransportError.unsupportedURL(url.description, reason: "\(error)")
        }
    }
}
