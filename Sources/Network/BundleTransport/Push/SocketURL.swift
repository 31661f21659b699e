package import BundleValues

/// The URL of a WebSocket: `ws` or `wss`, strictly parsed.
public struct SocketURL: Sendable, Hashable, CustomStringConvertible {
    /// The URL of the handshake (RFC 6455, section 3): http for `ws`, https for `wss`.
    package let start: FetchURL

    /// The longest URL in bytes.
    package static let maximumBytes = 2048
    private static let maximumHostBytes = 253

    /// Parses `ws://host[:port][/path][?query]` or `wss`. http and https are accepted as `ws` and `wss`.
    ///
    /// Throws for user names, fragments and invalid characters.
    public init(parsing text: String) throws(TransportError) {
        do throws(FetchError) {
            try self.init(Self.start(of: text))
        } catch {
            throw TransportError(error)
        }
    }

    /// Creates the URL of the socket whose handshake is at `start`.
    package init(_ start: FetchURL) throws(FetchError) {
        func refusal(_ reason: String) -> FetchError { .unsupportedURL(start.display, reason: reason) }
        if start.isFile { throw refusal("a socket needs a server: http, https, ws or wss") }
        if start.hasFragment { throw refusal("a socket URL has no fragment; remove the part from #") }
        if start.description.utf8.count > Self.maximumBytes {
            throw refusal("it has more than \(Self.maximumBytes) bytes")
        }
        if start.origin.host.utf8.count > Self.maximumHostBytes {
            throw refusal("its host is neither a name nor an address")
        }
        self.start = start
    }

    /// Parses the URL of a server with one of the four schemes.
    package static func start(of text: String) throws(FetchError) -> FetchURL {
        for (scheme, start) in [("ws://", "http://"), ("wss://", "https://")] {
            let prefix = text.utf8.prefix(scheme.utf8.count)
            if String(decoding: prefix, as: UTF8.self).lowercased() == scheme {
                return try FetchURL(
                    parsing: start + String(decoding: text.utf8.dropFirst(prefix.count), as: UTF8.self))
            }
        }
        return try FetchURL(parsing: text)
    }

    /// Whether the scheme is `wss`.
    public var isSecure: Bool { start.scheme == .https }

    /// The host in lower case: a name, an IPv4 address, or an IPv6 address without brackets.
    public var host: String {
        let host = start.origin.host
        return host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
    }

    /// The port, or the default port of the scheme.
    public var port: Int { start.origin.port }

    /// The path and query of the request line.
    public var target: String {
        start.target
    }

    /// The host as in a URL, with the port unless it is the default.
    public var authority: String {
        port == (isSecure ? 443 : 80) ? start.origin.host : "\(start.origin.host):\(port)"
    }

    /// The whole URL.
    public var description: String { "\(isSecure ? "wss" : "ws")://\(authority)\(target)" }

    /// Compares the destinations, whatever the spelling.
    public static func == (one: SocketURL, other: SocketURL) -> Bool {
        one.start.origin == other.start.origin && one.target == other.target
    }

    /// Hashes the parts that `==` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(start.origin)
        hasher.combine(target)
    }
}

extension TransportError {
    fileprivate init(_ error: FetchError) {
        if case .unsupportedURL(let text, let reason) = error {
            self = .unsupportedURL(text, reason: reason)
        } else {
            self = .unsupportedURL("", reason: "\(error)")
        }
    }
}
