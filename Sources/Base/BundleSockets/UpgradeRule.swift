package import NIOHTTP1

/// Which requests open a socket.
package struct UpgradeRule: Sendable {
    /// Whose pages may open one. What is no browser states no origin.
    package enum Origins: Sendable, Equatable {
        /// No page at all.
        case none
        /// Pages of these origins: `https://app.example`.
        case only(Set<String>)
    }

    /// What becomes of a request.
    package enum Verdict: Sendable, Equatable {
        /// It is for another path, or asks for no socket.
        case notOurs
        /// It opens a socket.
        case opens
        /// It is answered with this HTTP status.
        case refused(status: Int)
    }

    /// The path that sockets are opened at.
    package var path: String
    /// Whose pages may open one.
    package var origins = Origins.none
    /// Whether the request may listen; asked last. Tokens belong into header fields, since paths are logged.
    package var mayListen: @Sendable (HTTPRequestHead) -> Bool = { _ in true }

    /// Sockets at `path`, for no browser.
    package init(path: String) { self.path = path }

    /// What becomes of a request.
    package func verdict(on head: HTTPRequestHead) -> Verdict {
        guard head.uri.utf8.prefix(while: { $0 != UInt8(ascii: "?") }).elementsEqual(path.utf8) else { return .notOurs }
        let upgrades = head.headers[canonicalForm: "Upgrade"]
        guard upgrades.contains(where: { $0.lowercased() == "websocket" }) else { return .refused(status: 426) }
        if head.method != .GET { return .refused(status: 405) }
        if head.headers["Sec-WebSocket-Version"] != ["13"] { return .refused(status: 426) }
        let keys = head.headers["Sec-WebSocket-Key"]
        guard keys.count == 1, keys[0].utf8.count == 24, keys[0].hasSuffix("==") else { return .refused(status: 400) }
        let origins = head.headers["Origin"]
        if !origins.isEmpty {
            guard case .only(let allowed) = self.origins, origins.count == 1, allowed.contains(origins[0]) else {
                return .refused(status: 403)
            }
        }
        return mayListen(head) ? .opens : .refused(status: 401)
    }
}
