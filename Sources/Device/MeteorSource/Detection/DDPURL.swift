package import BundleValues
package import BundleTransport

/// The URL of a Meteor server's DDP socket: `ws` or `wss`, with `websocket` below the server's path (METEOR section 7.1).
package struct DDPURL: Sendable, Hashable, CustomStringConvertible {
    /// The URL for a transport.
    package let socket: SocketURL

    /// The URL without the default port of its scheme.
    package var description: String { socket.description }

    var isThisMachine: Bool { socket.start.origin.isThisMachine }

    /// Creates the URL that a page's configuration states: `DDP_DEFAULT_CONNECTION_URL`, or otherwise `ROOT_URL`.
    ///
    /// The former can be a path on the server of `ROOT_URL`. Throws `FetchError.unsupportedURL` if both are missing, if
    /// the URL is invalid, or if it is not encrypted although `ROOT_URL` is https.
    package init(_ config: RuntimeConfig) throws(FetchError) {
        let root = config.rootURL.flatMap { $0.isEmpty ? nil : $0 }
        guard let stated = config.ddpURL, !stated.isEmpty else {
            guard let root else {
                throw .unsupportedURL(
                    "",
                    reason:
                        "the page states neither DDP_DEFAULT_CONNECTION_URL nor ROOT_URL; start the server with ROOT_URL"
                )
            }
            try self.init(below: Self.page(root))
            return
        }
        let base = try root.map { text throws(FetchError) in try Self.page(text) }
        let isPath = stated.utf8.first == UInt8(ascii: "/") && !stated.hasPrefix("//")
        guard let base else {
            try self.init(below: Self.page(stated))
            return
        }
        let server = isPath ? try base.resolve(relative: stated) : try Self.page(stated)
        guard base.mayLead(to: server) else {
            throw .unsupportedURL(
                FetchURL.display(of: stated), reason: "ROOT_URL is inside TLS; set MOBILE_DDP_URL to https or wss")
        }
        try self.init(below: server)
    }

    /// Parses an http, https, ws or wss URL from an operator, and adds a missing `/websocket`.
    package init(parsing text: String) throws(FetchError) {
        try self.init(below: Self.page(text))
    }

    private static func page(_ text: String) throws(FetchError) -> FetchURL {
        let url = try SocketURL.start(of: text)
        guard !url.isFile else { throw .unsupportedURL(url.display, reason: "a Meteor server uses http or https") }
        return url
    }

    private init(below url: FetchURL) throws(FetchError) {
        let folder = url.path.trimmingSlashes
        let path = folder.hasSuffix("/websocket") ? folder : folder + "/websocket"
        let origin = url.origin
        socket = try SocketURL(
            try FetchURL(parsing: "\(origin.scheme)://\(origin.host):\(origin.port)\(path)"))
    }
}

extension String {
    /// The text without trailing slashes.
    fileprivate var trimmingSlashes: String {
        var rest = Substring(self)
        while rest.hasSuffix("/") { rest = rest.dropLast() }
        return String(rest)
    }
}
