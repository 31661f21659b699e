package import BundleValues
internal import CCurl

/// Makes one request to a web server, and reports how far it succeeds: name, connection, TLS, response.
package enum FeedProbe {
    /// The result of the request.
    package enum End: Sendable, Equatable {
        /// The server responded with this status and Date.
        case answered(status: Int, date: String?)
        /// The name does not have an address.
        case unresolved(reason: String)
        /// The address does not accept connections.
        case unconnected(reason: String)
        /// The proxy was not found, or it refused the request.
        case proxyRefused(reason: String)
        /// The TLS connection failed or is not trusted.
        case untrusted(reason: String)
        /// The server is connected but does not send an HTTP response.
        case silent(reason: String)
        /// This machine cannot make the request.
        case unable(FetchError)
    }

    /// Requests `url`, which must not be a file, like `CurlFetcher` but without a token. A redirect counts as a
    /// response. Ends after at most twice `limit`.
    package static func run(_ url: FetchURL, options: FetchOptions, limit: Duration) async -> End {
        var options = options
        options.credential = nil
        options.connectTimeout = limit
        do {
            return try await onThread { [options] in
                guard CurlThread.isReady, let multi = MultiHandle(connections: 1), var easy = CurlEasy() else {
                    return .unable(CurlFailure.startError(at: url))
                }
                let response = ProbeResponse(url, options)
                let code = try easy.probe(url, options: options, limit: limit, response, on: multi)
                if response.head.isComplete {
                    return .answered(status: response.head.status, date: response.head.value(of: "date"))
                }
                return end(code, easy, url, options)
            }
        } catch {
            return .unable(error as? FetchError ?? .unreachable(url, reason: "\(error)"))
        }
    }

    private static func end(
        _ code: CURLcode, _ easy: borrowing CurlEasy, _ url: FetchURL, _ options: FetchOptions
    ) -> End {
        var progress = ccurl_progress()
        ccurl_get_progress(easy.handle, &progress)
        let reason = easy.explanation.isEmpty ? CurlFailure.name(code) : FetchURL.display(of: easy.explanation)
        if progress.tunnel >= 300 { return .proxyRefused(reason: "it returned \(progress.tunnel)") }
        switch code {
        case CURLE_COULDNT_RESOLVE_PROXY, CURLE_PROXY: return .proxyRefused(reason: reason)
        case CURLE_COULDNT_RESOLVE_HOST: return .unresolved(reason: reason)
        case CURLE_COULDNT_CONNECT: return .unconnected(reason: reason)
        case CURLE_OPERATION_TIMEDOUT where progress.name == 0: return .unresolved(reason: reason)
        case CURLE_OPERATION_TIMEDOUT where progress.connection == 0: return .unconnected(reason: reason)
        case CURLE_OPERATION_TIMEDOUT where url.scheme == .https && progress.tls == 0: return .untrusted(reason: reason)
        default: break
        }
        if case .tlsFailed(_, let reason) = CurlFailure.error(
            code, explanation: easy.explanation, at: url, options: options)
        {
            return .untrusted(reason: reason)
        }
        return .silent(reason: reason)
    }
}

/// The response head. Only the probing thread uses it.
private final class ProbeResponse {
    var head: ResponseHead

    init(_ url: FetchURL, _ options: FetchOptions) {
        head = ResponseHead(url: url, maximumBytes: options.maximumHeaderBytes)
    }
}

extension CurlEasy {
    /// Requests `url` until the head of the response is complete or the request fails.
    fileprivate mutating func probe(
        _ url: FetchURL, options: FetchOptions, limit: Duration, _ response: ProbeResponse,
        on multi: borrowing MultiHandle
    ) throws -> CURLcode {
        reset()
        setConnection(url, options: options)
        set(CURLOPT_USERAGENT, options.userAgent)
        set(CURLOPT_TIMEOUT_MS, limit.wholeMilliseconds * 2)
        check(ccurl_set_pointer(handle, CURLOPT_HEADERDATA, Unmanaged.passUnretained(response).toOpaque()))
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                guard let context else { return CurlTransfer.stop }
                let response = Unmanaged<ProbeResponse>.fromOpaque(context).takeUnretainedValue()
                let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
                guard (try? response.head.append(line: line)) != nil, !response.head.isComplete else {
                    return CurlTransfer.stop
                }
                return line.count
            })
        check(ccurl_set_bytes_callback(handle, CURLOPT_WRITEFUNCTION) { _, _, _, _ in CurlTransfer.stop })
        try requireSettings(url)
        defer { withExtendedLifetime(response) {} }
        guard curl_multi_add_handle(multi.pointer, handle) == CURLM_OK else { return CURLE_FAILED_INIT }
        defer { curl_multi_remove_handle(multi.pointer, handle) }
        while true {
            var running: Int32 = 0
            guard curl_multi_perform(multi.pointer, &running) == CURLM_OK else { return CURLE_FAILED_INIT }
            var left: Int32 = 0
            if let message = curl_multi_info_read(multi.pointer, &left), message.pointee.msg == CURLMSG_DONE {
                return message.pointee.data.result
            }
            if running == 0 { return CURLE_FAILED_INIT }
            curl_multi_poll(multi.pointer, nil, 0, 1000, nil)
        }
    }
}
