/// A GET request, or a POST request if it has an `upload`.
public struct FetchRequest: Sendable {
    /// The first URL. The fetcher follows redirects from there.
    public var url: FetchURL
    /// The part that is already downloaded; nil to start at the first byte.
    public var resume: Resume?
    /// The largest number of body bytes, counted from offset 0 of the resource, so it includes a resumed part.
    public var maximumBytes: Int
    /// The body to send; nil for a GET. The fetcher does not follow redirects of a POST.
    public var upload: Upload?
    /// Whether the fetcher removes a Content-Encoding that it did not ask for. `maximumBytes` then limits the decoded body.
    public var isDecoded = false

    /// A body to send.
    public struct Upload: Sendable, Equatable {
        /// The media type, such as `application/json`.
        public let type: String
        /// The content.
        public let bytes: [UInt8]
        /// The value of `X-Device-Key`; nil for a body without a signature of the device.
        public let deviceKey: String?
        /// The value of `Authorization` of the sender for which this program passes the body on; nil to use the fetcher's own token. It is
        /// sent only to the origin of the request.
        public let authorization: String?

        /// Creates a body. A header value that is not valid is dropped.
        public init(type: String, bytes: [UInt8], deviceKey: String? = nil, authorization: String? = nil) {
            self.type = type
            self.bytes = bytes
            self.deviceKey = deviceKey.flatMap { FetchHead.isField($0) ? $0 : nil }
            self.authorization = authorization.flatMap { FetchHead.isField($0) ? $0 : nil }
        }
    }
    /// The entity tag of the caller's copy, sent as `If-None-Match`. The server answers 304 without a body if the tag is
    /// current.
    public let knownTag: String?

    /// Creates a request for at most `maximumBytes` bytes of `url`. A `knownTag` that is not a valid header value is
    /// dropped, so that a value from a server cannot add header lines.
    public init(url: FetchURL, maximumBytes: Int, resume: Resume? = nil, knownTag: String? = nil) {
        self.url = url
        self.maximumBytes = maximumBytes
        self.resume = resume
        self.knownTag = knownTag.flatMap { FetchHead.isField($0) ? $0 : nil }
    }

    /// The position at which a download continues, and a validator of the resource if it needs one (RFC 9110, section 13.1.5).
    public struct Resume: Sendable, Equatable {
        /// The number of bytes already downloaded, at least 1.
        public let offset: Int
        /// A strong entity tag or a Last-Modified date, sent as `If-Range`. Nil if the caller compares the whole content with a
        /// signed digest: the rest is then accepted with any entity tag.
        public let validator: String?

        /// Requests the rest of content whose digest is known. Returns nil, which means to start again, if the offset is below 1.
        public init?(ofKnownContent offset: Int) {
            guard offset > 0 else { return nil }
            self.offset = offset
            validator = nil
        }

        /// Returns nil, which means to start again, if the offset is below 1 or the validator is weak, empty or not a
        /// valid header value. A stored validator must not be able to add header lines.
        public init?(offset: Int, validator: String) {
            guard offset > 0, FetchHead.isStrong(validator: validator) else { return nil }
            self.offset = offset
            self.validator = validator
        }
    }
}

/// The status and headers of the final response.
public struct FetchHead: Sendable, Equatable {
    /// 200 for a whole resource or file, 206 for the rest of one, 304 if the known tag is current.
    public var status: Int
    /// The URL of the response, after redirects.
    public var effectiveURL: FetchURL
    /// The length of this body in bytes, if the server sent it. For a 206 it is the length of the rest.
    public var contentLength: Int?
    /// The entity tag as sent, with its quotes.
    public var entityTag: String?
    /// The Last-Modified date as sent.
    public var lastModified: String?
    /// The offset of the first body byte of a 206, always as requested; nil if the body starts at byte 0.
    public var rangeStart: Int?
    /// The Content-Encoding as sent; nil if the body is not encoded.
    public var contentEncoding: String?
    /// Whether the response has a defined end. Without one, a truncated body looks complete.
    public var isDelimited: Bool
    /// The Cache-Control header as sent.
    public var cacheControl: String?

    /// Creates a head. Only implementations of `Fetcher` and tests need it.
    public init(
        status: Int, effectiveURL: FetchURL, contentLength: Int? = nil, entityTag: String? = nil,
        lastModified: String? = nil, rangeStart: Int? = nil, contentEncoding: String? = nil, isDelimited: Bool = true,
        cacheControl: String? = nil
    ) {
        self.status = status
        self.effectiveURL = effectiveURL
        self.contentLength = contentLength
        self.entityTag = entityTag
        self.lastModified = lastModified
        self.rangeStart = rangeStart
        self.contentEncoding = contentEncoding
        self.isDelimited = isDelimited
        self.cacheControl = cacheControl
    }

    /// The validator for a later `Resume`: the strong entity tag if there is one, otherwise the date.
    public var validator: String? {
        [entityTag, lastModified].lazy.compactMap(\.self).first(where: Self.isStrong(validator:))
    }

    static func isStrong(validator: String) -> Bool { !validator.hasPrefix("W/") && isField(validator) }

    static func isField(_ value: String) -> Bool {
        let bytes = value.utf8
        return !bytes.isEmpty && bytes.count <= 1024 && bytes.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
    }
}

/// Receives one response: the head once, then the body in order.
///
/// An error from either function ends the transfer, and `fetch` throws it unchanged. Neither function is called for
/// redirects, error responses and 304.
public protocol FetchSink: ~Copyable, Sendable {
    /// Receives the head of an acceptable response. If `rangeStart` is nil, the body starts at byte 0 even if the request
    /// asked for a range.
    mutating func begin(_ head: FetchHead) throws
    /// Receives the next bytes of the body, which are valid only during the call.
    mutating func receive(_ bytes: UnsafeRawBufferPointer) throws
}

/// Downloads one resource over http, https or file.
public protocol Fetcher: Sendable {
    /// Downloads a resource into `sink`. Calls may run at the same time.
    ///
    /// The fetcher uses the sink on another thread during the call and returns it with its state, also after an error. A
    /// slow sink delays the other transfers of the fetcher. Throws `FetchError`, the sink's own error, or
    /// `CancellationError`.
    func fetch<Sink: FetchSink & ~Copyable>(_ request: FetchRequest, into sink: inout Sink) async throws
        -> FetchHead
}

extension Fetcher {
    /// Downloads a small resource into memory and removes a Content-Encoding. Throws `FetchError.tooLarge` if it has more than
    /// `maximumBytes` bytes.
    public func fetchBytes(_ url: FetchURL, maximumBytes: Int) async throws -> [UInt8] {
        try await fetchSmall(url, maximumBytes: maximumBytes).bytes
    }

    /// Downloads a JSON document of a feed. Throws `manifestMalformed` if the server sent something else.
    package func fetchDocument(_ url: FetchURL, maximumBytes: Int) async throws -> [UInt8] {
        let (bytes, head) = try await fetchSmall(url, maximumBytes: maximumBytes)
        try Self.requireDocument(bytes, at: head.effectiveURL, asked: url)
        return bytes
    }

    private func fetchSmall(
        _ url: FetchURL, maximumBytes: Int, unless knownTag: String? = nil
    ) async throws -> (bytes: [UInt8], head: FetchHead) {
        var sink = ByteSink()
        var request = FetchRequest(url: url, maximumBytes: maximumBytes, knownTag: knownTag)
        request.isDecoded = true
        let head = try await fetch(request, into: &sink)
        return (sink.bytes, head)
    }

    private static func requireDocument(_ bytes: [UInt8], at url: FetchURL, asked: FetchURL) throws(UpdateFailure) {
        // No server changed a file of this machine, so its parser has the better message.
        if url.isFile { return }
        if let foreign = ForeignBody.of(bytes) { throw foreign.failure(of: asked, at: url) }
    }

    /// Sends a body by POST and returns after a status of 200 to 299. Throws the errors of `fetch`.
    package func post(_ upload: FetchRequest.Upload, to url: FetchURL) async throws {
        var sink = ByteSink()
        var request = FetchRequest(url: url, maximumBytes: 64 << 10)
        request.upload = upload
        _ = try await fetch(request, into: &sink)
    }

    /// Downloads a JSON document of a feed and its entity tag. Returns nil if `knownTag` is still current. Throws
    /// `manifestMalformed` if the server sent something else.
    package func fetchDocument(
        _ url: FetchURL, maximumBytes: Int, unless knownTag: String?
    ) async throws -> (bytes: [UInt8], tag: String?)? {
        let (bytes, head) = try await fetchSmall(url, maximumBytes: maximumBytes, unless: knownTag)
        if head.status == 304 { return nil }
        try Self.requireDocument(bytes, at: head.effectiveURL, asked: url)
        return (bytes, head.entityTag)
    }
}

private struct ByteSink: FetchSink {
    var bytes: [UInt8] = []

    mutating func begin(_ head: FetchHead) throws {
        bytes.reserveCapacity(min(head.contentLength ?? 0, 1 << 20))
    }

    mutating func receive(_ chunk: UnsafeRawBufferPointer) throws {
        bytes.append(contentsOf: chunk)
    }
}

/// The reason why a resource could not be downloaded.
public enum FetchError: Error, Equatable {
    /// There was no response or an incomplete one: unknown host, connection refused, timeout, or lost connection.
    case unreachable(FetchURL, reason: String)
    /// The server sent an error status. `retryAfter` is the wait that it asked for.
    case httpStatus(Int, FetchURL, retryAfter: Duration?)
    /// The response violates HTTP or does not match the request.
    case invalidResponse(FetchURL, reason: String)
    /// The resource has or announces more than `limit` bytes.
    case tooLarge(limit: Int, FetchURL)
    /// The server sent nothing for too long, or too little on average.
    case tooSlow(FetchURL)
    /// The transfer took longer than its size allows.
    case timedOut(FetchURL)
    /// The server sent a redirect that the client must not follow.
    case redirectRefused(from: FetchURL, to: String, reason: String)
    /// The TLS connection failed or is not trusted.
    case tlsFailed(FetchURL, reason: String)
    /// The file does not exist.
    case fileMissing(FetchURL)
    /// This process has no permission to read the file.
    case filePermission(FetchURL)
    /// This process has no memory or files left.
    case exhausted(FetchURL, reason: String)
    /// This system has no usable libcurl.
    case libraryMissing(FetchURL, reason: String)
    /// The text is not a URL that can be fetched. It is safe to print.
    case unsupportedURL(String, reason: String)
}

extension FetchError: CustomStringConvertible {
    /// The wait that the server asked for.
    public var retryAfter: Duration? {
        if case .httpStatus(_, _, let retryAfter) = self { retryAfter } else { nil }
    }

    /// The failure, the URL without its query, and the next step.
    public var description: String {
        switch self {
        case .unreachable(let url, let reason) where url.isFile:
            "\(url.shown) cannot be read: \(reason). Check the path, and the disk."
        case .unreachable(let url, let reason):
            "\(url.shown) is not reachable: \(reason). Check the network and the address, then try again."
        case .httpStatus(let status, let url, let retryAfter):
            "\(url.shown) answered \(status). " + Self.advice(status: status, retryAfter: retryAfter)
        case .invalidResponse(let url, let reason):
            "\(url.shown) sent an invalid response: \(reason). Check the server and any proxy in between."
        case .tooLarge(let limit, let url):
            "\(url.shown) is larger than the \(limit) bytes allowed. Check that the address names the right file."
        case .tooSlow(let url):
            "\(url.shown) sends nothing, or too slowly. Try again later; the download then continues."
        case .timedOut(let url): "\(url.shown) took too long. Try again later; the download then continues."
        case .redirectRefused(let from, let to, let reason):
            "\(from.shown) redirects to \(to), which is refused: \(reason). Configure the final address instead."
        case .tlsFailed(let url, let reason):
            "\(url.shown) has no trusted connection: \(reason). Check the address, the certificate, the CA file and the clock."
        case .fileMissing(let url):
            "\(url.shown) does not exist. Check the path, or copy the feed again if it is a part of one."
        case .filePermission(let url): "\(url.shown) may not be read. Check its permissions and those of its folders."
        case .exhausted(let url, let reason):
            "This machine cannot fetch \(url.shown): \(reason). Free memory, or raise the limit on it or on open files, then run it again."
        case .libraryMissing(let url, let reason):
            "This machine cannot fetch \(url.shown): libcurl (libcurl.so.4) cannot be loaded: \(reason). Install libcurl 4 (Debian: libcurl4), then run it again."
        case .unsupportedURL(let text, let reason):
            "\(text) cannot be fetched: \(reason). Give an http, https or file URL."
        }
    }

    private static func advice(status: Int, retryAfter: Duration?) -> String {
        if let retryAfter { return "Try again in \(retryAfter.components.seconds) s." }
        return switch status {
        case 401: "It requires a valid token: give one with --token-file, or with clientctl session login."
        case 403: "Check the token and its permissions."
        case 404, 410: "Check the address."
        case 407: "Check the proxy settings."
        case 416: "Delete the partial download and start again."
        case 511: "The network requires a login (captive portal): log in there, then try again."
        case 500...: "The server has a problem; try again later."
        default: "Check the address and the server."
        }
    }
}

/// Content that a server or a proxy sent instead of a JSON document of a feed.
package enum ForeignBody: Sendable, Equatable {
    case empty
    case webPage
    /// Compressed content without the header that names its coding.
    case compressed(String)
    case byteOrderMark
    /// Other content, which begins with this text.
    case other(String)

    /// Returns what `bytes` are; nil for something that begins like a JSON object.
    package static func of(_ bytes: [UInt8]) -> ForeignBody? {
        let codings: [(name: String, mark: [UInt8])] = [
            ("gzip", [0x1F, 0x8B]), ("zstd", [0x28, 0xB5, 0x2F, 0xFD]), ("zlib", [0x78, 0x9C]), ("zlib", [0x78, 0xDA]),
        ]
        if let coding = codings.first(where: { bytes.starts(with: $0.mark) }) { return .compressed(coding.name) }
        let marks: [[UInt8]] = [[0xEF, 0xBB, 0xBF], [0xFE, 0xFF], [0xFF, 0xFE]]
        let mark = marks.first { bytes.starts(with: $0) }
        let text = bytes.dropFirst(mark?.count ?? 0).drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
        switch text.first {
        case nil: return .empty
        case UInt8(ascii: "<"): return .webPage
        case UInt8(ascii: "{"): return mark == nil ? nil : .byteOrderMark
        default: return mark == nil ? .other(UntrustedName.display(text.prefix(60), limit: 60)) : .byteOrderMark
        }
    }

    /// Returns the error of a request for a document at `asked`, which the server at `url` answered.
    package func failure(of asked: FetchURL, at url: FetchURL) -> UpdateFailure {
        let way = asked == url ? "" : ", to which \(asked.display) redirects,"
        let from = "\(url.display)\(way)"
        let message =
            switch self {
            case .empty:
                "\(from) returned an empty document. Upload the file again; if the server has all of it, check the proxies in between."
            case .webPage:
                "\(from) returned a web page instead of a document. If the network has a login page (a captive portal), log "
                    + "in with a browser; if not, correct the address of the feed, or let the server answer 404 for missing files."
            case .compressed(let coding):
                "\(from) returned a document that is compressed with \(coding), and no header Content-Encoding. Upload the file as it "
                    + "was published, or let the server send the header."
            case .byteOrderMark:
                "\(from) returned a document with a byte order mark. Upload the file as it was published, without an editor or a "
                    + "conversion of text."
            case .other(let text):
                "\(from) returned \"\(text)\" instead of a document. Correct the address of the feed, or check the proxies in between."
            }
        return UpdateFailure(.manifestMalformed, subject: url.display, message)
    }
}
