import NIOHTTP1

/// A head that was parsed, and that no two readers could read in two ways.
struct RequestHead: Sendable {
    /// The fields that have a meaning here, by their names in lower case; all others are only checked for their form.
    enum Field: String, Sendable, CaseIterable {
        case host, origin, cookie, range, expect, accept, authorization
        case ifRange = "if-range"
        case ifNoneMatch = "if-none-match"
        case contentType = "content-type"
        case contentLength = "content-length"
        case token = "x-client-token"
        case fetchSite = "sec-fetch-site"
        case fetchMode = "sec-fetch-mode"
        case fetchDestination = "sec-fetch-dest"
        case fetchPurpose = "sec-purpose"
        case privateNetwork = "access-control-request-private-network"

        /// Whether a second one would be another meaning. Of lists the first line alone is a shorter list, which costs at most a
        /// transfer; what two hosts mean is for the rules.
        var comesOnce: Bool {
            switch self {
            case .host, .cookie, .ifNoneMatch, .accept: false
            default: true
            }
        }

        fileprivate func isNamed(_ name: String) -> Bool {
            name.utf8.count == rawValue.utf8.count && zip(name.utf8, rawValue.utf8).allSatisfy { $0 | 0x20 == $1 }
        }

        fileprivate static let once = allCases.filter(\.comesOnce)
    }

    private var parsed: HTTPRequestHead
    /// The value of `Content-Length`; nil without one.
    let bodyLength: Int?
    /// `Host` came more than once.
    let repeatsHost: Bool

    /// Nil for what the parser lets through and others read in another way; `line` is the length of the request line.
    init?(_ parsed: HTTPRequestHead, line: Int) {
        // Nothing stands before, between and behind the words of the request line but one space each.
        let words = parsed.method.rawValue.utf8.count + 1 + parsed.uri.utf8.count + 1 + 8
        // A fragment is never sent.
        guard line == words, !parsed.uri.utf8.contains(UInt8(ascii: "#")) else { return nil }
        var hosts = 0
        var seen: Set<Field> = []
        for (name, _) in parsed.headers {
            if Field.host.isNamed(name) {
                hosts += 1
            } else if let field = Field.once.first(where: { $0.isNamed(name) }) {
                guard seen.insert(field).inserted else { return nil }
            }
        }
        // Bodies come with their length or not at all.
        if parsed.headers.contains(name: "transfer-encoding") { return nil }
        self.parsed = parsed
        repeatsHost = hosts > 1
        let length = Self.value(of: .contentLength, in: parsed) { HTTPBytes.number($0) }
        // A length that does not fit is a body that does not, either.
        bodyLength = length.map { $0 ?? .max }
    }

    /// The same with another method.
    func named(_ method: HTTPMethod) -> RequestHead {
        var head = self
        head.parsed.method = method
        return head
    }

    var method: HTTPMethod { parsed.method }

    var target: String { parsed.uri }

    /// HTTP/1.0, whose connections end with the response.
    var isOldVersion: Bool { parsed.version == .http1_0 }

    /// Whether another request may follow on the connection.
    var keepsOpen: Bool { parsed.version == .http1_1 && parsed.isKeepAlive }

    /// All fields in their order.
    var fields: HTTPHeaders { parsed.headers }

    func has(_ field: Field) -> Bool { parsed.headers.contains(name: field.rawValue) }

    /// Lends a field's value without the blanks around it; nil when it did not come.
    func with<Value>(_ field: Field, _ body: (UnsafeRawBufferPointer) -> Value) -> Value? {
        Self.value(of: field, in: parsed, body)
    }

    private static func value<Value>(
        of field: Field, in parsed: HTTPRequestHead, _ body: (UnsafeRawBufferPointer) -> Value
    ) -> Value? {
        guard var value = parsed.headers.first(name: field.rawValue) else { return nil }
        return value.withUTF8 { body(HTTPBytes.trimmed(UnsafeRawBufferPointer($0))) }
    }

    /// Whether HTML is what the client asks for.
    var acceptsHTML: Bool {
        parsed.headers[Field.accept.rawValue].contains { value in
            var value = value
            return value.withUTF8 { Self.acceptsHTML(UnsafeRawBufferPointer($0)) }
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
}
