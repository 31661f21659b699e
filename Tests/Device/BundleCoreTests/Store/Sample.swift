import BundleSigning

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// Creates values of the store.
enum Sample {
    static func version(_ text: String) throws -> SemanticVersion { try SemanticVersion(parsing: text) }

    /// Returns a version of either source: `1.0.0`, or `meteor-` and a Meteor version.
    static func version(_ text: String) throws -> ClientVersion {
        guard text.hasPrefix("meteor-") else { return .archive(try version(text)) }
        return .meteor(try MeteorVersion(parsing: String(text.dropFirst("meteor-".count))))
    }

    static func name(_ text: String) throws -> ClientName {
        text == "embedded" ? .embedded : .installed(try version(text))
    }

    /// Returns the digest of a seed that is identified by `text`.
    static func seed(_ text: String) throws -> SHA256Digest { try .of(Array(text.utf8)) }

    static func entry(
        _ text: String, minimumShell: String = "1.0.0", maximumShell: String? = nil, seed: String? = nil,
        installedAt: Int = 1_700_000_000
    ) throws -> Ledger.Entry {
        let identity: BundleIdentity
        switch try version(text) as ClientVersion {
        case .archive(let version):
            identity = BundleIdentity(
                version: version,
                shells: try ShellRange(minimum: Self.version(minimumShell), maximum: try maximumShell.map(Self.version))
            )
        case .meteor(let version):
            identity = BundleIdentity(version: version, facts: facts(version), seed: try seed.map(Self.seed))
        }
        return Ledger.Entry(
            identity: identity, contentSha256: try .of(Array(text.utf8)), installedSize: 12, fileCount: 2,
            installedAt: Timestamp(clamping: installedAt))
    }

    static func facts(_ version: MeteorVersion) -> MeteorFacts {
        MeteorFacts(version: version, appId: "app", rootURL: "http://localhost:3000/", compatibility: "1")
    }

    static func block(_ text: String, _ reason: String = "it crashed") throws -> Ledger.Block {
        Ledger.Block(
            version: try version(text), cause: .byHand, reason: reason, count: 0,
            since: Timestamp(clamping: 1_600_000_000))
    }

    /// Returns the inventory of a store with this ledger.
    static func inventory(_ ledger: Ledger) throws -> Inventory {
        Inventory(
            path: "/store", ledger: ledger,
            bundles: ledger.entries.map { InstalledBundle(entry: $0, path: "/store/\(StoreLayout.tree($0.version))") })
    }

    /// Returns the inventory of a store with these clients. `current` and `previous` are versions or `embedded`.
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
    /// Returns the text with the first occurrence of `part` replaced.
    func replacingFirst(_ part: String, with instead: String) -> String {
        var text = self
        if let range = text.firstRange(of: part) { text.replaceSubrange(range, with: instead) }
        return text
    }
}
