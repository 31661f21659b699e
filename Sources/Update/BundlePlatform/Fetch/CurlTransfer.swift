internal import BundleCore
import BundleValues
internal import CCurl
internal import ShellBoot

/// One fetch on its way through its hops.
///
/// Sendable, unchecked: made by the fetching task, which hands it over; all state
/// below belongs to the thread of `CurlLoop`.
final class CurlTransfer: @unchecked Sendable {
    typealias Outcome = Result<FetchHead, any Error>

    /// What a callback returns to make libcurl abort: never the number of bytes it was given.
    static let stop = Int(CURL_WRITEFUNC_ERROR)
    /// An unwanted body up to this size is read to its end, so that the connection can be used again.
    private static let maximumUnwantedBytes = 64 * 1024

    private let request: FetchRequest
    private let options: FetchOptions
    private let sink: TransferSink
    /// Set before the transfer is handed over; called once, after the last use of the sink.
    var resume: @Sendable (Outcome) -> Void = { _ in }

    private var easy: CurlEasy?
    private var url: FetchURL
    private var redirects = 0
    private var head: ResponseHead
    private var verdict: ResponseVerdict?
    private var bodyBytes = 0
    private var failure: (any Error)?
    private var ceiling: SuspendingClock.Instant?
    private var pace: TransferPace?

    enum Custody { case caller, cancelledBefore, loop }

    /// Who has it; guarded by the lock of `CurlLoop`.
    var custody = Custody.caller

    init(_ request: FetchRequest, options: FetchOptions, sink: TransferSink) {
        self.request = request
        self.options = options
        self.sink = sink
        url = request.url
        head = ResponseHead(url: request.url, maximumBytes: options.maximumHeaderBytes)
    }

    static func from(_ context: UnsafeMutableRawPointer?) -> CurlTransfer? {
        context.map { Unmanaged<CurlTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Hops

    /// The handle of the next hop, ready to be added to the multi handle.
    func prepareHop() throws(FetchError) -> UnsafeMutableRawPointer {
        if ceiling == nil { ceiling = .now.advanced(by: options.ceiling(maximumBytes: request.maximumBytes)) }
        if easy == nil { easy = CurlEasy() }
        head = ResponseHead(url: url, maximumBytes: options.maximumHeaderBytes)
        verdict = nil
        bodyBytes = 0
        pace = nil
        let context = Unmanaged.passUnretained(self).toOpaque()
        try easy?.prepare(url, for: request, options: options, context: context)
        guard let handle = easy?.handle else { throw .exhausted(url, reason: "there is no memory left") }
        return handle
    }

    /// Takes the end of a hop; nil means that there is another one to prepare.
    func endHop(_ code: CURLcode) -> Outcome? {
        if let failure { return .failure(failure) }
        switch verdict {
        case .refuse(let error):
            return .failure(error)
        case .follow(let next):
            url = next
            redirects += 1
            return nil
        case .accept(let head) where code == CURLE_OK:
            return .success(head)
        case .accept, nil:
            guard code == CURLE_OK else {
                let (explanation, systemError) = (easy?.explanation ?? "", easy?.systemError ?? 0)
                return .failure(
                    CurlFailure.error(
                        code, explanation: explanation, systemError: systemError, at: url, options: options))
            }
            return .failure(FetchError.invalidResponse(url, reason: "it has no header"))
        }
    }

    /// The error for a multi handle that does not work.
    func refusal(by code: CURLMcode) -> FetchError {
        .unreachable(url, reason: "libcurl failed: \(String(cString: curl_multi_strerror(code)))")
    }

    /// Lets go of libcurl's handle, then of the caller.
    func finish(_ outcome: Outcome) {
        easy = nil
        resume(outcome)
    }

    // MARK: Time

    /// Connected: from here on the server can be slow.
    func requestGoesOut() { pace = TransferPace(options: options, start: .now) }

    var nextCheck: SuspendingClock.Instant? {
        guard let ceiling else { return pace?.nextCheck }
        return pace.map { min($0.nextCheck, ceiling) } ?? ceiling
    }

    /// The outcome of a transfer whose time is over; nil lets it go on.
    func overdue(at now: SuspendingClock.Instant) -> Outcome? {
        let error: FetchError
        if let ceiling, now >= ceiling {
            error = .timedOut(url)
        } else if pace?.isTooSlow(at: now) == true {
            error = .tooSlow(url)
        } else {
            return nil
        }
        if case .refuse(let refusal) = verdict { return .failure(refusal) }
        return .failure(error)
    }

    // MARK: Bytes; false aborts the hop

    func take(headerLine line: UnsafeRawBufferPointer) -> Bool {
        return attempt {
            try head.take(line: line)
            guard head.isComplete, verdict == nil else { return true }
            let rule = ResponseRule(request: request, maximumRedirects: options.maximumRedirects)
            let decided = rule.verdict(on: head, at: url, redirects: redirects)
            verdict = decided
            guard case .accept(let accepted) = decided, accepted.status != 304 else { return true }
            try sink.begin(accepted)
            return true
        }
    }

    func take(body chunk: UnsafeRawBufferPointer) -> Bool {
        bodyBytes += chunk.count
        defer { pace?.received(chunk.count, at: .now) }
        guard case .accept(let accepted) = verdict, accepted.status != 304 else {
            return bodyBytes <= Self.maximumUnwantedBytes
        }
        return attempt {
            // Without overflow: an accepted start is at most the limit.
            guard bodyBytes <= request.maximumBytes - (accepted.rangeStart ?? 0) else {
                throw FetchError.tooLarge(limit: request.maximumBytes, url)
            }
            try sink.receive(chunk)
            return true
        }
    }

    private func attempt(_ step: () throws -> Bool) -> Bool {
        do {
            return try step()
        } catch {
            failure = error
            return false
        }
    }
}

/// A sink with its type forgotten.
struct TransferSink {
    var begin: (FetchHead) throws -> Void
    var receive: (UnsafeRawBufferPointer) throws -> Void
}

/// Keeps a sink in one place while another thread uses it.
///
/// `@unchecked Sendable`: the fetching task moves the sink in, waits, and moves it out after the thread's last use.
final class SinkCell<Sink: FetchSink & ~Copyable>: @unchecked Sendable {
    private let place: UnsafeMutablePointer<Sink>

    init(_ sink: consuming sending Sink) {
        place = .allocate(capacity: 1)
        place.initialize(to: sink)
    }

    deinit { place.deallocate() }

    /// Must be called exactly once, after the transfer.
    func takeBack() -> sending Sink { place.move() }

    var erased: TransferSink {
        TransferSink(
            begin: { try self.place.pointee.begin($0) },
            receive: { try self.place.pointee.receive($0) })
    }
}

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
        _ url: FetchURL, for request: FetchRequest, options: FetchOptions, context: UnsafeMutableRawPointer
    ) throws(FetchError) {
        reset()
        setConnection(url, options: options)
        setHeaders(url, request, options: options)
        if let upload = request.upload { setBody(upload.bytes) }
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

    /// What libcurl said beyond the code; empty when nothing.
    var explanation: String { String(cString: errorText) }

    /// `errno` of the last attempt to connect; 0 where there is none.
    var systemError: Int32 {
        var code = 0
        return ccurl_system_error(handle, &code) == CURLE_OK ? Int32(clamping: code) : 0
    }

    mutating func setConnection(_ url: FetchURL, options: FetchOptions) {
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
        if url.origin.isThisMachine {
            set(CURLOPT_NOPROXY, "*")
        } else if let proxy = options.proxy {
            set(CURLOPT_PROXY, proxy)
        }
        set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        if let caFile = options.caFile {
            set(CURLOPT_CAINFO, caFile)
            // The built-in folder would be trusted beside the file.
            check(ccurl_set_text(handle, CURLOPT_CAPATH, nil))
        }
        check(ccurl_set_pointer(handle, CURLOPT_ERRORBUFFER, errorText))
    }

    /// libcurl keeps a copy, whose length it must know before.
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
        if let upload = request.upload { add(header: "Content-Type: \(upload.type)") }
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
    /// Rounded up, within what a C int holds.
    var wholeMilliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 2_000_000 else { return 2_000_000_000 }
        return Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
