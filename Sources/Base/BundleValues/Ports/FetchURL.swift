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
