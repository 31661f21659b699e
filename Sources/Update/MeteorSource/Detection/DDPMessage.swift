import BundleValues

/// What the server says; messages that mean nothing here are `other`.
enum DDPMessage: Sendable, Equatable {
    case connected
    /// The server speaks another version of DDP, this one.
    case failed(version: String)
    case ready(subscriptions: [String])
    /// A subscription is refused, or over.
    case noSubscription(id: String, reason: String?)
    case ping(id: String?)
    case added(DocumentChange)
    case changed(DocumentChange)
    case removed(collection: String, id: String)
    /// The server did not understand something.
    case error(reason: String?)
    case other
}

/// What a message says about one document; of its fields only `version` counts here.
struct DocumentChange: Sendable, Equatable {
    /// What the message says about the field `version`.
    enum Version: Sendable, Equatable {
        /// Nothing.
        case unmentioned
        /// It is this text.
        case stated(String)
        /// It is gone, or no text.
        case none
    }

    var collection: String
    var id: String
    var version: Version
}

/// What the client says.
enum DDPRequest {
    /// Versions of DDP that are spoken here, best first.
    static let versions = ["1", "pre2", "pre1"]
    /// The collection of the versions, and the publication of it.
    static let clientVersions = "meteor_autoupdate_clientVersions"

    static func connect(version: String) -> String {
        text([
            ("msg", .string("connect")), ("version", .string(version)),
            ("support", .array(versions.map(JSONValue.string))),
        ])
    }

    static func subscribe(id: String, appId: String?) -> String {
        let parameters = appId.map { [JSONValue.string($0)] } ?? []
        return text([
            ("msg", .string("sub")), ("id", .string(id)), ("name", .string(clientVersions)),
            ("params", .array(parameters)),
        ])
    }

    static func pong(id: String?) -> String {
        text([("msg", .string("pong"))] + (id.map { [("id", .string($0))] } ?? []))
    }

    static let ping = text([("msg", .string("ping"))])

    private static func text(_ members: [(String, JSONValue)]) -> String {
        var object = JSONObject()
        for (name, value) in members { object[name] = value }
        return String(decoding: JSONWriter.bytes(of: .object(object)), as: UTF8.self)
    }
}
