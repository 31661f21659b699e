package import BundleValues
import BundleThreads
internal import CCurl
internal import ShellBoot

/// Asks a web server once, to find out how far one gets: the name, the connection, TLS, an answer.
package enum FeedProbe {
    /// Where it ended.
    package enum End: Sendable, Equatable {
        /// The server answered, with this status and Date.
        case answered(status: Int, date: String?)
        /// The name has no address.
        case unresolved(reason: String)
        /// Nothing listens, or nothing answers, at the address.
        case unconnected(reason: String)
        /// The proxy was not found, or does not let this through.
        case proxyRefused(reason: String)
        /// There is no trusted and encrypted connection.
        case untrusted(reason: String)
        /// There is a connection, and no answer of HTTP comes over it.
        case silent(reason: String)
        /// This machine cannot ask.
        case unable(reason: String)
    }

    /// Asks for `url`, which is no file, as `CurlFetcher` would, but for the token: nobody is shown one. A redirect is an answer. Ends
    /// after twice `limit` at most.
    package static func run(_ url: FetchURL, options: FetchOptions, limit: Duration) async -> End {
        var options = options
        options.credential = nil
        options.connectTimeout = limit
        do {
            return try await onThread { [options] in
                guard CurlThread.isReady, let multi = MultiHandle(connections: 1), var easy = CurlEasy() else {
                    return .unable(reason: "libcurl (libcurl.so.4) cannot be loaded or started")
                }
                let answer = ProbeAnswer(url, options)
                let code = try easy.probe(url, options: options, limit: limit, answer, on: multi)
                if answer.head.isComplete {
                    return .answered(status: answer.head.status, date: answer.head.value(of: "date"))
                }
                return end(code, easy, url, options)
            }
        } catch {
            return .unable(reason: "\(error)")
        }
    }

    private static func end(
        _ code: CURLcode, _ easy: borrowing CurlEasy, _ url: FetchURL, _ options: FetchOptions
    ) -> End {
        var progress = ccurl_progress()
        ccurl_get_progress(easy.handle, &progress)
        let reason = easy.explanation.isEmpty ? CurlFailure.name(code) : FetchURL.display(of: easy.explanation)
        if progress.tunnel >= 300 { return .proxyRefused(reason: "it answered \(progress.tunnel)") }
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

/// What comes of the one question; the thread that asks has it alone.
private final class ProbeAnswer {
    var head: ResponseHead

    init(_ url: FetchURL, _ options: FetchOptions) {
        head = ResponseHead(url: url, maximumBytes: options.maximumHeaderBytes)
    }
}

extension CurlEasy {
    /// Asks for `url` until the head of the answer is there, or something ends it.
    fileprivate mutating func probe(
        _ url: FetchURL, options: FetchOptions, limit: Duration, _ answer: ProbeAnswer, on multi: borrowing MultiHandle
    ) throws -> CURLcode {
        reset()
        setConnection(url, options: options)
        set(CURLOPT_USERAGENT, options.userAgent)
        set(CURLOPT_TIMEOUT_MS, limit.wholeMilliseconds * 2)
        check(ccurl_set_pointer(handle, CURLOPT_HEADERDATA, Unmanaged.passUnretained(answer).toOpaque()))
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                guard let context else { return CurlTransfer.stop }
                let answer = Unmanaged<ProbeAnswer>.fromOpaque(context).takeUnretainedValue()
                let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
                guard (try? answer.head.take(line: line)) != nil, !answer.head.isComplete else {
                    return CurlTransfer.stop
                }
                return line.count
            })
        check(ccurl_set_bytes_callback(handle, CURLOPT_WRITEFUNCTION) { _, _, _, _ in CurlTransfer.stop })
        try requireSettings(url)
        defer { withExtendedLifetime(answer) {} }
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
