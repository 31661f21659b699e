/// A URL that may be fetched: absolute, http, https or file, without user or password.
///
/// Scheme and host are lower case; the rest is as written. At most 8 KiB of ASCII, RFC 3986 characters only.
public struct FetchURL: Sendable, Hashable, CustomStringConvertible {
    /// What can be fetched.
    public enum Scheme: String, Sendable, Hashable {
        /// In the clear.
        case http
        /// Over TLS.
        case https
        /// From this machine's files.
        case file
    }

    /// Whom one talks to (RFC 6454): two URLs of one origin are answered by the same server.
    public struct Origin: Sendable, Hashable {
        /// The scheme.
        public let scheme: Scheme
        /// The host in lower case; empty for a file.
        public let host: String
        /// The port, with the scheme's own filled in; 0 for a file.
        public let port: Int
    }

    /// The scheme.
    public let scheme: Scheme
    /// The scheme, host and effective port.
    public let origin: Origin
    /// The whole URL.
    public let description: String

    let reference: URIReference

    /// Reads an absolute URL; everything else is `FetchError.unsupportedURL`.
    public init(parsing text: String) throws(FetchError) {
        try self.init(URIReference(parsing: text), text: text)
    }

    /// The file URL of an absolute path, given as the bytes the system uses; other bytes are `unsupportedURL`.
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

    /// Whether this names a file of this machine.
    public var isFile: Bool { scheme == .file }

    /// The decoded path of a file URL, as the bytes the system uses, without a NUL; nil for http and https.
    public var filePath: [UInt8]? {
        isFile ? PercentEncoding.decode(reference.path) : nil
    }

    /// The path as it is written; empty where there is none.
    public var path: String { String(decoding: reference.path, as: UTF8.self) }

    /// Path and query, as they go onto the wire.
    public var target: String {
        let query = reference.query.map { "?" + String(decoding: $0, as: UTF8.self) } ?? ""
        return (path.hasPrefix("/") ? path : "/" + path) + query
    }

    /// Whether it names a part of what is there.
    public var hasFragment: Bool { reference.fragment != nil }

    /// Whether an answer from here may send the reader to `next`: never from TLS into the clear, never from a server to
    /// a file of this machine or back.
    public func mayLead(to next: FetchURL) -> Bool {
        switch (scheme, next.scheme) {
        case (.https, .https), (.http, .http), (.http, .https), (.file, .file): true
        default: false
        }
    }

    /// The URL for people: without query and fragment, which may hold secrets.
    public var display: String { Self.display(of: description) }

    /// Any text from outside as part of a message: no user or password, no query, no control characters, at most 200 bytes.
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

    /// Lowers scheme and host and checks everything a `FetchURL` promises.
    mutating func normalizeForFetching() throws(URLRefusal) -> (FetchURL.Scheme, FetchURL.Origin) {
        try refuseForeignCharacters()
        guard let written = scheme else { throw URLRefusal(reason: "it is not absolute") }
        let lowered = written.map(\.asciiLowered)
        guard let known = FetchURL.Scheme(rawValue: String(decoding: lowered, as: UTF8.self)) else {
            throw URLRefusal(reason: "its scheme is not http, https or file")
        }
        scheme = lowered
        guard let authority else { throw URLRefusal(reason: "'//' must follow the scheme") }
        // A password in an argument is seen by every process of the machine.
        guard !authority.contains(UInt8(ascii: "@")) else {
            throw URLRefusal(reason: "it has a user or password; keep secrets in a file")
        }
        self.authority = authority.map(\.asciiLowered)
        return (known, known == .file ? try fileOrigin() : try serverOrigin(known))
    }

    private func refuseForeignCharacters() throws(URLRefusal) {
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
            // libcurl decodes a percent-encoded host, so it would not be the one that origins are compared by.
            guard host.allSatisfy({ $0.isUnreserved }) else {
                throw URLRefusal(reason: "the host is not a name or address")
            }
        }
        guard !host.isEmpty else { throw URLRefusal(reason: "the host is missing") }
        let port = try port(after: authority[host.endIndex...]) ?? (scheme == .https ? 443 : 80)
        return FetchURL.Origin(scheme: scheme, host: String(decoding: host, as: UTF8.self), port: port)
    }

    /// RFC 3986 lets the digits after the colon be missing.
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

/// RFC 3986, section 2.1.
package enum PercentEncoding {
    /// A path with everything encoded but unreserved characters and slashes.
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

    /// What the escapes spell; nil where a '%' has no two digits behind it.
    package static func decodeStrictly(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        for index in bytes.indices where bytes[index] == UInt8(ascii: "%") {
            guard index + 2 < bytes.endIndex, bytes[index + 1].hexValue != nil, bytes[index + 2].hexValue != nil else {
                return nil
            }
        }
        return decode(Array(bytes))
    }

    /// A '%' without two digits stays as it is.
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
    /// The URL that `reference` means when it is found at this one (RFC 3986, section 5.2).
    ///
    /// Says nothing about whether one may go there: see `mayLead(to:)`.
    public func resolve(relative reference: String) throws(FetchError) -> FetchURL {
        try FetchURL(URIReference(parsing: reference).resolved(against: self.reference), text: reference)
    }
}

/// Why a text is no `FetchURL`.
struct URLRefusal: Error {
    var reason: String
}

/// The five parts of a URI or relative reference (RFC 3986, appendix B), as bytes.
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

    /// Section 5.2.2, strict.
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

    /// Section 5.2.3.
    private func merged(with base: URIReference) -> [UInt8] {
        if base.authority != nil, base.path.isEmpty { return Array("/".utf8) + path }
        guard let slash = base.path.lastIndex(of: UInt8(ascii: "/")) else { return path }
        return base.path[...slash] + path
    }

    /// Section 5.2.4, segment by segment.
    static func removingDotSegments(_ path: [UInt8]) -> [UInt8] {
        var kept: [ArraySlice<UInt8>] = []
        let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            let isDot = segment.elementsEqual(".".utf8)
            let isDoubleDot = segment.elementsEqual("..".utf8)
            // The first segment of an absolute path is the empty text before its first slash; ".." never removes it.
            if isDoubleDot, kept.count > 1 { kept.removeLast() }
            if !isDot && !isDoubleDot {
                kept.append(segment)
            } else if isLast {
                kept.append([])
            }
        }
        return Array(kept.joined(separator: [UInt8(ascii: "/")]))
    }

    /// Section 5.3.
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
