package import NIOHTTP1

/// Decides which requests open a socket.
package struct UpgradeRule: Sendable {
    /// The origins whose pages may open a socket. A client that is not a browser sends no origin.
    package enum Origins: Sendable, Equatable {
        /// No page may open a socket.
        case none
        /// Pages of these origins, such as `https://app.example`, may open a socket.
        case only(Set<String>)
    }

    /// The decision about a request.
    package enum UpgradeDecision: Sendable, Equatable {
        /// The request is for another path or does not ask for a socket.
        case notOurs
        /// The request opens a socket.
        case opens
        /// The server answers with this HTTP status.
        case refused(status: Int)
    }

    /// The path of the sockets.
    package var path: String
    /// The origins whose pages may open a socket.
    package var origins = Origins.none
    /// Whether the client of the request may listen, checked last. Tokens belong in header fields because paths are
    /// logged.
    package var mayListen: @Sendable (HTTPRequestHead) -> Bool = { _ in true }

    /// Creates a rule for `path` that no browser page satisfies.
    package init(path: String) { self.path = path }

    /// Returns the decision about a request.
    package func verdict(on head: HTTPRequestHead) -> UpgradeDecision {
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
