package import NIOHTTP1

/// Decides which requests open a socket.
package struct UpgradeRule: Sendable {
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
    private let path: String
    private let allowsPages: Bool

    /// Creates a rule for `path`. Unless the caller checks the origin of pages itself, pages open no socket; a client that is
    /// not a browser sends no origin.
    package init(path: String, allowsPages: Bool = false) {
        self.path = path
        self.allowsPages = allowsPages
    }

    /// Returns the decision about a request.
    package func verdict(on head: HTTPRequestHead) -> UpgradeDecision {
        guard head.uri.utf8.prefix(while: { $0 != UInt8(ascii: "?") }).elementsEqual(path.utf8) else { return .notOurs }
        let upgrades = head.headers[canonicalForm: "Upgrade"]
        guard upgrades.contains(where: { $0.lowercased() == "websocket" }) else { return .refused(status: 426) }
        if head.method != .GET { return .refused(status: 405) }
        if head.headers["Sec-WebSocket-Version"] != ["13"] { return .refused(status: 426) }
        let keys = head.headers["Sec-WebSocket-Key"]
        guard keys.count == 1, keys[0].utf8.count == 24, keys[0].hasSuffix("==") else { return .refused(status: 400) }
        return !allowsPages && head.headers.contains(name: "Origin") ? .refused(status: 403) : .opens
    }
}
