import BundleCore
import BundleDisk
import BundleValues
import Glibc
package import ShellBoot

/// The record of a device's sessions, as a file of its store that its owner alone may read.
///
/// Changed under the lock of the ledger, which is held for milliseconds, and replaced whole and durably.
package struct FileSessionRepository: SessionRepository {
    private static let patienceMilliseconds = 10_000
    private static let mode: UInt32 = 0o600

    private let store: String

    /// For the store at `path`, which may not be there yet.
    package init(store path: String) {
        store = path
    }

    /// What is remembered; a store without the file is open. Refuses a file that others may read or change, one of another owner,
    /// and one that cannot be understood.
    package func record() throws -> SessionRecord {
        do {
            return try record(in: try Directory.open(store))
        } catch let error as DiskError where error.kind == .missing {
            return .open
        }
    }

    /// Changes the file; without one it begins with an open device. The store's folder is created where it is missing.
    @discardableResult
    package func change(_ body: @Sendable (inout SessionRecord) -> Void) throws -> SessionRecord {
        let folder = try ownFolder()
        guard let lock = try FileLock.take(folder, waiting: Self.patienceMilliseconds) else {
            throw UpdateFailure(
                .storeLocked, subject: store,
                "Another clientctl has held the ledger of \(store) for 10 s: see whether it hangs.")
        }
        defer { withExtendedLifetime(lock) {} }
        let old = try record(in: folder)
        var next = old
        body(&next)
        if next == old {
            // Whoever wrote this may have been stopped before it was durable, and now it is answered for.
            try folder.sync()
            return next
        }
        do {
            try write(next, to: folder)
        } catch {
            // Where the last sync failed, the new one has the name already.
            try? write(old, to: folder)
            throw error
        }
        return next
    }

    /// The same for somebody who decides anew: a file that cannot be understood counts as that of a device where everybody signed
    /// out, since what is lost by accident must not open it.
    @discardableResult
    package func changeEvenDamaged(_ body: @Sendable (inout SessionRecord) -> Void) throws -> SessionRecord {
        do {
            return try change(body)
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            let folder = try ownFolder()
            try folder.removeTree(StoreLayout.session)
            return try change { record in
                record = SessionRecord(access: .ended(SessionEnding(.signedOut, at: .now)), lock: nil)
                body(&record)
            }
        }
    }

    // MARK: The file

    private func record(in folder: Directory) throws -> SessionRecord {
        guard let file = try file(in: folder) else { return .open }
        try requirePrivate(file)
        do {
            let bytes = try file.readAll(maximumBytes: SessionFormat.maximumBytes)
            return try SessionFormat.record(in: bytes)
        } catch let error as DiskError {
            throw error
        } catch {
            throw UpdateFailure(
                .storeDamaged, subject: file.path,
                "The session in \(file.path) cannot be read: \(error). Log in again: `clientctl login`.")
        }
    }

    private func file(in folder: Directory) throws(DiskError) -> File? {
        do {
            return try folder.file(StoreLayout.session)
        } catch  where error.kind == .missing {
            return nil
        }
    }

    private func write(_ record: SessionRecord, to folder: Directory) throws {
        if record == .open {
            try folder.removeFile(StoreLayout.session)
            try folder.sync()
        } else {
            try folder.replaceFile(StoreLayout.session, with: SessionFormat.bytes(of: record), mode: Self.mode)
        }
    }

    // MARK: Who may read it

    /// Whoever else could read it has had the token, and whoever could write it has unlocked the device.
    private func requirePrivate(_ file: File) throws {
        guard try file.owner() == geteuid() else {
            throw UpdateFailure(
                .permissionDenied, subject: file.path,
                "\(file.path) belongs to another user: use the store as its owner, with `sudo -u`, or give it back.")
        }
        guard try file.permissions() & 0o077 == 0 else {
            throw UpdateFailure(
                .permissionDenied, subject: file.path,
                "Other users can read or change \(file.path). Run `chmod 600 \(file.path)`, then log in with a new token."
            )
        }
    }

    /// The store's folder. A file in the folder of another user could be replaced by that one, and could not be read by it.
    private func ownFolder() throws -> Directory {
        try Directory.createAll(store, mode: 0o700)
        let folder = try Directory.open(store)
        try StoreMark.require(in: folder)
        let (owner, mode) = try folder.permissions()
        guard owner == geteuid() else {
            throw UpdateFailure(
                .permissionDenied, subject: store,
                "The store \(store) belongs to another user: use it as its owner, with `sudo -u`.")
        }
        guard mode & 0o022 == 0 else {
            throw UpdateFailure(
                .permissionDenied, subject: store,
                "Others may write to \(store): take that away with `chmod go-w`, and check what is in it.")
        }
        return folder
    }
}

/// The record of a device's sessions as JSON: strict, of one schema, with no member that nobody knows.
enum SessionFormat {
    static let maximumBytes = 32 << 10

    private static let schema = 1
    private static let names: Set<String> = ["schema", "session", "ended", "lock", "endings", "rejections"]

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
        let endings = try reader.optional("endings").map { value in
            let reader = try MemberReader(value, of: "session.endings")
            try requireKnown(reader, ["count", "last"])
            return SessionEndings(count: try reader.integer("count"), last: try reader.timestamp("last"))
        }
        let rejections = try reader.optional("rejections").map { value in
            let reader = try MemberReader(value, of: "session.rejections")
            try requireKnown(reader, ["count", "first", "last"])
            return SessionRejections(
                count: try reader.integer("count"), first: try reader.timestamp("first"),
                last: try reader.timestamp("last"))
        }
        return SessionRecord(access: access, lock: lock, endings: endings, rejections: rejections)
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
        if let endings = record.endings {
            object["endings"] = .object([
                "count": .integer(endings.count), "last": .string(endings.last.description),
            ])
        }
        if let rejections = record.rejections {
            object["rejections"] = .object([
                "count": .integer(rejections.count), "first": .string(rejections.first.description),
                "last": .string(rejections.last.description),
            ])
        }
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }
}
