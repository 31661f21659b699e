import BundleFetch
import BundleCore
import BundleDisk
import BundleValues
import CLibrary

/// The record of a device's sessions in a file of its store that only its owner may read.
///
/// Changes hold the lock of the ledger for milliseconds and replace the file durably.
package struct FileSessionRepository: SessionRepository {
    private static let lockTimeoutMilliseconds = 10_000
    private static let mode: UInt32 = 0o600

    private let store: String

    /// Creates a repository for the store at `path`, which need not exist.
    package init(store path: String) {
        store = path
    }

    /// Returns the record; `.open` if the file does not exist. Throws for a file that other users may access or own,
    /// and for invalid content.
    package func record() throws -> SessionRecord {
        do {
            return try record(in: try Directory.open(store))
        } catch let error as DiskError where error.kind == .missing {
            return .open
        }
    }

    /// Changes the record, which is `.open` if the file does not exist. Creates the store's folder if it is missing.
    @discardableResult
    package func change(_ body: @Sendable (inout SessionRecord) -> Void) throws -> SessionRecord {
        let folder = try ownFolder()
        guard let lock = try FileLock.take(folder, waiting: Self.lockTimeoutMilliseconds) else {
            throw UpdateFailure(
                .storeLocked, subject: store,
                "Another clientctl has locked the ledger of \(store) for 10 s. Check whether it hangs.")
        }
        defer { withExtendedLifetime(lock) {} }
        let old = try record(in: folder)
        var next = old
        body(&next)
        if next == old {
            // The process that wrote this may have ended before its sync, so the record is synced here.
            try folder.sync()
            return next
        }
        do {
            try write(next, to: folder)
        } catch {
            // After a failed sync, the new file already has the name.
            try? write(old, to: folder)
            throw error
        }
        return next
    }

    /// Changes the record even if the file is invalid. An invalid file counts as a device whose user signed out,
    /// because damage must not open the device.
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
                "The session in \(file.path) cannot be read: \(error). Log in again: `clientctl session login`.")
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

    // MARK: Access rights

    /// A user who could read the file has the token, and one who could write it could unlock the device.
    private func requirePrivate(_ file: File) throws {
        guard try file.owner() == geteuid() else {
            throw UpdateFailure(
                .permissionDenied, subject: file.path,
                "\(file.path) belongs to another user. Use the store as its owner with `sudo -u`, or change the owner back."
            )
        }
        guard try file.permissions() & 0o077 == 0 else {
            throw UpdateFailure(
                .permissionDenied, subject: file.path,
                "Other users can read or change \(file.path). Run `chmod 600 \(file.path)`, then log in with a new token."
            )
        }
    }

    /// Returns the store's folder. Throws if another user owns the folder, because this user could replace the file.
    private func ownFolder() throws -> Directory {
        try Directory.createAll(store, mode: 0o700)
        let folder = try Directory.open(store)
        try StoreMark.require(in: folder)
        try StoreMark.requireOwner(of: folder)
        return folder
    }
}

/// The file format of a record: JSON of one schema, without unknown members.
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
        case (_?, _?): throw reader.refusal("ended", "cannot be combined with session")
        }
        let lock = try reader.optionalString("lock").map { text in
            guard let lock = SessionLock(rawValue: text) else { throw reader.refusal("lock", "has an unknown value") }
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

    /// Returns the token. Its text must equal that of the file exactly.
    private static func token(_ text: String, _ reader: MemberReader) throws -> AccessToken {
        do {
            let token = try AccessToken(tokenFile: Array(text.utf8))
            if token.secret.utf8.elementsEqual(text.utf8) { return token }
        } catch {
            throw reader.refusal("token", "is not a bearer token: \(error)")
        }
        throw reader.refusal("token", "has space around it")
    }

    private static func ending(_ reader: MemberReader) throws -> SessionEnding {
        try requireKnown(reader, ["cause", "at"])
        guard let cause = SessionEnding.EndingCause(rawValue: try reader.string("cause")) else {
            throw reader.refusal("cause", "has an unknown value")
        }
        return SessionEnding(cause, at: try reader.timestamp("at"))
    }

    /// Throws for an unknown member, which could state that the device is locked.
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
