import CLibrary

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
    public var filePath: [UInt8]? { isFile ? PercentEncoding.decode(reference.path) : nil }

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

    /// Resolves a reference that was found at this URL (RFC 3986, section 5.2).
    ///
    /// It does not check whether the client may follow it; see `mayLead(to:)`.
    public func resolve(relative reference: String) throws(FetchError) -> FetchURL {
        try FetchURL(URIReference(parsing: reference).resolved(against: self.reference), text: reference)
    }

    /// Resolves a reference in a document that was found at this URL. A file of the same origin gets the query of the document if the
    /// reference has none, because a signed query (`?sig=…`) often is for a whole folder.
    ///
    /// The query can be a secret, so no other origin gets it.
    package func file(_ reference: String) throws(FetchError) -> FetchURL {
        let file = try resolve(relative: reference)
        guard file.origin == origin, !file.isFile, file.reference.query == nil, file.reference.fragment == nil,
            let query = self.reference.query
        else { return file }
        return try FetchURL(parsing: "\(file.description)?\(String(decoding: query, as: UTF8.self))")
    }

    /// The URL up to its query or fragment.
    package var withoutQuery: String { String(description.prefix { $0 != "?" && $0 != "#" }) }

    /// The URL for messages: without query and fragment, which can contain secrets.
    public var display: String { Self.display(of: description) }

    /// The URL for people: a file by its path, relative in the working folder.
    public var shown: String {
        guard let path = filePath.flatMap({ String(validating: $0, as: UTF8.self) }) else { return display }
        let folder = getcwd(nil, 0)
        defer { free(folder) }
        let prefix = folder.map { String(cString: $0) + "/" } ?? "/"
        let typed = prefix == "/" || !path.hasPrefix(prefix) ? path : String(path.dropFirst(prefix.count))
        return UntrustedName.display(typed)
    }

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
