import BundleDisk
import BundleFormats
import BundleSigning
package import BundleValues

enum LedgerFile {
    private static let maximumBytes = 16 << 20

    /// The ledger that a store can read.
    struct Generations {
        /// The ledger; nil if the store has none yet.
        let ledger: Ledger?
        /// The reason why the previous ledger is used; nil if `ledger` is the newest one.
        let damage: UpdateFailure?
    }

    /// Returns the ledger of the store; nil if it has none yet. If the newest one is damaged, lost or unreadable,
    /// returns the previous one. Throws `storeDamaged` if neither can be read.
    static func read(_ store: Directory) throws -> Ledger? { try generations(store).ledger }

    /// Returns the ledger, and the reason if it is not the newest one.
    static func generations(_ store: Directory) throws -> Generations {
        func damage(_ what: String) -> UpdateFailure {
            UpdateFailure(
                .storeDamaged, subject: "\(store.path)/\(StoreLayout.ledger)", "The store's ledger \(what)")
        }
        let newest = try read(StoreLayout.ledger, store)
        if case .ledger(let ledger) = newest { return Generations(ledger: ledger, damage: nil) }
        if case .newer(let refusal) = newest { throw refusal }
        // A new ledger has its name before the previous one loses its own.
        let before = try read(StoreLayout.ledgerBefore, store)
        if case .newer(let refusal) = before { throw refusal }
        switch (newest, before) {
        case (.unusable(let why), .ledger(let ledger)):
            return Generations(
                ledger: ledger, damage: damage("cannot be read: \(why). The previous ledger is used."))
        case (_, .ledger(let ledger)):
            return Generations(
                ledger: ledger, damage: damage("is missing. The previous ledger is used."))
        default: break
        }
        // A user with permission can still read it.
        for case .unusable(let error as DiskError) in [newest, before] where error.kind == .permission { throw error }
        let advice = "An install or a launch rebuilds it."
        switch (newest, before) {
        case (.unusable(let why), _): throw damage("cannot be read: \(why). \(advice)")
        case (_, .unusable(let why)):
            throw damage("is missing, and the one before it cannot be read: \(why). \(advice)")
        default: return Generations(ledger: nil, damage: nil)
        }
    }

    /// The result of reading one ledger file.
    private enum LedgerReading {
        case ledger(Ledger)
        case missing
        /// A newer clientctl wrote it, with a member that this one cannot read.
        case newer(NewerLedger)
        /// The file is damaged or unreadable, so the other one is tried.
        case unusable(any Error)
    }

    /// Reads one ledger file. Throws an error that may be temporary, so that the ledger is not treated as lost.
    private static func read(_ name: String, _ store: Directory) throws -> LedgerReading {
        do {
            guard let kind = try store.kind(of: name) else { return .missing }
            guard case .file(let size) = kind, size <= maximumBytes,
                let bytes = try store.contents(name, maximumBytes: maximumBytes)
            else {
                throw MemberReader.Refusal(member: "ledger", problem: "is not a file of at most \(maximumBytes) bytes")
            }
            let reader = try MemberReader(JSONScanner.parse(bytes, maximumBytes: maximumBytes), of: "ledger")
            let schema = try Ledger.checkedSchema(reader)
            do {
                return .ledger(try Ledger(reader, schema))
            } catch let refusal as MemberReader.Refusal where schema > Ledger.schema {
                return .newer(NewerLedger(store: store.path, schema: schema, refusal: refusal))
            }
        } catch let error as DiskError where !error.isUnreadable && error.kind != .permission {
            throw error
        } catch {
            return .unusable(error)
        }
    }

    /// Replaces the ledger atomically and durably. Keeps the previous one beside it if it `isReadable`.
    static func write(_ ledger: Ledger, to store: Directory, keepingLast isReadable: Bool = false) throws {
        var object = ledger.object
        object["checksum"] = .string(try checksum(object).hex)
        let aside = StoreLayout.ledger + StoreLayout.asideSuffix
        try store.removeFile(aside)
        try store.createDurableFile(aside, with: JSONWriter.bytes(of: .object(object), layout: .pretty))
        if isReadable { try keepLast(store) }
        try store.rename(aside, to: StoreLayout.ledger)
        try store.sync()
    }

    /// Links the present ledger under the name of the previous one. The file was synced when it was written, so after
    /// a power cut this name has either the old or the new file, and the ledger beside it is whole.
    private static func keepLast(_ store: Directory) throws {
        let aside = StoreLayout.ledgerBefore + StoreLayout.asideSuffix
        try store.removeFile(aside)
        do {
            try store.link(StoreLayout.ledger, to: store, as: aside)
        } catch {
            // The file system has no hard links.
            guard error.kind == .permission || error.kind == .tooManyLinks else { throw error }
            guard let bytes = try store.contents(StoreLayout.ledger, maximumBytes: maximumBytes) else { return }
            try store.createDurableFile(aside, with: bytes)
        }
        try store.rename(aside, to: StoreLayout.ledgerBefore)
        // A rename between two names of one file leaves both.
        try store.removeFile(aside)
    }

    /// The checksum detects bits that the disk has flipped, which could unblock a version.
    fileprivate static func checksum(_ object: JSONObject) throws(OpenSSLFailure) -> SHA256Digest {
        try SHA256Digest.of(JSONWriter.bytes(of: .object(object)))
    }
}

/// The error of a ledger that a newer clientctl wrote and this one cannot read.
package struct NewerLedger: ClassifiedFailure {
    let store: String
    let schema: Int
    let refusal: MemberReader.Refusal

    package var failure: UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: store,
            "A newer clientctl has written the ledger of \(store) (schema \(schema)), and this one cannot judge which clients may run: "
                + "\(refusal). Install the newer clientctl again; the store stays as it is.")
    }
}

extension Ledger {
    /// Returns a note about a ledger that a newer clientctl wrote; nil for others.
    package var newerNote: String? {
        newerSchema.map { schema in
            "A newer clientctl wrote this store (ledger schema \(schema); this one knows \(Self.schema)). This one ignores what it "
                + "does not know, and removes it with its next change. Install the newer clientctl again"
        }
    }

    /// The schema that this program writes.
    static let schema = 4

    init(_ reader: MemberReader) throws { try self.init(reader, Self.checkedSchema(reader)) }

    /// Returns the schema of a ledger whose checksum matches. A newer schema is accepted; its unknown members are
    /// ignored. The schemas 1 to 3 were only in programs that were never released.
    fileprivate static func checkedSchema(_ reader: MemberReader) throws -> Int {
        let schema = try reader.integer("schema")
        guard schema >= Self.schema else {
            throw reader.refusal("schema", "is \(schema), which only programs before 0.9.0 wrote")
        }
        var object = reader.object
        object["checksum"] = nil
        guard try LedgerFile.checksum(object) == reader.digest("checksum") else {
            throw reader.refusal("checksum", "does not match")
        }
        return schema
    }

    fileprivate init(_ reader: MemberReader, _ schema: Int) throws {
        self.init()
        newerSchema = schema > Self.schema ? schema : nil
        try readClients(reader)
        try readLaunches(reader)
        try readSources(reader)
        feed = try FeedMemory(MemberReader(reader.optional("feed") ?? .null, of: "ledger.feed"))
        reports = try reader.optionalObject("reports").map { reader in try ReportQueue(reader) }
        if reader.optional("wanted") != nil { wanted = try reader.objects("wanted").map(Wanted.init) }
        wanted.sortByVersion(\.version)
        waiting = try reader.optionalObject("waiting").map { reader in try WaitingOffer(reader) }
        metered = try reader.optionalObject("metered").map { reader in try MeteredUse(reader) }
        for (list, versions) in [
            ("versions", entries.map(\.version)), ("blocked", blocks.map(\.version)),
            ("starts", records.map(\.version)),
        ] where Set(versions).count != versions.count {
            throw reader.refusal(list, "names a version twice")
        }
        if Set(wanted.map(\.version.source)).count != wanted.count {
            throw reader.refusal("wanted", "names a source twice")
        }
    }

    private mutating func readClients(_ reader: MemberReader) throws {
        appId = try reader.optionalString("appId")
        entries = try reader.objects("versions").map(Entry.init)
        entries.sortByVersion(\.version)
        current = try reader.requiredName("current")
        previous = try reader.name("previous")
        pending = try reader.name("pending")
        lastKnownGood = try reader.requiredName("lastKnownGood")
        blocks = try reader.objects("blocked").map(Block.init)
        blocks.sortByVersion(\.version)
    }

    private mutating func readLaunches(_ reader: MemberReader) throws {
        records = try reader.objects("starts").map(StartRecord.init)
        records.sortByVersion(\.version)
        launch = try reader.optional("launch").map { try Launch(MemberReader($0, of: "ledger.launch")) }
        shell = try reader.optionalVersion("shell")
        seed = try reader.optionalDigest("seed")
    }

    private mutating func readSources(_ reader: MemberReader) throws {
        seedFacts = try reader.optional("seedFacts").map { try MeteorFacts(MemberReader($0, of: "ledger.seedFacts")) }
        offered = try reader.name("offered")
        let words = reader.object["sources"]?.arrayValue?.map(\.stringValue) ?? []
        guard let order = SourceOrder(words.map { $0 ?? "" }) else {
            throw reader.refusal("sources", "is not a list of sources")
        }
        sources = order
    }

    var object: JSONObject {
        var object: JSONObject = [
            "schema": .integer(Self.schema),
            "appId": .string(orNull: appId),
            "current": .string(current.description),
            "previous": .string(orNull: previous?.description),
            "pending": .string(orNull: pending?.description),
            "lastKnownGood": .string(lastKnownGood.description),
            "shell": .string(orNull: shell?.description),
            "seed": .string(orNull: seed?.hex),
            "seedFacts": seedFacts.map { .object($0.members) } ?? .null,
            "offered": .string(orNull: offered?.description),
            "sources": .array(sources.names.map { .string($0.rawValue) }),
            "launch": launch.map(\.json) ?? .null,
            "versions": .array(entries.map(\.json)),
            "starts": .array(records.map(\.json)),
            "blocked": .array(blocks.map(\.json)),
            "feed": feed.json, "reports": reports.map(\.json) ?? .null,
            "wanted": .array(wanted.map(\.json)),
        ]
        object["waiting"] = waiting?.json
        object["metered"] = metered?.json
        return object
    }
}

extension Launch {
    init(_ reader: MemberReader) throws {
        self.init(
            name: try reader.requiredName("name"), tokenSha256: try reader.digest("tokenSha256"),
            at: try reader.timestamp("at"),
            isTrial: try reader.bool("trial"),
            verdict: try reader.optionalString("verdict").map { try reader.word("verdict", $0) },
            awaitsPage: reader.optional("awaitsPage")?.boolValue ?? false)
    }

    var json: JSONValue {
        .object([
            "name": .string(name.description), "tokenSha256": .string(tokenSha256.hex), "at": .string(at.description),
            "trial": .bool(isTrial), "verdict": .string(orNull: verdict?.rawValue),
            "awaitsPage": .bool(awaitsPage),
        ])
    }
}

extension StartRecord {
    init(_ reader: MemberReader) throws {
        self.init(
            version: try reader.clientVersion(),
            goodSince: try reader.optional("goodSince").map { _ in try reader.timestamp("goodSince") },
            failures: try reader.objects("failures").map(StartFailure.init))
    }

    var json: JSONValue {
        .object([
            "version": .string(version.description), "source": .string(version.source.rawValue),
            "goodSince": .string(orNull: goodSince?.description),
            "failures": .array(failures.map(\.json)),
        ])
    }
}

extension StartFailure {
    init(_ reader: MemberReader) throws {
        let cause: Cause = try reader.word("cause", try reader.string("cause"))
        let isBlank = reader.optional("blankScreen")?.boolValue == true
        self.init(
            written: isBlank ? .blankScreen : cause, detail: try reader.string("detail"),
            at: try reader.timestamp("at"),
            startedAt: try reader.optional("startedAt").map { _ in try reader.timestamp("startedAt") },
            retryAt: try reader.optional("retryAt").map { _ in try reader.timestamp("retryAt") })
    }

    var json: JSONValue {
        var object: JSONObject = [
            "cause": .string(cause == .blankScreen ? Cause.reported.rawValue : cause.rawValue),
            "detail": .string(detail), "at": .string(at.description),
            "startedAt": .string(orNull: startedAt?.description), "retryAt": .string(orNull: retryAt?.description),
        ]
        if cause == .blankScreen { object["blankScreen"] = .bool(true) }
        return .object(object)
    }
}

extension Ledger.Block {
    init(_ reader: MemberReader) throws {
        self.init(
            version: try reader.clientVersion(),
            cause: try reader.word("cause", try reader.string("cause")),
            reason: try reader.string("reason"), count: try reader.integer("count"),
            since: try reader.timestamp("since"))
    }

    var json: JSONValue {
        .object([
            "version": .string(version.description), "source": .string(version.source.rawValue),
            "cause": .string(cause.rawValue), "reason": .string(reason),
            "count": .integer(count), "since": .string(since.description),
        ])
    }
}

extension Wanted {
    init(_ reader: MemberReader) throws {
        self.init(
            version: try reader.clientVersion(), since: try reader.timestamp("since"),
            attempts: try reader.integer("attempts"), code: try reader.word("code", try reader.string("code")),
            reason: try reader.string("reason"))
    }

    var json: JSONValue {
        .object([
            "version": .string(version.description), "source": .string(version.source.rawValue),
            "since": .string(since.description), "attempts": .integer(attempts), "code": .string(code.rawValue),
            "reason": .string(reason),
        ])
    }
}

extension Ledger.Entry {
    init(_ reader: MemberReader) throws {
        self.init(
            identity: try BundleIdentity(reader),
            contentSha256: try reader.digest("contentSha256"),
            installedSize: try reader.integer("installedSize"),
            fileCount: try reader.integer("fileCount"),
            installedAt: try reader.timestamp("installedAt"),
            route: try reader.optionalString("routeReason").flatMap(DownloadRoute.Reason.init).map {
                DownloadRoute($0, try reader.optionalString("routeDetail"))
            }, notes: try reader.optionalString("notes"))
    }

    var json: JSONValue {
        var object = identity.members
        object["contentSha256"] = .string(contentSha256.hex)
        object["installedSize"] = .integer(installedSize)
        object["fileCount"] = .integer(fileCount)
        object["installedAt"] = .string(installedAt.description)
        if let route {
            object["routeReason"] = .string(route.reason.rawValue)
            object["routeDetail"] = .string(orNull: route.detail)
        }
        if let notes { object["notes"] = .string(notes) }
        return .object(object)
    }
}

extension MemberReader {
    func name(_ member: String) throws -> ClientName? {
        guard let text = try optionalString(member) else { return nil }
        guard let name = ClientName(text) else { throw refusal(member, "is not a client's name") }
        return name
    }

    fileprivate func requiredName(_ member: String) throws -> ClientName {
        guard let name = try name(member) else { throw refusal(member, "is missing") }
        return name
    }

    /// Returns `version`, parsed as `source` requires.
    func clientVersion() throws -> ClientVersion {
        let text = try string("version")
        guard let source = try source("source") else { throw refusal("source", "is missing") }
        do {
            return try ClientVersion(parsing: text, of: source)
        } catch {
            throw refusal("version", "is refused: \(error)")
        }
    }

    /// Returns a source, or nil if the member is absent or null.
    func source(_ member: String) throws -> SourceName? {
        guard let text = try optionalString(member) else { return nil }
        guard let source = SourceName(rawValue: text) else { throw refusal(member, "is not a known source") }
        return source
    }

    func word<Word: RawRepresentable<String>>(_ member: String, _ text: String) throws -> Word {
        guard let word = Word(rawValue: text) else { throw refusal(member, "is not a known word") }
        return word
    }

    func bool(_ member: String) throws -> Bool {
        guard let value = optional(member)?.boolValue else { throw refusal(member, "is neither true nor false") }
        return value
    }
}
