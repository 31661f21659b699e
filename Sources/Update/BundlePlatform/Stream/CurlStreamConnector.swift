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
        let relay = try StreamRelay(to: url.start, options: options)
        try relay.start()
        return try await withTaskCancellationHandler {
            try await relay.opened.value
        } onCancel: {
            relay.cancel()
        }
    }
}
