import BundleDisk
import BundleSigning

/// The ledger as JSON on the disk.
enum LedgerFile {
    private static let maximumBytes = 16 << 20

    /// The ledger of the store; nil where it has none yet. A file that is no ledger is `storeDamaged`.
    static func read(_ store: Directory) throws -> Ledger? {
        do {
            guard let kind = try store.kind(of: StoreLayout.ledger) else { return nil }
            guard case .file(let size) = kind, size <= maximumBytes,
                let bytes = try store.contents(StoreLayout.ledger, maximumBytes: maximumBytes)
            else {
                throw MemberReader.Refusal(member: "ledger", problem: "is no file of at most \(maximumBytes) bytes")
            }
            let value = try JSONScanner.parse(bytes, maximumBytes: maximumBytes)
            return try Ledger(MemberReader(value, of: "ledger"))
        } catch let error as DiskError {
            throw error
        } catch {
            throw UpdateFailure(
                .storeDamaged, subject: store.path + "/" + StoreLayout.ledger,
                "The store's ledger cannot be read: \(error). The next install rebuilds it from the receipts.")
        }
    }

    /// Replaces the ledger, whole and durably.
    static func write(_ ledger: Ledger, to store: Directory) throws(DiskError) {
        try store.replaceFile(StoreLayout.ledger, with: JSONWriter.bytes(of: ledger.json, layout: .pretty))
    }
}

extension Ledger {
    init(_ reader: MemberReader) throws {
        guard try reader.integer("schema") == 1 else { throw reader.refusal("schema", "is not 1") }
        let entries = try reader.objects("versions").map(Entry.init)
        guard Set(entries.map(\.version)).count == entries.count else {
            throw reader.refusal("versions", "names a version twice")
        }
        self.init(
            appId: try reader.optionalString("appId"),
            entries: entries,
            current: try reader.name("current", try reader.string("current")),
            previous: try reader.optionalString("previous").map { try reader.name("previous", $0) },
            blocks: try reader.objects("blocked").map { block in
                Block(
                    version: try block.version("version"), reason: try block.string("reason"),
                    since: try block.timestamp("since"))
            })
    }

    var json: JSONValue {
        .object([
            "schema": .integer(1),
            "appId": .string(orNull: appId),
            "current": .string(current.description),
            "previous": .string(orNull: previous?.description),
            "versions": .array(entries.map(\.json)),
            "blocked": .array(
                blocks.map { block in
                    .object([
                        "version": .string(block.version.description),
                        "reason": .string(block.reason),
                        "since": .string(block.since.description),
                    ])
                }),
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
            installedAt: try reader.timestamp("installedAt"))
    }

    var json: JSONValue {
        .object([
            "version": .string(version.description),
            "channel": .string(identity.channel),
            "minShellVersion": .string(shells.minimum.description),
            "maxShellVersion": .string(orNull: shells.maximum?.description),
            "contentSha256": .string(contentSha256.hex),
            "installedSize": .integer(installedSize),
            "fileCount": .integer(fileCount),
            "installedAt": .string(installedAt.description),
        ])
    }
}

extension MemberReader {
    fileprivate func name(_ member: String, _ text: String) throws -> ClientName {
        guard let name = ClientName(text) else { throw refusal(member, "names no client") }
        return name
    }
}
