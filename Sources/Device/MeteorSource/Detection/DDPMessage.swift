import BundleValues

/// A message of the server. Messages without a meaning here are `other`.
enum DDPMessage: Sendable, Equatable {
    case connected
    /// The server requires this version of DDP.
    case failed(version: String)
    case ready(subscriptions: [String])
    /// The server refused or ended a subscription.
    case noSubscription(id: String, reason: String?)
    case ping(id: String?)
    case added(DocumentChange)
    case changed(DocumentChange)
    case removed(collection: String, id: String)
    /// The server did not understand a message.
    case error(reason: String?)
    case other
}

/// A change of a document, of which only the field `version` matters.
struct DocumentChange: Sendable, Equatable {
    /// The change of the field `version`.
    enum Version: Sendable, Equatable {
        /// The message does not mention the field.
        case unmentioned
        /// The field has this text.
        case stated(String)
        /// The field was removed or is not a string.
        case none
    }

    var collection: String
    var id: String
    var version: Version
}

/// The messages of the client.
enum DDPRequest {
    /// The supported versions of DDP, most preferred first.
    static let versions = ["1", "pre2", "pre1"]
    /// The collection and publication of client versions.
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
