public import BundleCore

/// Where a Meteor server talks DDP: a WebSocket, `ws` or `wss`, at `websocket` below the server's path (METEOR section 7.1).
public struct DDPURL: Sendable, Hashable, CustomStringConvertible {
    /// Whether it is `wss`: inside TLS.
    public let isSecure: Bool
    /// The host in lower case, an IPv6 address in brackets.
    public let host: String
    /// The port, with the scheme's own filled in.
    public let port: Int
    /// The path as it goes onto the wire, ending in `/websocket`.
    public let path: String

    /// The whole URL; a port that is the scheme's own is left out.
    public var description: String {
        let ownPort = isSecure ? 443 : 80
        return "\(isSecure ? "wss" : "ws")://\(host)\(port == ownPort ? "" : ":\(port)")\(path)"
    }

    /// The socket that a page's configuration states: `DDP_DEFAULT_CONNECTION_URL`, else `ROOT_URL`.
    ///
    /// The former may be a path on the server of `ROOT_URL`. Throws `FetchError.unsupportedURL` where neither is there, where
    /// the one that counts is no URL, and where a page that came inside TLS names a socket in the clear.
    public init(_ config: RuntimeConfig) throws(FetchError) {
        let root = config.rootURL.flatMap { $0.isEmpty ? nil : $0 }
        guard let stated = config.ddpURL, !stated.isEmpty else {
            guard let root else {
                throw .unsupportedURL(
                    "",
                    reason:
                        "the page states neither DDP_DEFAULT_CONNECTION_URL nor ROOT_URL; start the server with ROOT_URL"
                )
            }
            self.init(below: try Self.page(root))
            return
        }
        let base = try root.map { text throws(FetchError) in try Self.page(text) }
        let isPath = stated.utf8.first == UInt8(ascii: "/") && !stated.hasPrefix("//")
        guard let base else {
            self.init(below: try Self.page(stated))
            return
        }
        let server = isPath ? try base.resolve(relative: stated) : try Self.page(stated)
        guard base.mayLead(to: server) else {
            throw .unsupportedURL(
                FetchURL.display(of: stated), reason: "ROOT_URL is inside TLS; set MOBILE_DDP_URL to https or wss")
        }
        self.init(below: server)
    }

    /// A socket that somebody named: http, https, ws or wss; `/websocket` is added where it is missing.
    public init(parsing text: String) throws(FetchError) {
        self.init(below: try Self.page(text))
    }

    /// Reads http, https, ws or wss, the latter two as the schemes that they start out as (RFC 6455, section 3).
    private static func page(_ text: String) throws(FetchError) -> FetchURL {
        let schemes = ["ws://": "http://", "wss://": "https://"]
        var spelled = text
        for (socket, page) in schemes where text.lowercased().hasPrefix(socket) {
            spelled = page + text.dropFirst(socket.count)
        }
        let url = try FetchURL(parsing: spelled)
        guard !url.isFile else { throw .unsupportedURL(url.display, reason: "a Meteor server speaks http or https") }
        return url
    }

    private init(below url: FetchURL) {
        isSecure = url.scheme == .https
        host = url.origin.host
        port = url.origin.port
        path = Self.path(below: url)
    }

    private static func path(below url: FetchURL) -> String {
        var rest = Array(url.description.utf8).dropFirst(url.scheme.rawValue.utf8.count + "://".utf8.count)
        rest = rest.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }.drop { $0 != UInt8(ascii: "/") }
        while rest.last == UInt8(ascii: "/") { rest = rest.dropLast() }
        let folder = String(decoding: rest, as: UTF8.self)
        return folder.hasSuffix("/websocket") ? folder : folder + "/websocket"
    }
}
