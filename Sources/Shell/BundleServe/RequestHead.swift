import CLibrary

/// The request line and the fields that the server uses, as ranges of the received bytes (RFC 9112).
package struct RequestHead: Sendable {
    package enum Method: Sendable { case get, head, post, options, other }

    /// The fields with a meaning for the server. The form of other fields is checked only.
    package enum Field: Int, Sendable, CaseIterable {
        case host, origin, cookie, range, ifRange, ifMatch, ifNoneMatch, contentType, contentLength, expect, token
        case fetchSite, fetchMode, fetchDestination, fetchPurpose, privateNetwork, authorization
        case serviceWorker, acceptLanguage, acceptEncoding
    }

    package internal(set) var method = Method.other
    var target = 0..<0
    /// Whether the request uses HTTP/1.0, whose connections end with the response.
    package internal(set) var isOldVersion = false
    /// The length of the whole head, including its empty line.
    var length = 0
    /// Whether `Host` occurs more than once.
    package internal(set) var repeatsHost = false
    var wantsClose = false
    var acceptsHTML = false
    /// The value of `Content-Length`; nil if it is absent.
    package internal(set) var bodyLength: Int?

    private var places = InlineArray<20, Range<UInt32>>(repeating: absent)
    // A field with an empty value has another range, because offset 0 is the method.
    private static var absent: Range<UInt32> { 0..<0 }

    /// The range of a field's value; nil if the field is absent.
    subscript(field: Field) -> Range<Int>? {
        let place = places[field.rawValue]
        return place == Self.absent ? nil : Int(place.lowerBound)..<Int(place.upperBound)
    }

    /// Records a field. Returns false for a repeated field that may occur only once.
    mutating func note(_ field: Field, at place: Range<Int>) -> Bool {
        if places[field.rawValue] == Self.absent {
            places[field.rawValue] =
                UInt32(
                    truncatingIfNeeded: place.lowerBound)..<UInt32(
                    truncatingIfNeeded: place.upperBound)
            return true
        }
        switch field {
        case .host:
            repeatsHost = true
            return true
        // Lists: the first line alone is a shorter list, which at most causes a needless transfer.
        case .ifMatch, .ifNoneMatch, .cookie, .acceptLanguage: return true
        default: return false
        }
    }
}

/// Parses a request head line by line as it arrives, and rejects everything that two parsers could read in two ways.
///
/// It accepts RFC 9112 without its leniencies: lines end with CR LF, nothing precedes the request line, no blank
/// precedes a colon, values have no folds and no control bytes, and there is no `Transfer-Encoding`.
struct RequestHeadParser {
    /// The result for the bytes so far.
    enum ParsedStep {
        case incomplete
        case complete(RequestHead)
        case refused(Status)
    }

    static let maximumBytes = 16 << 10
    static let maximumLine = 8 << 10
    static let maximumFields = 100

    private var head = RequestHead()
    /// The start of the present line, and the offset up to which it has no end.
    private var line = 0
    private var searched = 0
    private var fields = 0

    /// Continues parsing. `bytes` are all bytes since the start of the head, at each call.
    mutating func read(_ bytes: UnsafeRawBufferPointer) -> ParsedStep {
        guard let base = bytes.baseAddress else { return .incomplete }
        while true {
            let unread = bytes.count - searched
            guard unread > 0, let found = memchr(base + searched, Int32(HTTPBytes.lineFeed), unread) else {
                searched = bytes.count
                return tooLong(line: searched - line - 1, all: searched).map(ParsedStep.refused) ?? .incomplete
            }
            let end = UnsafeRawPointer(found) - base
            if let status = tooLong(line: end - 1 - line, all: end + 1) { return .refused(status) }
            guard end > line, bytes[end - 1] == HTTPBytes.carriageReturn else { return .refused(.badRequest) }
            let start = line
            line = end + 1
            searched = line
            let text = UnsafeRawBufferPointer(rebasing: bytes[start..<end - 1])
            if start == 0 {
                if let status = readRequestLine(text) { return .refused(status) }
            } else if text.isEmpty {
                head.length = line
                return .complete(head)
            } else if let status = readField(text, at: start) {
                return .refused(status)
            }
        }
    }

    private func tooLong(line length: Int, all: Int) -> Status? {
        if length > Self.maximumLine { return line == 0 ? .uriTooLong : .headTooLarge }
        return all > Self.maximumBytes ? .headTooLarge : nil
    }

    // MARK: The request line

    private mutating func readRequestLine(_ text: UnsafeRawBufferPointer) -> Status? {
        guard let first = text.firstIndex(of: HTTPBytes.space), first > 0 else { return .badRequest }
        let method = UnsafeRawBufferPointer(rebasing: text[..<first])
        guard method.allSatisfy(HTTPBytes.isToken) else { return .badRequest }
        var end = first + 1
        while end < text.count, text[end] != HTTPBytes.space {
            // The bytes of RFC 3986. Clients never send a fragment, and encode bytes above ASCII.
            guard text[end] > 0x20, text[end] < 0x7F, text[end] != UInt8(ascii: "#") else { return .badRequest }
            end += 1
        }
        guard end > first + 1, end < text.count else { return .badRequest }
        head.method = Self.method(method)
        head.target = first + 1..<end
        return readVersion(UnsafeRawBufferPointer(rebasing: text[(end + 1)...]))
    }

    private static func method(_ name: UnsafeRawBufferPointer) -> RequestHead.Method {
        if HTTPBytes.areEqual(name, "GET") { return .get }
        if HTTPBytes.areEqual(name, "POST") { return .post }
        if HTTPBytes.areEqual(name, "HEAD") { return .head }
        return HTTPBytes.areEqual(name, "OPTIONS") ? .options : .other
    }

    private mutating func readVersion(_ version: UnsafeRawBufferPointer) -> Status? {
        if HTTPBytes.areEqual(version, "HTTP/1.1") { return nil }
        head.isOldVersion = HTTPBytes.areEqual(version, "HTTP/1.0")
        if head.isOldVersion { return nil }
        let isAnother =
            version.count == 8 && HTTPBytes.areEqual(UnsafeRawBufferPointer(rebasing: version[..<5]), "HTTP/")
            && HTTPBytes.isDigit(version[5]) && version[6] == UInt8(ascii: ".") && HTTPBytes.isDigit(version[7])
        return isAnother ? .versionNotSupported : .badRequest
    }

    // MARK: Fields

    private mutating func readField(_ text: UnsafeRawBufferPointer, at start: Int) -> Status? {
        fields += 1
        if fields > Self.maximumFields { return .headTooLarge }
        var colon = 0
        while colon < text.count, HTTPBytes.isToken(text[colon]) { colon += 1 }
        // A folded line starts with a blank, which is not part of a name.
        guard colon > 0, colon < text.count, text[colon] == HTTPBytes.colon else { return .badRequest }
        var first = colon + 1
        var end = text.count
        for index in first..<end where !HTTPBytes.isValue(text[index]) { return .badRequest }
        while first < end, HTTPBytes.isBlank(text[first]) { first += 1 }
        while end > first, HTTPBytes.isBlank(text[end - 1]) { end -= 1 }
        return note(
            UnsafeRawBufferPointer(rebasing: text[..<colon]), UnsafeRawBufferPointer(rebasing: text[first..<end]),
            at: start + first)
    }

    private mutating func note(
        _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, at start: Int
    ) -> Status? {
        switch name.count {
        case 6 where HTTPBytes.areSame(name, "accept"):
            head.acceptsHTML = head.acceptsHTML || Self.acceptsHTML(value)
            return nil
        case 10 where HTTPBytes.areSame(name, "connection"):
            head.wantsClose = head.wantsClose || HTTPBytes.anyElement(of: value) { HTTPBytes.areSame($0, "close") }
            return nil
        case 17 where HTTPBytes.areSame(name, "transfer-encoding"):
            return .badRequest
        default:
            guard let field = Self.field(name) else { return nil }
            guard head.note(field, at: start..<start + value.count) else { return .badRequest }
            if field != .contentLength { return nil }
            // A length above `Int.max` belongs to a body that is too large.
            guard !value.isEmpty, value.allSatisfy(HTTPBytes.isDigit) else { return .badRequest }
            head.bodyLength = HTTPBytes.number(value) ?? .max
            return nil
        }
    }

    private static func acceptsHTML(_ value: UnsafeRawBufferPointer) -> Bool {
        HTTPBytes.anyElement(of: value) { element in
            let type = element.prefix { $0 != UInt8(ascii: ";") }
            let trimmed = HTTPBytes.trimmed(UnsafeRawBufferPointer(rebasing: type))
            guard trimmed.count == 9, trimmed[4] == HTTPBytes.slash else { return false }
            return HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: trimmed[..<4]), "text")
                && HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: trimmed[5...]), "html")
        }
    }

    private static func field(_ name: UnsafeRawBufferPointer) -> RequestHead.Field? {
        func named(_ text: StaticString, _ field: RequestHead.Field) -> RequestHead.Field? {
            HTTPBytes.areSame(name, text) ? field : nil
        }
        switch name.count {
        case 4: return named("host", .host)
        case 5: return named("range", .range)
        case 6: return named("origin", .origin) ?? named("cookie", .cookie) ?? named("expect", .expect)
        case 8: return named("if-range", .ifRange) ?? named("if-match", .ifMatch)
        case 11: return named("sec-purpose", .fetchPurpose)
        case 12: return named("content-type", .contentType)
        case 13: return named("if-none-match", .ifNoneMatch) ?? named("authorization", .authorization)
        case 14:
            return named("content-length", .contentLength) ?? named("sec-fetch-site", .fetchSite)
                ?? named("sec-fetch-mode", .fetchMode) ?? named("sec-fetch-dest", .fetchDestination)
                ?? named("x-client-token", .token) ?? named("service-worker", .serviceWorker)
        case 15: return named("accept-language", .acceptLanguage) ?? named("accept-encoding", .acceptEncoding)
        case 38: return named("access-control-request-private-network", .privateNetwork)
        default: return nil
        }
    }
}
