import BundleValues

internal import BundleCore
internal import CCurl
internal import ShellBoot

/// One libcurl easy handle with what must live as long as it.
struct CurlEasy: ~Copyable {
    let handle: UnsafeMutableRawPointer
    private let errorText: UnsafeMutablePointer<CChar>
    private var headers: UnsafeMutablePointer<curl_slist>?
    private var firstRefusal = CURLE_OK

    /// Nil when there is no memory.
    init?() {
        guard let handle = curl_easy_init() else { return nil }
        self.handle = handle
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(headers)
        errorText.deallocate()
    }

    /// Prepares one hop to `url`; `context` is handed to the callbacks.
    mutating func prepare(
        _ url: FetchURL, resume: FetchRequest.Resume?, options: FetchOptions, context: UnsafeMutableRawPointer
    ) throws(FetchError) {
        reset()
        setConnection(url, options: options)
        setHeaders(url, resume: resume, options: options)
        setCallbacks(context: context)
        try requireSettings(url)
    }

    /// Prepares a connection to `url` and nothing more: what is said over it is the caller's.
    mutating func prepareStream(to url: FetchURL, options: FetchOptions) throws(FetchError) {
        reset()
        setConnection(url, options: options)
        set(CURLOPT_USERAGENT, options.userAgent)
        set(CURLOPT_CONNECT_ONLY, 1)
        // A proxy that reads HTTP would answer in the server's place.
        set(CURLOPT_HTTPPROXYTUNNEL, 1)
        // A WebSocket begins with HTTP/1.1, and the server must not choose another.
        set(CURLOPT_SSL_ENABLE_ALPN, 0)
        try requireSettings(url)
    }

    private mutating func reset() {
        curl_easy_reset(handle)
        errorText.pointee = 0
        firstRefusal = CURLE_OK
    }

    private func requireSettings(_ url: FetchURL) throws(FetchError) {
        guard firstRefusal == CURLE_OK else {
            throw .unreachable(url, reason: "libcurl refuses a setting: \(CurlFailure.name(firstRefusal))")
        }
    }

    /// What libcurl said beyond the code; empty when nothing.
    var explanation: String { String(cString: errorText) }

    /// `errno` of the last attempt to connect; 0 where there is none.
    var systemError: Int32 {
        var code = 0
        return ccurl_system_error(handle, &code) == CURLE_OK ? Int32(clamping: code) : 0
    }

    private mutating func setConnection(_ url: FetchURL, options: FetchOptions) {
        set(CURLOPT_URL, url.description)
        // This hop's scheme alone; a redirect is a hop of its own, after `ResponseRule` allowed it.
        set(CURLOPT_PROTOCOLS_STR, url.scheme.rawValue)
        set(CURLOPT_NOSIGNAL, 1)
        // Without it, giving up a name look-up waits for the resolver.
        set(CURLOPT_QUICK_EXIT, 1)
        set(CURLOPT_CONNECTTIMEOUT_MS, options.connectTimeout.wholeMilliseconds)
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        set(CURLOPT_PIPEWAIT, 1)
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        set(CURLOPT_BUFFERSIZE, 128 * 1024)
        // What is for this machine leaves it neither in the clear nor at all.
        if url.origin.isThisMachine { set(CURLOPT_NOPROXY, "*") }
        set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        if let caFile = options.caFile {
            set(CURLOPT_CAINFO, caFile)
            // The built-in folder would be trusted beside the file.
            check(ccurl_set_text(handle, CURLOPT_CAPATH, nil))
        }
        check(ccurl_set_pointer(handle, CURLOPT_ERRORBUFFER, errorText))
    }

    private mutating func setHeaders(_ url: FetchURL, resume: FetchRequest.Resume?, options: FetchOptions) {
        curl_slist_free_all(headers)
        headers = nil
        set(CURLOPT_USERAGENT, options.userAgent)
        if let credential = options.credential, credential.origin == url.origin {
            add(header: "\(credential.field.name): \(credential.field.value)")
        }
        if let resume {
            add(header: "Range: bytes=\(resume.offset)-")
            add(header: "If-Range: \(resume.validator)")
        }
        check(ccurl_set_header_list(handle, headers))
    }

    private mutating func setCallbacks(context: UnsafeMutableRawPointer) {
        check(ccurl_set_pointer(handle, CURLOPT_PREREQDATA, context))
        check(ccurl_set_pointer(handle, CURLOPT_HEADERDATA, context))
        check(ccurl_set_pointer(handle, CURLOPT_WRITEDATA, context))
        check(
            ccurl_set_prereq_callback(handle) { context, _, _, _, _ in
                CurlTransfer.from(context)?.requestGoesOut()
                return Int32(CURL_PREREQFUNC_OK)
            })
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return CurlTransfer.from(context)?.take(headerLine: line) == true ? line.count : CurlTransfer.stop
            })
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
                let chunk = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return CurlTransfer.from(context)?.take(body: chunk) == true ? chunk.count : CurlTransfer.stop
            })
    }

    private mutating func add(header: String) {
        guard let longer = curl_slist_append(headers, header) else { return check(CURLE_OUT_OF_MEMORY) }
        headers = longer
    }

    private mutating func set(_ option: CURLoption, _ value: Int) { check(ccurl_set_long(handle, option, value)) }

    private mutating func set(_ option: CURLoption, _ value: String) { check(ccurl_set_text(handle, option, value)) }

    private mutating func check(_ code: CURLcode) {
        if firstRefusal == CURLE_OK { firstRefusal = code }
    }
}

extension Duration {
    /// Rounded up, within what a C int holds.
    var wholeMilliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 2_000_000 else { return 2_000_000_000 }
        return Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
