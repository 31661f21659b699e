import BundleValues

/// Parses the header block of an HTTP response line by line.
struct ResponseHead {
    private(set) var status = 0
    private(set) var isComplete = false
    private var fields: [(name: String, value: String)] = []
    private var bytes = 0
    private var isHTTP1 = true
    private let maximumBytes: Int
    private let url: FetchURL

    init(url: FetchURL, maximumBytes: Int) {
        self.url = url
        self.maximumBytes = maximumBytes
    }

    /// Adds one line with its terminator. An interim response (1xx) is dropped.
    mutating func append(line: UnsafeRawBufferPointer) throws(FetchError) {
        bytes += line.count
        guard bytes <= maximumBytes else {
            throw .invalidResponse(url, reason: "its header has more than \(maximumBytes) bytes")
        }
        let text = line.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }
        if text.isEmpty {
            isComplete = isComplete || status >= 200
        } else if text.starts(with: "HTTP/".utf8) {
            isHTTP1 = text.starts(with: "HTTP/1".utf8)
            status = text.split(separator: UInt8(ascii: " ")).dropFirst().first.flatMap(Self.number) ?? 0
            fields = []
        } else if let colon = text.firstIndex(of: UInt8(ascii: ":")) {
            fields.append((Self.trimmed(text[..<colon]).lowercased(), Self.trimmed(text[text.index(after: colon)...])))
        }
    }

    func value(of name: String) -> String? { fields.first { $0.name == name }?.value }

    /// Returns the stated length; nil if it is not known. A number above `Int.max` becomes `Int.max`.
    func contentLength() throws(FetchError) -> Int? {
        guard value(of: "transfer-encoding") == nil else { return nil }
        let values = Set(fields.filter { $0.name == "content-length" }.map(\.value))
        guard let text = values.first else { return nil }
        guard values.count == 1, !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            throw .invalidResponse(url, reason: "its Content-Length is not one number")
        }
        return Int(text) ?? .max
    }

    /// The content encoding; nil if the body is not encoded (RFC 9110, section 8.4).
    var contentEncoding: String? {
        let codings = fields.filter { $0.name == "content-encoding" }.map(\.value).joined(separator: ", ")
        return codings.isEmpty || codings.lowercased() == "identity" ? nil : codings
    }

    /// Whether the response states the end of the body, so that a closed connection is not its end (RFC 9112, section
    /// 6.3).
    var isDelimited: Bool {
        !isHTTP1 || value(of: "content-length") != nil
            || value(of: "transfer-encoding")?.lowercased().hasSuffix("chunked") == true
    }

    /// Returns the start of a 206 response, which must be one range to the end (RFC 9110, section 14.4).
    func rangeStart() throws(FetchError) -> (start: Int, total: Int?) {
        let range = value(of: "content-range").map { Array($0.utf8) } ?? []
        let parts = range.dropFirst(6).split(omittingEmptySubsequences: false) { "-/".utf8.contains($0) }
        guard range.starts(with: "bytes ".utf8), parts.count == 3, let start = Self.number(parts[0]),
            let last = Self.number(parts[1]), last >= start
        else { throw .invalidResponse(url, reason: "its Content-Range cannot be read") }
        if parts[2].elementsEqual("*".utf8) { return (start, nil) }
        guard let total = Self.number(parts[2]), total - 1 == last else {
            throw .invalidResponse(url, reason: "its range does not reach the end")
        }
        return (start, total)
    }

    /// The seconds of Retry-After. A date is ignored, because it depends on the server's clock.
    var retryAfter: Duration? {
        value(of: "retry-after").flatMap { Self.number($0.utf8) }.map { .seconds(min($0, 86400)) }
    }

    private static func number(_ digits: some Sequence<UInt8>) -> Int? {
        let digits = Array(digits)
        guard !digits.isEmpty, digits.count <= 18, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(String(decoding: digits, as: UTF8.self))
    }

    private static func trimmed(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        return String(decoding: bytes.drop(while: isSpace).reversed().drop(while: isSpace).reversed(), as: UTF8.self)
    }
}

/// The decision about a response, made from its head.
enum ResponseDecision: Equatable {
    case accept(FetchHead)
    case follow(FetchURL)
    /// Ends the fetch without its body.
    case refuse(FetchError)
}

/// Decides which responses are acceptable.
struct ResponseRule {
    let request: FetchRequest
    let maximumRedirects: Int

    func decision(on head: ResponseHead, at url: FetchURL, redirects: Int) -> ResponseDecision {
        do throws(FetchError) {
            switch head.status {
            case 301, 302, 303, 307, 308:
                guard let location = head.value(of: "location") else { break }
                if request.upload != nil {
                    let shown = FetchURL.display(of: location)
                    throw .redirectRefused(from: url, to: shown, reason: "an upload is not sent to another address")
                }
                return .follow(try target(of: location, at: url, redirects: redirects))
            case 200:
                return .accept(try accept(head, at: url))
            case 201...299 where request.upload != nil:
                return .accept(try accept(head, at: url))
            case 206:
                return .accept(try acceptRest(head, at: url))
            case 304 where request.knownTag != nil:
                return .accept(FetchHead(status: 304, effectiveURL: url, entityTag: head.value(of: "etag")))
            default:
                break
            }
            return .refuse(.httpStatus(head.status, url, retryAfter: head.retryAfter))
        } catch {
            return .refuse(error)
        }
    }

    private func target(of location: String, at url: FetchURL, redirects: Int) throws(FetchError) -> FetchURL {
        let shown = FetchURL.display(of: location)
        guard redirects < maximumRedirects else {
            throw .redirectRefused(from: url, to: shown, reason: "it exceeds the \(maximumRedirects) allowed redirects")
        }
        let target: FetchURL
        do {
            target = try url.resolve(relative: location)
        } catch {
            guard case .unsupportedURL(_, let reason) = error else { throw error }
            throw .redirectRefused(from: url, to: shown, reason: reason)
        }
        guard url.mayLead(to: target) else {
            throw .redirectRefused(from: url, to: shown, reason: "\(url.scheme) may not lead to \(target.scheme)")
        }
        return target
    }

    private func accept(_ head: ResponseHead, at url: FetchURL) throws(FetchError) -> FetchHead {
        let length = try head.contentLength()
        guard length ?? 0 <= request.maximumBytes else { throw .tooLarge(limit: request.maximumBytes, url) }
        return FetchHead(
            status: head.status, effectiveURL: url, contentLength: length, entityTag: head.value(of: "etag"),
            lastModified: head.value(of: "last-modified"), contentEncoding: head.contentEncoding,
            isDelimited: head.isDelimited, cacheControl: head.value(of: "cache-control"))
    }

    private func acceptRest(_ head: ResponseHead, at url: FetchURL) throws(FetchError) -> FetchHead {
        guard let resume = request.resume else {
            throw .invalidResponse(url, reason: "it is a part that was not requested")
        }
        let range = try head.rangeStart()
        guard range.start == resume.offset else {
            throw .invalidResponse(url, reason: "it starts at byte \(range.start) instead of \(resume.offset)")
        }
        let length = try head.contentLength()
        // The start is known to be small, but the server's length may be near `Int.max`.
        let end = resume.offset.addingReportingOverflow(length ?? 0)
        guard !end.overflow, max(end.partialValue, range.total ?? 0) <= request.maximumBytes else {
            throw .tooLarge(limit: request.maximumBytes, url)
        }
        let tag = head.value(of: "etag")
        // Without this check, a server that ignores If-Range would append the rest of another version.
        if let validator = resume.validator, validator.hasPrefix("\""), let tag, tag != validator {
            throw .invalidResponse(url, reason: "it is a part of another version than the one begun")
        }
        return FetchHead(
            status: head.status, effectiveURL: url, contentLength: length, entityTag: tag,
            lastModified: head.value(of: "last-modified"), rangeStart: range.start,
            contentEncoding: head.contentEncoding, isDelimited: head.isDelimited,
            cacheControl: head.value(of: "cache-control"))
    }
}
