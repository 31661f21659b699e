import BundleCore
import BundleValues
import ShellBoot

/// The record of a device's sessions as JSON: strict, of one schema, with no member that nobody knows.
enum SessionFormat {
    static let maximumBytes = 32 << 10

    private static let schema = 1
    private static let names: Set<String> = ["schema", "session", "ended", "lock"]

    static func record(in bytes: [UInt8]) throws -> SessionRecord {
        let reader = try MemberReader(try JSONScanner.parse(bytes, maximumBytes: maximumBytes), of: "session")
        guard try reader.integer("schema") == schema else { throw reader.refusal("schema", "is not \(schema)") }
        try requireKnown(reader, names)
        let session = try reader.optional("session").map { try self.session(MemberReader($0, of: "session.session")) }
        let ended = try reader.optional("ended").map { try ending(MemberReader($0, of: "session.ended")) }
        let access: SessionRecord.Access
        switch (session, ended) {
        case (nil, nil): access = .open
        case (let session?, nil): access = .session(session)
        case (nil, let ended?): access = .ended(ended)
        case (_?, _?): throw reader.refusal("ended", "stands beside a session")
        }
        let lock = try reader.optionalString("lock").map { text in
            guard let lock = SessionLock(rawValue: text) else { throw reader.refusal("lock", "is no known word") }
            return lock
        }
        return SessionRecord(access: access, lock: lock)
    }

    private static func session(_ reader: MemberReader) throws -> UserSession {
        try requireKnown(reader, ["token", "since", "expires"])
        return UserSession(
            token: try token(try reader.string("token"), reader), since: try reader.timestamp("since"),
            expires: try reader.optional("expires").map { _ in try reader.timestamp("expires") })
    }

    /// As it was written, to the byte.
    private static func token(_ text: String, _ reader: MemberReader) throws -> AccessToken {
        do {
            let token = try AccessToken(tokenFile: Array(text.utf8))
            if token.secret.utf8.elementsEqual(text.utf8) { return token }
        } catch {
            throw reader.refusal("token", "is no bearer token: \(error)")
        }
        throw reader.refusal("token", "has space around it")
    }

    private static func ending(_ reader: MemberReader) throws -> SessionEnding {
        try requireKnown(reader, ["cause", "at"])
        guard let cause = SessionEnding.Cause(rawValue: try reader.string("cause")) else {
            throw reader.refusal("cause", "is no known word")
        }
        return SessionEnding(cause, at: try reader.timestamp("at"))
    }

    /// A member that this version does not know could say that the device is locked.
    private static func requireKnown(_ reader: MemberReader, _ names: Set<String>) throws {
        if let name = reader.object.members.first(where: { !names.contains($0.name) })?.name {
            throw reader.refusal(UntrustedName.display(name), "is not known")
        }
    }

    static func bytes(of record: SessionRecord) -> [UInt8] {
        var object: JSONObject = ["schema": .integer(schema)]
        switch record.access {
        case .open: break
        case .session(let session):
            object["session"] = .object([
                "token": .string(session.token.secret), "since": .string(session.since.description),
                "expires": .string(orNull: session.expires?.description),
            ])
        case .ended(let ending):
            object["ended"] = .object([
                "cause": .string(ending.cause.rawValue), "at": .string(ending.at.description),
            ])
        }
        object["lock"] = .string(orNull: record.lock?.rawValue)
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }
}
