import BundleCore
import BundleShell
import BundleValues

extension DeviceStatus {
    /// The response of `getStatus`.
    var members: JSONObject {
        [
            "running": Self.value(running), "ready": Self.value(ready), "installed": .array(installed.map(Self.value)),
            "lastFailure": lastFailure.map { .object($0.members) } ?? .null, "rolledBack": .bool(isRolledBack),
            "shell": .string(shellVersion.description),
        ]
    }

    private static func value(_ client: Client?) -> JSONValue { client.map { .object($0.members) } ?? .null }
}

extension DeviceStatus.Client {
    /// The seed has only a version and a state.
    fileprivate var members: JSONObject {
        var object: JSONObject = ["version": .string(name.shortDescription), "state": .string(state.rawValue)]
        guard let facts else { return object }
        object["sha256"] = .string(facts.sha256)
        object["installedAt"] = .string(facts.installedAt.description)
        object["confirmedAt"] = .string(orNull: facts.confirmedAt?.description)
        object.describe(size: facts.size, notes: facts.notes, isUrgent: facts.isUrgent)
        return object
    }
}

extension DeviceStatus.FailedStart {
    fileprivate var members: JSONObject {
        [
            "version": .string(name.shortDescription), "cause": .string(cause), "message": .string(message),
            "at": .string(at.description), "retryAt": .string(orNull: retryAt?.description),
        ]
    }
}

extension JSONObject {
    /// Adds the members that describe a client before it runs.
    mutating func describe(size: Int, notes: String?, isUrgent: Bool) {
        self["size"] = .integer(size)
        self["notes"] = .string(orNull: notes)
        self["urgent"] = .bool(isUrgent)
    }
}
