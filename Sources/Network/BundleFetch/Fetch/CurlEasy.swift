import BundleValues
internal import CCurl

/// A libcurl easy handle with the memory that it uses.
struct CurlEasy: ~Copyable {
    let handle: UnsafeMutableRawPointer
    private let errorText: UnsafeMutablePointer<CChar>
    private var headers: UnsafeMutablePointer<curl_slist>?
    private var firstRefusal = CURLE_OK

    /// Returns nil without enough memory.
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

    /// Prepares one hop to `url`. The callbacks receive `context`.
    mutating func prepare(
        _ url: FetchURL, for request: FetchRequest, options: FetchOptions, context: UnsafeMutableRawPointer
    ) throws(FetchError) {
        reset()
        setConnection(url, options: options)
        setHeaders(url, request, options: options)
        if let upload = request.upload { setBody(upload.bytes) }
        // libcurl decodes a body only if this option is set, whatever its value is.
        if request.isDecoded { set(CURLOPT_ACCEPT_ENCODING, "identity") }
        setCallbacks(context: context)
        try requireSettings(url)
    }

    /// Prepares only a connection to `url`. The caller sends and receives over it.
    mutating func prepareStream(to url: FetchURL, options: FetchOptions) throws(FetchError) {
        reset()
        setConnection(url, options: options)
        set(CURLOPT_USERAGENT, options.userAgent)
        set(CURLOPT_CONNECT_ONLY, 1)
        // Without a tunnel, an HTTP proxy would answer instead of the server.
        set(CURLOPT_HTTPPROXYTUNNEL, 1)
        // A WebSocket requires HTTP/1.1, so the server must not select another protocol.
        set(CURLOPT_SSL_ENABLE_ALPN, 0)
        try requireSettings(url)
    }

    mutating func reset() {
        curl_easy_reset(handle)
        errorText.pointee = 0
        firstRefusal = CURLE_OK
    }

    func requireSettings(_ url: FetchURL) throws(FetchError) {
        guard firstRefusal == CURLE_OK else {
            throw .unreachable(url, reason: "libcurl refuses a setting: \(CurlFailure.name(firstRefusal))")
        }
    }

    /// libcurl's explanation; empty if there is none.
    var explanation: String { String(cString: errorText) }

    /// `errno` of the last connection attempt; 0 if there is none.
    var systemError: Int32 {
        var code = 0
        return ccurl_system_error(handle, &code) == CURLE_OK ? Int32(clamping: code) : 0
    }

    mutating func setConnection(_ url: FetchURL, options: FetchOptions) {
        set(CURLOPT_URL, url.description)
        // Allows this hop's scheme only. `ResponseRule` decides about redirects.
        set(CURLOPT_PROTOCOLS_STR, url.scheme.rawValue)
        set(CURLOPT_NOSIGNAL, 1)
        // Without this option, an aborted name lookup waits for the resolver.
        set(CURLOPT_QUICK_EXIT, 1)
        set(CURLOPT_CONNECTTIMEOUT_MS, options.connectTimeout.wholeMilliseconds)
        // Over HTTP/2, a server sends up to 10 MB to a paused transfer.
        let isLimited = options.traffic?.isLimited == true
        set(CURLOPT_HTTP_VERSION, Int(isLimited ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS))
        set(CURLOPT_PIPEWAIT, 1)
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        set(CURLOPT_BUFFERSIZE, (isLimited ? 16 : 128) * 1024)
        // Requests to this machine do not use a proxy.
        if url.origin.isThisMachine {
            set(CURLOPT_NOPROXY, "*")
        } else if let proxy = options.proxy {
            set(CURLOPT_PROXY, proxy)
        }
        set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        if let caFile = options.caFile {
            set(CURLOPT_CAINFO, caFile)
            // Without this, the built-in folder would be trusted too.
            check(ccurl_set_text(handle, CURLOPT_CAPATH, nil))
        }
        if url.scheme == .https, let certificate = options.clientCertificate { setCertificate(certificate) }
        check(ccurl_set_pointer(handle, CURLOPT_ERRORBUFFER, errorText))
    }

    /// libcurl reads the files for each connection, so a renewed certificate is used without a restart.
    private mutating func setCertificate(_ certificate: ClientCertificate) {
        set(CURLOPT_SSLCERT, certificate.path)
        set(CURLOPT_SSLCERTTYPE, certificate.isPKCS12 ? "P12" : "PEM")
        if let key = certificate.keyPath { set(CURLOPT_SSLKEY, key) }
        // Without a passphrase, OpenSSL would ask the terminal for that of an encrypted key.
        set(CURLOPT_KEYPASSWD, "")
    }

    /// libcurl copies the body and needs its length before.
    private mutating func setBody(_ bytes: [UInt8]) {
        set(CURLOPT_POST, 1)
        check(ccurl_set_offset(handle, CURLOPT_POSTFIELDSIZE_LARGE, Int64(bytes.count)))
        var bytes = bytes
        bytes.withUnsafeMutableBytes { check(ccurl_set_pointer(handle, CURLOPT_COPYPOSTFIELDS, $0.baseAddress)) }
    }

    private mutating func setHeaders(_ url: FetchURL, _ request: FetchRequest, options: FetchOptions) {
        dropHeaders()
        set(CURLOPT_USERAGENT, options.userAgent)
        if let credential = options.credential, credential.origin == url.origin {
            add(header: "\(credential.field.name): \(credential.field.value)")
        }
        if let extra = options.headers, extra.origin == url.origin {
            for field in extra.fields { add(header: "\(field.name): \(field.value)") }
        }
        if let upload = request.upload { add(header: "Content-Type: \(upload.type)") }
        if let key = request.upload?.deviceKey { add(header: "X-Device-Key: \(key)") }
        if let sender = request.upload?.authorization, url.origin == request.url.origin {
            add(header: "Authorization: \(sender)")
        }
        if let tag = request.knownTag { add(header: "If-None-Match: \(tag)") }
        if let resume = request.resume {
            add(header: "Range: bytes=\(resume.offset)-")
            if let validator = resume.validator { add(header: "If-Range: \(validator)") }
        }
        useHeaders()
    }

    mutating func dropHeaders() {
        curl_slist_free_all(headers)
        headers = nil
    }

    mutating func useHeaders() { check(ccurl_set_header_list(handle, headers)) }

    private mutating func setCallbacks(context: UnsafeMutableRawPointer) {
        check(ccurl_set_pointer(handle, CURLOPT_PREREQDATA, context))
        check(ccurl_set_pointer(handle, CURLOPT_HEADERDATA, context))
        check(ccurl_set_pointer(handle, CURLOPT_WRITEDATA, context))
        check(
            ccurl_set_prereq_callback(handle) { context, _, _, _, _ in
                CurlTransfer.from(context)?.requestStarted()
                return Int32(CURL_PREREQFUNC_OK)
            })
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return CurlTransfer.from(context)?.receive(headerLine: line) == true ? line.count : CurlTransfer.stop
            })
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
                let chunk = UnsafeRawBufferPointer(start: bytes, count: size * count)
                guard let transfer = CurlTransfer.from(context) else { return CurlTransfer.stop }
                guard transfer.mayReceive() else { return CurlTransfer.hold }
                return transfer.receive(body: chunk) ? chunk.count : CurlTransfer.stop
            })
    }

    mutating func add(header: String) {
        guard let longer = curl_slist_append(headers, header) else { return check(CURLE_OUT_OF_MEMORY) }
        headers = longer
    }

    mutating func set(_ option: CURLoption, _ value: Int) { check(ccurl_set_long(handle, option, value)) }

    mutating func set(_ option: CURLoption, _ value: String) { check(ccurl_set_text(handle, option, value)) }

    mutating func check(_ code: CURLcode) {
        if firstRefusal == CURLE_OK { firstRefusal = code }
    }
}

extension Duration {
    /// The milliseconds, rounded up and limited to a C int.
    var wholeMilliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 2_000_000 else { return 2_000_000_000 }
        return Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
