package import BundleDisk
import BundleSigning
package import BundleValues
internal import CCurl

/// Sends requests to one bucket with signatures by libcurl. Blocks its thread, and is used by one thread only.
package final class ObjectClient {
    /// The URL of the bucket, with its name in the path.
    package let bucket: FetchURL
    private let region: String
    private let keys: AccessKeys
    private let options: FetchOptions
    private var multi: MultiHandle?
    /// Receives the number of sent bytes and the size of the body.
    package var progress: (Int, Int) -> Void = { _, _ in }

    /// Creates a client of the bucket at `bucket` in `region`.
    package init(bucket: FetchURL, region: String, keys: AccessKeys, options: FetchOptions) {
        self.bucket = bucket
        self.region = region
        self.keys = keys
        self.options = options
    }

    /// Sends `request` once. Passes the body of a 200 response to `receive` piece by piece, or stores it in the
    /// response if `receive` is nil. Throws `tooLarge` if the body has more than `maximumBytes` bytes.
    package func send(
        _ request: ObjectRequest, maximumBytes: Int, receive: ((UnsafeRawBufferPointer) throws -> Void)? = nil
    ) throws -> ObjectResponse {
        let url = try FetchURL(parsing: bucket.description + (request.key.map { "/" + $0.text } ?? "") + request.target)
        guard CurlThread.isReady, multi != nil || start(), var easy = CurlEasy() else {
            throw CurlFailure.startError(at: url)
        }
        let transfer = ObjectTransfer(
            try ObjectBody(request.body), at: url, maximumBytes: maximumBytes, receive: receive, options, progress)
        try easy.prepare(
            request, at: url, transfer, region: region, keys: keys, options: options,
            context: Unmanaged.passUnretained(transfer).toOpaque())
        let began = ContinuousClock.now
        defer {
            let result = transfer.head.isComplete ? "status \(transfer.head.status)" : "no response"
            let milliseconds = Int((.now - began) / .milliseconds(1))
            options.log?("\(request.method.rawValue) \(url.display): \(result), \(milliseconds) ms")
        }
        let code = try withExtendedLifetime(transfer) { try run(&easy, transfer) }
        if let failure = transfer.failure { throw failure }
        guard code == CURLE_OK, transfer.head.isComplete else {
            throw CurlFailure.error(
                code, explanation: easy.explanation, systemError: easy.systemError, at: url, options: options)
        }
        return ObjectResponse(
            status: transfer.head.status, entityTag: transfer.head.value(of: "etag"),
            retryAfter: transfer.head.retryAfter, body: transfer.bytes)
    }

    private func start() -> Bool {
        multi = MultiHandle(connections: 2)
        return multi != nil
    }

    /// Runs the transfer until it has ended or is too slow.
    private func run(_ easy: inout CurlEasy, _ transfer: ObjectTransfer) throws -> CURLcode {
        guard let multi = multi?.pointer else { return CURLE_FAILED_INIT }
        guard curl_multi_add_handle(multi, easy.handle) == CURLM_OK else { return CURLE_FAILED_INIT }
        defer { curl_multi_remove_handle(multi, easy.handle) }
        while true {
            var running: Int32 = 0
            guard curl_multi_perform(multi, &running) == CURLM_OK else { return CURLE_FAILED_INIT }
            var left: Int32 = 0
            while let message = curl_multi_info_read(multi, &left) {
                if message.pointee.msg == CURLMSG_DONE { return message.pointee.data.result }
            }
            if transfer.isTooSlow(at: .now) { throw FetchError.tooSlow(transfer.url) }
            curl_multi_poll(multi, nil, 0, 200, nil)
        }
    }
}

/// The body of a request, from memory or a file.
private struct ObjectBody {
    let size: Int
    let sha256: SHA256Digest
    private let source: ObjectRequest.ObjectContent

    init(_ source: ObjectRequest.ObjectContent) throws {
        self.source = source
        switch source {
        case .none: (size, sha256) = (0, try SHA256Digest.of([]))
        case .bytes(let bytes): (size, sha256) = (bytes.count, try SHA256Digest.of(bytes))
        case .file(let file):
            var hasher = try SHA256Hasher()
            size = try file.forEachBlock { try hasher.update($0) }
            sha256 = try hasher.finish()
        }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws -> Int {
        switch source {
        case .none: return 0
        case .bytes(let bytes):
            let count = min(buffer.count, bytes.count - offset)
            bytes.withUnsafeBytes {
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[offset..<offset + count]))
            }
            return count
        case .file(let file): return try file.read(into: buffer, at: offset)
        }
    }
}

/// A running request. Only the sending thread uses it.
private final class ObjectTransfer {
    let url: FetchURL
    let body: ObjectBody
    private(set) var head: ResponseHead
    private(set) var bytes: [UInt8] = []
    private(set) var failure: (any Error)?
    private let maximumBytes: Int
    private let receive: ((UnsafeRawBufferPointer) throws -> Void)?
    private let progress: (Int, Int) -> Void
    private var pace: TransferPace
    private var sent = 0
    private var received = 0

    init(
        _ body: ObjectBody, at url: FetchURL, maximumBytes: Int, receive: ((UnsafeRawBufferPointer) throws -> Void)?,
        _ options: FetchOptions, _ progress: @escaping (Int, Int) -> Void
    ) {
        self.url = url
        self.body = body
        self.maximumBytes = maximumBytes
        self.receive = receive
        self.progress = progress
        head = ResponseHead(url: url, maximumBytes: options.maximumHeaderBytes)
        pace = TransferPace(options: options, start: .now)
    }

    static func from(_ context: UnsafeMutableRawPointer?) -> ObjectTransfer? {
        context.map { Unmanaged<ObjectTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    func isTooSlow(at now: TransferPace.Instant) -> Bool { pace.isTooSlow(at: now) }

    /// Fills `buffer` with the next bytes of the body; nil aborts the request.
    func send(into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        var count = 0
        let isRead = attempt { count = try body.read(into: buffer, at: sent) }
        sent += count
        pace.received(count, at: .now)
        progress(sent, body.size)
        return isRead ? count : nil
    }

    func receive(headerLine line: UnsafeRawBufferPointer) -> Bool { attempt { try head.append(line: line) } }

    func receive(body chunk: UnsafeRawBufferPointer) -> Bool {
        attempt {
            received += chunk.count
            pace.received(chunk.count, at: .now)
            // An error response is short text.
            let limit = head.status == 200 ? maximumBytes : 64 << 10
            guard received <= limit else { throw FetchError.tooLarge(limit: limit, url) }
            if head.status == 200, let receive { return try receive(chunk) }
            bytes += chunk
        }
    }

    private func attempt(_ step: () throws -> Void) -> Bool {
        do {
            try step()
            return true
        } catch {
            failure = error
            return false
        }
    }
}

extension CurlEasy {
    /// Prepares one signed request. The callbacks receive `context`.
    fileprivate mutating func prepare(
        _ request: ObjectRequest, at url: FetchURL, _ transfer: ObjectTransfer, region: String, keys: AccessKeys,
        options: FetchOptions, context: UnsafeMutableRawPointer
    ) throws(FetchError) {
        reset()
        setConnection(url, options: options)
        dropHeaders()
        set(CURLOPT_USERAGENT, options.userAgent)
        set(CURLOPT_AWS_SIGV4, "aws:amz:\(region):s3")
        set(CURLOPT_USERNAME, keys.id)
        set(CURLOPT_PASSWORD, keys.secret)
        if let token = keys.sessionToken { add(header: "x-amz-security-token: \(token)") }
        // Signed, so that the store refuses another body.
        add(header: "x-amz-content-sha256: \(transfer.body.sha256.hex)")
        for (header, value) in request.headers.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            add(header: "\(header.rawValue): \(value)")
        }
        useHeaders()
        setMethod(request.method, size: transfer.body.size)
        check(ccurl_set_pointer(handle, CURLOPT_READDATA, context))
        check(ccurl_set_pointer(handle, CURLOPT_HEADERDATA, context))
        check(ccurl_set_pointer(handle, CURLOPT_WRITEDATA, context))
        setCallbacks()
        try requireSettings(url)
    }

    private mutating func setMethod(_ method: ObjectRequest.ObjectMethod, size: Int) {
        switch method {
        case .get: set(CURLOPT_HTTPGET, 1)
        case .delete: set(CURLOPT_CUSTOMREQUEST, method.rawValue)
        case .put:
            // A POST with the method PUT: libcurl asks the server before each PUT whether it accepts the body, but
            // before a POST only if it is large. A server that does not respond gets the body after 300 ms.
            set(CURLOPT_POST, 1)
            set(CURLOPT_CUSTOMREQUEST, method.rawValue)
            set(CURLOPT_UPLOAD_BUFFERSIZE, 512 * 1024)
            check(ccurl_set_offset(handle, CURLOPT_POSTFIELDSIZE_LARGE, Int64(size)))
            set(CURLOPT_EXPECT_100_TIMEOUT_MS, 300)
        }
    }

    private mutating func setCallbacks() {
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_READFUNCTION) { bytes, size, count, context in
                let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
                return ObjectTransfer.from(context)?.send(into: buffer) ?? Int(CURL_READFUNC_ABORT)
            })
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return ObjectTransfer.from(context)?.receive(headerLine: line) == true ? line.count : CurlTransfer.stop
            })
        check(
            ccurl_set_bytes_callback(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
                let chunk = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return ObjectTransfer.from(context)?.receive(body: chunk) == true ? chunk.count : CurlTransfer.stop
            })
    }
}

/// The key of an object in its bucket. It needs no encoding, so the signed text is the sent text.
package struct ObjectKey: Hashable, Sendable {
    package let text: String

    /// Returns nil unless the text consists of letters, digits and `._~/-` without an empty, `.` or `..` component.
    /// libcurl before 8.9 signs other keys wrongly.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        let isPlain = text.utf8.allSatisfy { $0 == UInt8(ascii: "/") || ObjectRequest.isUnreserved($0) }
        guard isPlain, text.utf8.count <= 1024, parts.allSatisfy({ !["", ".", ".."].contains($0) }) else { return nil }
        self.text = text
    }
}

/// A request to an object store that every version of libcurl signs correctly.
package struct ObjectRequest {
    package enum ObjectMethod: String, Sendable { case get = "GET", put = "PUT", delete = "DELETE" }

    package enum ObjectContent {
        case none
        case bytes([UInt8])
        /// A file, which is read during the upload because it may be large.
        case file(File)
    }

    /// A header of these requests. No name is a prefix of another and no value is empty, which libcurl before 8.10
    /// would sign wrongly.
    package enum Header: String, Sendable, CaseIterable {
        case ifNoneMatch = "If-None-Match"
        case ifMatch = "If-Match"
        case contentType = "Content-Type"
        case cacheControl = "Cache-Control"
    }

    package let method: ObjectMethod
    /// The object; nil for the bucket.
    package let key: ObjectKey?
    /// The unencoded names and values of the query.
    package var query: [String: String] = [:]
    package var headers: [Header: String] = [:]
    package var body = ObjectContent.none

    package init(_ method: ObjectMethod, _ key: ObjectKey?) {
        self.method = method
        self.key = key
    }

    static func isUnreserved(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || "-._~".utf8.contains(byte)
    }

    /// The query with sorted and encoded names and values.
    var target: String {
        let pairs = query.sorted { $0.key < $1.key }.map {
            "\(Self.percentEncoded($0.key))=\(Self.percentEncoded($0.value))"
        }
        return pairs.isEmpty ? "" : "?" + pairs.joined(separator: "&")
    }

    /// Returns `text` with percent-encoding of every byte that RFC 3986 does not leave unreserved, as signatures of AWS require.
    private static func percentEncoded(_ text: String) -> String {
        text.utf8.map { byte in
            if isUnreserved(byte) { return String(UnicodeScalar(byte)) }
            let digits = String(byte, radix: 16, uppercase: true)
            return "%" + (digits.utf8.count == 1 ? "0" : "") + digits
        }.joined()
    }
}

/// The response of an object store.
package struct ObjectResponse: Sendable {
    package let status: Int
    /// The entity tag as the server sent it. It is not a digest.
    package let entityTag: String?
    package let retryAfter: Duration?
    /// The body, unless it was passed to the caller's `receive`.
    package let body: [UInt8]
}

/// The access keys of an object store.
package struct AccessKeys: Sendable {
    let id: String
    let secret: String
    let sessionToken: String?
    /// Whether each request sends a session token.
    package var hasSessionToken: Bool { sessionToken != nil }

    /// Returns nil unless each text is a valid header value.
    package init?(id: String, secret: String, sessionToken: String?) {
        let texts = [id, secret] + (sessionToken.map { [$0] } ?? [])
        let isPlain = { (text: String) in !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }
        guard texts.allSatisfy(isPlain) else { return nil }
        (self.id, self.secret, self.sessionToken) = (id, secret, sessionToken)
    }
}

extension AccessKeys: CustomStringConvertible, CustomDebugStringConvertible {
    /// A text without the secrets.
    package var description: String { "keys of an object store" }
    package var debugDescription: String { description }
}
