/// An absolute http, https or file URL without user or password.
///
/// Scheme and host are in lower case; the rest is unchanged. The URL has at most 8 KiB and only the characters of RFC
/// 3986.
public struct FetchURL: Sendable, Hashable, CustomStringConvertible {
    /// The schemes that can be fetched.
    public enum Scheme: String, Sendable, Hashable {
        /// HTTP without encryption.
        case http
        /// HTTP over TLS.
        case https
        /// A file of this machine.
        case file
    }

    /// The origin of a URL (RFC 6454): one server answers all URLs of an origin.
    public struct Origin: Sendable, Hashable {
        /// The scheme.
        public let scheme: Scheme
        /// The host in lower case; empty for a file.
        public let host: String
        /// The port, or the default port of the scheme; 0 for a file.
        public let port: Int
    }

    /// The scheme.
    public let scheme: Scheme
    /// The scheme, host and port.
    public let origin: Origin
    /// The URL as text.
    public let description: String

    let reference: URIReference

    /// Throws `FetchError.unsupportedURL` if the text is not an absolute URL that can be fetched.
    public init(parsing text: String) throws(FetchError) {
        try self.init(URIReference(parsing: text), text: text)
    }

    /// Creates a file URL from an absolute path in the bytes of the file system. Throws `FetchError.unsupportedURL` for
    /// any other path.
    public init(filePath: [UInt8]) throws(FetchError) {
        let shown = Self.display(of: String(decoding: filePath, as: UTF8.self))
        guard filePath.first == UInt8(ascii: "/") else {
            throw .unsupportedURL(shown, reason: "the path is not absolute")
        }
        try self.init(parsing: "file://" + PercentEncoding.encode(path: filePath))
    }

    init(_ reference: URIReference, text: String) throws(FetchError) {
        var reference = reference
        do throws(URLRefusal) {
            (scheme, origin) = try reference.normalizeForFetching()
        } catch {
            throw .unsupportedURL(Self.display(of: text), reason: error.reason)
        }
        self.reference = reference
        description = reference.text
    }

    /// Whether the URL names a file of this machine.
    public var isFile: Bool { scheme == .file }

    /// The decoded path of a file URL in the bytes of the file system, without NUL; nil for http and https.
    public var filePath: [UInt8]? {
        isFile ? PercentEncoding.decode(reference.path) : nil
    }

    /// The path as written. It can be empty.
    public var path: String { String(decoding: reference.path, as: UTF8.self) }

    /// The path and query of an HTTP request line.
    public var target: String {
        let query = reference.query.map { "?" + String(decoding: $0, as: UTF8.self) } ?? ""
        return (path.hasPrefix("/") ? path : "/" + path) + query
    }

    /// Whether the URL has a fragment.
    public var hasFragment: Bool { reference.fragment != nil }

    /// Whether a response from this URL may refer the client to `next`: not from https to http, and not between a server
    /// and a file of this machine.
    public func mayLead(to next: FetchURL) -> Bool {
        switch (scheme, next.scheme) {
        case (.https, .https), (.http, .http), (.http, .https), (.file, .file): true
        default: false
        }
    }

    /// The URL for messages: without query and fragment, which can contain secrets.
    public var display: String { Self.display(of: description) }

    /// Returns untrusted text for messages: without user, password, query and control characters, at most 200 bytes.
    public static func display(of text: String) -> String {
        var bytes = Array(text.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
        if let slashes = bytes.firstRange(of: Array("//".utf8)) {
            let end = bytes[slashes.upperBound...].firstIndex(of: UInt8(ascii: "/")) ?? bytes.endIndex
            if let at = bytes[slashes.upperBound..<end].lastIndex(of: UInt8(ascii: "@")) {
                bytes.replaceSubrange(slashes.upperBound..<at, with: "…".utf8)
            }
        }
        let visible = String(decoding: bytes.prefix(200), as: UTF8.self).unicodeScalars.map { scalar in
            scalar.properties.generalCategory == .control ? "\u{FFFD}" : String(scalar)
        }
        return visible.joined()
    }
}

extension URIReference {
    private static let maximumLength = 8192

    /// Converts scheme and host to lower case, and checks all rules of `FetchURL`.
    mutating func normalizeForFetching() throws(URLRefusal) -> (FetchURL.Scheme, FetchURL.Origin) {
        try checkCharacters()
        guard let written = scheme else { throw URLRefusal(reason: "it is not absolute") }
        let lowered = written.map(\.asciiLowered)
        guard let known = FetchURL.Scheme(rawValue: String(decoding: lowered, as: UTF8.self)) else {
            throw URLRefusal(reason: "its scheme is not http, https or file")
        }
        scheme = lowered
        guard let authority else { throw URLRefusal(reason: "'//' must follow the scheme") }
        // Every process of the machine can read the arguments of a command.
        guard !authority.contains(UInt8(ascii: "@")) else {
            throw URLRefusal(reason: "it has a user or password; keep secrets in a file")
        }
        self.authority = authority.map(\.asciiLowered)
        return (known, known == .file ? try fileOrigin() : try serverOrigin(known))
    }

    private func checkCharacters() throws(URLRefusal) {
        let bytes = Array(text.utf8)
        guard bytes.count <= Self.maximumLength else { throw URLRefusal(reason: "it is longer than 8 KiB") }
        for (index, byte) in bytes.enumerated() {
            guard byte.isURICharacter else {
                throw URLRefusal(reason: "it has a space, control or other character that must be percent-encoded")
            }
            if byte == UInt8(ascii: "%") {
                guard index + 2 < bytes.count, bytes[index + 1].hexValue != nil, bytes[index + 2].hexValue != nil else {
                    throw URLRefusal(reason: "'%' must be followed by two hex digits")
                }
            }
        }
    }

    private mutating func fileOrigin() throws(URLRefusal) -> FetchURL.Origin {
        guard let authority, authority.isEmpty || authority.elementsEqual("localhost".utf8) else {
            throw URLRefusal(reason: "a file URL has three slashes and no host")
        }
        self.authority = []
        guard path.first == UInt8(ascii: "/") else { throw URLRefusal(reason: "the path is not absolute") }
        guard query == nil, fragment == nil else {
            throw URLRefusal(reason: "'?' and '#' in a file name must be percent-encoded")
        }
        guard !PercentEncoding.decode(path).contains(0) else { throw URLRefusal(reason: "the path has a NUL") }
        return FetchURL.Origin(scheme: .file, host: "", port: 0)
    }

    private func serverOrigin(_ scheme: FetchURL.Scheme) throws(URLRefusal) -> FetchURL.Origin {
        let authority = authority ?? []
        let host: ArraySlice<UInt8>
        if authority.first == UInt8(ascii: "[") {
            guard let end = authority.firstIndex(of: UInt8(ascii: "]")), end > 2,
                authority[1..<end].contains(UInt8(ascii: ":")),
                authority[1..<end].allSatisfy({ $0.hexValue != nil || ":.".utf8.contains($0) })
            else { throw URLRefusal(reason: "the address in brackets is not IPv6") }
            host = authority[...end]
        } else {
            host = authority.prefix { $0 != UInt8(ascii: ":") }
            // libcurl decodes a percent-encoded host, so it would connect to another host than the origin names.
            guard host.allSatisfy({ $0.isUnreserved }) else {
                throw URLRefusal(reason: "the host is not a name or address")
            }
        }
        guard !host.isEmpty else { throw URLRefusal(reason: "the host is missing") }
        let port = try port(after: authority[host.endIndex...]) ?? (scheme == .https ? 443 : 80)
        return FetchURL.Origin(scheme: scheme, host: String(decoding: host, as: UTF8.self), port: port)
    }

    /// RFC 3986 allows a colon without digits.
    private func port(after rest: ArraySlice<UInt8>) throws(URLRefusal) -> Int? {
        guard let colon = rest.first else { return nil }
        let digits = rest.dropFirst()
        guard colon == UInt8(ascii: ":"), digits.allSatisfy(\.isASCIIDigit) else {
            throw URLRefusal(reason: "the port is not a number")
        }
        if digits.isEmpty { return nil }
        guard let port = Int(String(decoding: digits, as: UTF8.self)), (1...65535).contains(port) else {
            throw URLRefusal(reason: "the port is not within 1...65535")
        }
        return port
    }
}

/// Percent-encoding by RFC 3986, section 2.1.
package enum PercentEncoding {
    /// Encodes all bytes except unreserved characters and slashes.
    package static func encode(path: [UInt8]) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var encoded: [UInt8] = []
        for byte in path {
            if byte.isUnreserved || byte == UInt8(ascii: "/") {
                encoded.append(byte)
            } else {
                encoded += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    /// Decodes a text. Returns nil if two hexadecimal digits do not follow a '%'.
    package static func decodeStrictly(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        for index in bytes.indices where bytes[index] == UInt8(ascii: "%") {
            guard index + 2 < bytes.endIndex, bytes[index + 1].hexValue != nil, bytes[index + 2].hexValue != nil else {
                return nil
            }
        }
        return decode(Array(bytes))
    }

    /// Decodes a text. A '%' without two hexadecimal digits stays as it is.
    static func decode(_ bytes: [UInt8]) -> [UInt8] {
        var decoded: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, let high = bytes[index + 1].hexValue,
                let low = bytes[index + 2].hexValue
            {
                decoded.append(high << 4 | low)
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return decoded
    }
}

extension UInt8 {
    var isUnreserved: Bool { isASCIILetter || isASCIIDigit || "-._~".utf8.contains(self) }
    var isURICharacter: Bool { isUnreserved || ":/?#[]@!$&'()*+,;=%".utf8.contains(self) }
}

extension FetchURL {
    /// Resolves a reference that was found at this URL (RFC 3986, section 5.2).
    ///
    /// It does not check whether the client may follow it; see `mayLead(to:)`.
    public func resolve(relative reference: String) throws(FetchError) -> FetchURL {
        try FetchURL(URIReference(parsing: reference).resolved(against: self.reference), text: reference)
    }
}

struct URLRefusal: Error {
    var reason: String
}

/// The five components of a URI or relative reference (RFC 3986, appendix B).
struct URIReference: Sendable, Hashable {
    var scheme: [UInt8]?
    var authority: [UInt8]?
    var path: [UInt8]
    var query: [UInt8]?
    var fragment: [UInt8]?

    init(parsing text: String) {
        var rest = Array(text.utf8)[...]
        if let hash = rest.firstIndex(of: UInt8(ascii: "#")) {
            fragment = Array(rest[(hash + 1)...])
            rest = rest[..<hash]
        }
        if let mark = rest.firstIndex(of: UInt8(ascii: "?")) {
            query = Array(rest[(mark + 1)...])
            rest = rest[..<mark]
        }
        if let colon = rest.firstIndex(of: UInt8(ascii: ":")), Self.isScheme(rest[..<colon]) {
            scheme = Array(rest[..<colon])
            rest = rest[(colon + 1)...]
        }
        if rest.starts(with: "//".utf8) {
            rest = rest.dropFirst(2)
            let end = rest.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
            authority = Array(rest[..<end])
            rest = rest[end...]
        }
        path = Array(rest)
    }

    private static func isScheme(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard let first = bytes.first, first.isASCIILetter else { return false }
        return bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "+-.".utf8.contains($0) }
    }

    /// RFC 3986, section 5.2.2, strict.
    func resolved(against base: URIReference) -> URIReference {
        var target = self
        if scheme != nil {
            target.path = Self.removingDotSegments(path)
            return target
        }
        target.scheme = base.scheme
        if authority != nil {
            target.path = Self.removingDotSegments(path)
            return target
        }
        target.authority = base.authority
        if path.isEmpty {
            target.path = base.path
            target.query = query ?? base.query
        } else if path.first == UInt8(ascii: "/") {
            target.path = Self.removingDotSegments(path)
        } else {
            target.path = Self.removingDotSegments(merged(with: base))
        }
        return target
    }

    /// RFC 3986, section 5.2.3.
    private func merged(with base: URIReference) -> [UInt8] {
        if base.authority != nil, base.path.isEmpty { return Array("/".utf8) + path }
        guard let slash = base.path.lastIndex(of: UInt8(ascii: "/")) else { return path }
        return base.path[...slash] + path
    }

    /// RFC 3986, section 5.2.4.
    static func removingDotSegments(_ path: [UInt8]) -> [UInt8] {
        var kept: [ArraySlice<UInt8>] = []
        let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            let isDot = segment.elementsEqual(".".utf8)
            let isDoubleDot = segment.elementsEqual("..".utf8)
            // The first segment of an absolute path is the empty text before its first slash, which ".." does not remove.
            if isDoubleDot, kept.count > 1 { kept.removeLast() }
            if !isDot && !isDoubleDot {
                kept.append(segment)
            } else if isLast {
                kept.append([])
            }
        }
        return Array(kept.joined(separator: [UInt8(ascii: "/")]))
    }

    /// RFC 3986, section 5.3.
    var text: String {
        var bytes: [UInt8] = []
        if let scheme { bytes += scheme + [UInt8(ascii: ":")] }
        if let authority { bytes += Array("//".utf8) + authority }
        bytes += path
        if let query { bytes += [UInt8(ascii: "?")] + query }
        if let fragment { bytes += [UInt8(ascii: "#")] + fragment }
        return String(decoding: bytes, as: UTF8.self)
    }
}
