import BundleSigning

@testable import BundleCore

/// Short ways to write values of the store.
enum Sample {
    static func version(_ text: String) throws -> SemanticVersion { try SemanticVersion(parsing: text) }

    static func name(_ text: String) throws -> ClientName {
        text == "embedded" ? .embedded : .installed(try version(text))
    }

    static func entry(_ text: String, minimumShell: String = "1.0.0", maximumShell: String? = nil) throws
        -> Ledger.Entry
    {
        Ledger.Entry(
            identity: BundleIdentity(
                version: try version(text), channel: "archive",
                shells: try ShellRange(minimum: version(minimumShell), maximum: try maximumShell.map(version))),
            contentSha256: try .of(Array(text.utf8)), installedSize: 12, fileCount: 2,
            installedAt: Timestamp(clamping: 1_700_000_000))
    }

    static func block(_ text: String, _ reason: String = "it crashed") throws -> Ledger.Block {
        Ledger.Block(
            version: try version(text), cause: .byHand, reason: reason, count: 0,
            since: Timestamp(clamping: 1_600_000_000))
    }

    /// A picture of a store whose ledger this is.
    static func inventory(_ ledger: Ledger) throws -> Inventory {
        Inventory(
            path: "/store", ledger: ledger,
            bundles: ledger.entries.map { InstalledBundle(entry: $0, path: "/store/clients/\($0.version.folderName)") })
    }

    /// A picture of a store with these clients; `current` and `previous` are versions or `embedded`.
    static func inventory(
        _ entries: [Ledger.Entry], current: String = "embedded", previous: String? = nil, blocked: [String] = []
    ) throws -> Inventory {
        var ledger = Ledger()
        for entry in entries { ledger.record(entry) }
        ledger.current = try name(current)
        ledger.previous = try previous.map(name)
        for version in blocked { ledger.block(try block(version)) }
        return try inventory(ledger)
    }

    static func inventory(_ versions: [String], current: String = "embedded", previous: String? = nil) throws
        -> Inventory
    {
        try inventory(versions.map { try entry($0) }, current: current, previous: previous)
    }
}

extension String {
    /// The text with the first `part` replaced; the same text where it has none.
    func replacingFirst(_ part: String, with instead: String) -> String {
        var text = self
        if let range = text.firstRange(of: part) { text.replaceSubrange(range, with: instead) }
        return text
    }
}
