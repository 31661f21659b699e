/// One GET, or one POST where something is sent.
public struct FetchRequest: Sendable {
    /// Where to start; redirects may lead elsewhere.
    public var url: FetchURL
    /// What is already here, when a download goes on; nil starts at the first byte.
    package var resume: Resume?
    /// The most body bytes to accept, counted from offset 0 of the resource, so a resumed part counts too.
    public var maximumBytes: Int
    /// What is sent; nil for a GET. No redirect is followed with it.
    package var upload: Upload?

    /// A body with its media type.
    package struct Upload: Sendable, Equatable {
        /// The media type, such as `application/json`.
        package let type: String
        /// The bytes.
        package let bytes: [UInt8]

        /// States what is sent.
        package init(type: String, bytes: [UInt8]) {
            self.type = type
            self.bytes = bytes
        }
    }
    /// The entity tag of what is already here, sent as `If-None-Match`: an answer of 304 brings nothing then.
    package let knownTag: String?

    /// Creates a request for at most `maximumBytes` bytes of `url`. A `knownTag` that is no field value is left out: what a
    /// server once sent must not be able to add header lines.
    package init(url: FetchURL, maximumBytes: Int, resume: Resume? = nil, knownTag: String? = nil) {
        self.url = url
        self.maximumBytes = maximumBytes
        self.resume = resume
        self.knownTag = knownTag.flatMap { FetchHead.isField($0) ? $0 : nil }
    }

    /// The place to go on from, and the proof that the resource is still the same one (RFC 9110, section 13.1.5).
    package struct Resume: Sendable, Equatable {
        /// Bytes already here; at least 1.
        package let offset: Int
        /// A strong entity tag or a Last-Modified date, sent as `If-Range`.
        package let validator: String

        /// Nil, which means "start over", for an offset below 1, a weak or empty validator, or one that is not a header
        /// value: a stored record must not be able to add header lines.
        package init?(offset: Int, validator: String) {
            guard offset > 0, FetchHead.isStrong(validator: validator) else { return nil }
            self.offset = offset
            self.validator = validator
        }
    }
}

/// What the final answer said before its first body byte.
public struct FetchHead: Sendable, Equatable {
    /// 200 for a whole resource, 206 for the rest of one, the same two for a file; 304 where it still has the tag that was known.
    public var status: Int
    /// Where the answer came from, after redirects.
    public var effectiveURL: FetchURL
    /// Bytes of this body, when the server said so; of a 206, the rest only.
    public var contentLength: Int?
    /// The entity tag as sent, quotes included.
    public var entityTag: String?
    /// The Last-Modified date as sent.
    public var lastModified: String?
    /// The offset of the first body byte of a 206, never another one than was asked for; nil means that the body starts over at
    /// byte 0.
    public var rangeStart: Int?
    /// The codings of this body, as sent; nil where it is the resource's own bytes.
    public var contentEncoding: String?
    /// Whether the answer says where its body ends; otherwise one that was cut short looks complete.
    public var isDelimited: Bool
    /// What caches may do with it, as sent.
    public var cacheControl: String?

    /// Creates a head, for a `Fetcher` to hand over.
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

    /// What to keep for a later `Resume`: the strong entity tag, else the date, else nil.
    public var validator: String? {
        [entityTag, lastModified].lazy.compactMap(\.self).first(where: Self.isStrong(validator:))
    }

    static func isStrong(validator: String) -> Bool { !validator.hasPrefix("W/") && isField(validator) }

    static func isField(_ value: String) -> Bool {
        let bytes = value.utf8
        return !bytes.isEmpty && bytes.count <= 1024 && bytes.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
    }
}

/// Receives one answer: the head once, then the body in order.
///
/// Throwing from either ends the transfer, and `fetch` throws that very error. Neither is called for a redirect, an
/// answer that is an error, or one that says that nothing has changed (304).
public protocol FetchSink: ~Copyable {
    /// The answer is acceptable and its body follows; `rangeStart` nil means from byte 0, whatever was asked.
    mutating func begin(_ head: FetchHead) throws
    /// The next bytes of the body, valid only during the call.
    mutating func receive(_ bytes: UnsafeRawBufferPointer) throws
}

/// Brings one resource over http, https or file.
public protocol Fetcher: Sendable {
    /// Brings the whole answer into `sink`, or throws; several calls may run at once.
    ///
    /// The sink is used from another thread while the call lasts and is back, with its state, however the call ends. It
    /// should be quick: it holds up the other transfers of the fetcher.
    /// Throws `FetchError`, the sink's own error, or `CancellationError`.
    func fetch<Sink: FetchSink & ~Copyable>(_ request: FetchRequest, into sink: inout sending Sink) async throws
        -> FetchHead
}

extension Fetcher {
    /// Brings a small resource into memory; more than `maximumBytes` is `FetchError.tooLarge`.
    public func fetchBytes(_ url: FetchURL, maximumBytes: Int) async throws -> [UInt8] {
        var sink = ByteSink()
        _ = try await fetch(FetchRequest(url: url, maximumBytes: maximumBytes), into: &sink)
        return sink.bytes
    }

    /// Sends a body by POST; returns when the server has answered with a status of 200 to 299. Throws as `fetch` does.
    package func post(_ upload: FetchRequest.Upload, to url: FetchURL) async throws {
        var sink = ByteSink()
        var request = FetchRequest(url: url, maximumBytes: 64 << 10)
        request.upload = upload
        _ = try await fetch(request, into: &sink)
    }

    /// The same unless it still has the entity tag that is known: nil then. With the bytes comes their tag, where there is one.
    package func fetchBytes(
        _ url: FetchURL, maximumBytes: Int, unless knownTag: String?
    ) async throws -> (bytes: [UInt8], tag: String?)? {
        var sink = ByteSink()
        let request = FetchRequest(url: url, maximumBytes: maximumBytes, knownTag: knownTag)
        let head = try await fetch(request, into: &sink)
        return head.status == 304 ? nil : (sink.bytes, head.entityTag)
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

/// Why a resource did not arrive.
public enum FetchError: Error, Equatable {
    /// No answer, or half of one: name not found, refused, no connection in time, connection cut.
    case unreachable(FetchURL, reason: String)
    /// The server answered with a status that brings no content; `retryAfter` is the wait it asked for.
    case httpStatus(Int, FetchURL, retryAfter: Duration?)
    /// The answer breaks HTTP or does not fit the request.
    case invalidResponse(FetchURL, reason: String)
    /// The resource has, or says it has, more than `limit` bytes.
    case tooLarge(limit: Int, FetchURL)
    /// No byte for too long, or too few on average.
    case tooSlow(FetchURL)
    /// The whole transfer took longer than its size allows.
    case timedOut(FetchURL)
    /// A redirect that must not be followed.
    case redirectRefused(from: FetchURL, to: String, reason: String)
    /// No trusted and encrypted connection.
    case tlsFailed(FetchURL, reason: String)
    /// There is no such file.
    case fileMissing(FetchURL)
    /// The file is there but may not be read.
    case filePermission(FetchURL)
    /// This machine has not what it takes, whatever the server: no memory, or no libcurl.
    case exhausted(FetchURL, reason: String)
    /// The text is not a URL that can be fetched; `text` is already fit for a message.
    case unsupportedURL(String, reason: String)
}

extension FetchError {
    /// The wait that the server asked for.
    public var retryAfter: Duration? {
        if case .httpStatus(_, _, let retryAfter) = self { retryAfter } else { nil }
    }
}

extension FetchError: CustomStringConvertible {
    /// What failed, for which URL, and what to do next; URLs appear without their query.
    public var description: String {
        switch self {
        case .unreachable(let url, let reason) where url.isFile:
            "\(url.display) cannot be read: \(reason). Check the path, and the disk."
        case .unreachable(let url, let reason):
            "\(url.display) is not reachable: \(reason). Check the network and the address, then try again."
        case .httpStatus(let status, let url, let retryAfter):
            "\(url.display) answered \(status). " + Self.advice(status: status, retryAfter: retryAfter)
        case .invalidResponse(let url, let reason):
            "\(url.display) gave an invalid answer: \(reason). Check the server, and any proxy on the way."
        case .tooLarge(let limit, let url):
            "\(url.display) is larger than the \(limit) bytes allowed. Check that the address names the right file."
        case .tooSlow(let url):
            "\(url.display) sends too slowly. Try again later; what arrived is kept."
        case .timedOut(let url):
            "\(url.display) took too long in all. Try again later; what arrived is kept."
        case .redirectRefused(let from, let to, let reason):
            "\(from.display) redirects to \(to), which is refused: \(reason). Configure the final address instead."
        case .tlsFailed(let url, let reason):
            "\(url.display) has no trusted connection: \(reason). Check the certificate, the CA file and the clock."
        case .fileMissing(let url):
            "\(url.display) does not exist. Check the path."
        case .filePermission(let url):
            "\(url.display) may not be read. Check its permissions and those of its folders."
        case .exhausted(let url, let reason):
            "This machine cannot fetch \(url.display): \(reason). Free memory, or raise the limit on it or on open files, then run it again."
        case .unsupportedURL(let text, let reason):
            "\(text) cannot be fetched: \(reason). Give an http, https or file URL."
        }
    }

    private static func advice(status: Int, retryAfter: Duration?) -> String {
        if let retryAfter { return "Try again in \(retryAfter.components.seconds) s." }
        return switch status {
        case 401: "It requires a token that counts: give one with --token-file, or with clientctl login."
        case 403: "Check the token and what it may read."
        case 404, 410: "Check the address."
        case 407: "Check the proxy settings."
        case 416: "Drop the partial download and start over."
        case 511: "The network wants a login first (a captive portal): log in there, then try again."
        case 500...: "The server is at fault; try again later."
        default: "Check the address and the server."
        }
    }
}
