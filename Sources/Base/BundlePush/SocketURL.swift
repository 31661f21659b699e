package import BundleValues

/// Where a WebSocket can be opened: `ws` or `wss`, strictly read.
package struct SocketURL: Sendable, Hashable, CustomStringConvertible {
    /// What it starts out as (RFC 6455, section 3): `ws` as http, `wss` as https.
    package let start: FetchURL

    /// Longer ones are refused.
    package static let maximumBytes = 2048
    private static let maximumHostBytes = 253

    /// Reads `ws://host[:port][/path][?query]`, or `wss`; http and https are read as these, since sockets start out so.
    ///
    /// Refused are user names, fragments, and bytes that no URL has.
    package init(parsing text: String) throws(TransportError) {
        do throws(FetchError) {
            try self.init(Self.start(of: text))
        } catch {
            throw TransportError(error)
        }
    }

    /// The socket that starts out as `start`.
    package init(_ start: FetchURL) throws(FetchError) {
        func refusal(_ reason: String) -> FetchError { .unsupportedURL(start.display, reason: reason) }
        if start.isFile { throw refusal("a socket needs a server: http, https, ws or wss") }
        if start.hasFragment { throw refusal("a socket has no fragment; leave out what begins with #") }
        if start.description.utf8.count > Self.maximumBytes {
            throw refusal("it has more than \(Self.maximumBytes) bytes")
        }
        if start.origin.host.utf8.count > Self.maximumHostBytes {
            throw refusal("its host is neither a name nor an address")
        }
        self.start = start
    }

    /// Reads the URL of a server, whose scheme may be that of a socket.
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

    /// Whether it is `wss`: inside TLS.
    package var isSecure: Bool { start.scheme == .https }

    /// The host in lower case: a name, an IPv4 address, or an IPv6 address without its brackets.
    package var host: String {
        let host = start.origin.host
        return host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
    }

    /// The port, with the scheme's own filled in.
    package var port: Int { start.origin.port }

    /// Path and query, as they go onto the wire.
    package var target: String {
        start.target
    }

    /// The host as it stands in a URL, with the port where it is not the scheme's own.
    package var authority: String {
        port == (isSecure ? 443 : 80) ? start.origin.host : "\(start.origin.host):\(port)"
    }

    /// The whole URL.
    package var description: String { "\(isSecure ? "wss" : "ws")://\(authority)\(target)" }

    /// Two that lead to the same place are one, however they were written.
    package static func == (one: SocketURL, other: SocketURL) -> Bool {
        one.start.origin == other.start.origin && one.target == other.target
    }

    /// Agrees with `==`.
    package func hash(into hasher: inout Hasher) {
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
