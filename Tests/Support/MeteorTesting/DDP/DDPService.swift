import BundleValues
import BundleTesting
import Synchronization

/// Sends the served version to subscribers, like Meteor's `autoupdate` (METEOR section 7).
final class DDPService: Sendable {
    private static let collection = "meteor_autoupdate_clientVersions"

    private struct State {
        var version: String?
        var subscribed: [(id: String, peer: SocketPeer)] = []
    }

    private let state = Mutex(State())

    /// The number of subscribers.
    var count: Int { state.withLock { $0.subscribed.count } }

    /// Serves another version and notifies the subscribers.
    func serve(_ version: String?) {
        state.withLock { state in
            let kind = state.version == nil ? "added" : "changed"
            guard version != state.version else { return }
            state.version = version
            for (_, peer) in state.subscribed { peer.sendText(Self.document(kind, "web.cordova", version ?? "")) }
        }
    }

    /// Breaks every socket.
    func cut() { for (_, peer) in state.withLock({ $0.subscribed }) { peer.cut() } }

    /// Serves one client until it disconnects.
    func serve(_ peer: SocketPeer) {
        peer.sendText(#"{"server_id":"0"}"#)
        while let text = peer.nextText() {
            let message = (try? JSONScanner.parse(Array(text.utf8), maximumBytes: 1 << 16))?.objectValue ?? [:]
            let id = message["id"]?.stringValue
            switch message["msg"]?.stringValue {
            case "connect": peer.sendText(#"{"msg":"connected","session":"s"}"#)
            case "sub": subscribe(peer, id ?? "", to: message["name"]?.stringValue)
            case "ping": peer.sendText(Self.text(["msg": .string("pong"), "id": id.map(JSONValue.string)]))
            default: break
            }
        }
        state.withLock { state in state.subscribed.removeAll { $0.peer === peer } }
    }

    private func subscribe(_ peer: SocketPeer, _ id: String, to name: String?) {
        guard name == Self.collection else {
            return peer.sendText(
                Self.text(["msg": .string("nosub"), "id": .string(id), "error": .object(["error": .integer(404)])]))
        }
        state.withLock { state in
            // For clients before 1.7.1.
            for old in ["version", "version-refreshable", "version-cordova"] {
                peer.sendText(Self.document("added", old, "outdated"))
            }
            if let version = state.version { peer.sendText(Self.document("added", "web.cordova", version)) }
            peer.sendText(Self.text(["msg": .string("ready"), "subs": .array([.string(id)])]))
            state.subscribed.append((id, peer))
        }
    }

    private static func document(_ kind: String, _ id: String, _ version: String) -> String {
        text([
            "msg": .string(kind), "collection": .string(collection), "id": .string(id),
            "fields": .object(["version": .string(version)]),
        ])
    }

    private static func text(_ members: KeyValuePairs<String, JSONValue?>) -> String {
        var object = JSONObject()
        for (name, value) in members { object[name] = value }
        return String(decoding: JSONWriter.bytes(of: .object(object)), as: UTF8.self)
    }
}
