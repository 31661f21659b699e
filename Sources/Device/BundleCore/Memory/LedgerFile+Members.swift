import BundleFormats
import BundleSigning
import BundleValues

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
        self.init(
            written: try reader.word("cause", try reader.string("cause")), detail: try reader.string("detail"),
            at: try reader.timestamp("at"),
            startedAt: try reader.optional("startedAt").map { _ in try reader.timestamp("startedAt") },
            retryAt: try reader.optional("retryAt").map { _ in try reader.timestamp("retryAt") })
    }

    var json: JSONValue {
        .object([
            "cause": .string(cause.rawValue), "detail": .string(detail), "at": .string(at.description),
            "startedAt": .string(orNull: startedAt?.description), "retryAt": .string(orNull: retryAt?.description),
        ])
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

    func requiredName(_ member: String) throws -> ClientName {
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
