/// A client that is complete in the store: its folder stands under its final name and the ledger vouches for it.
public struct InstalledBundle: Sendable, Equatable {
    /// What the ledger remembers about it.
    public let entry: Ledger.Entry
    /// Absolute or relative path of its folder, as the store was opened.
    public let path: String

    /// Only the store makes one.
    init(entry: Ledger.Entry, path: String) {
        self.entry = entry
        self.path = path
    }

    /// Its version.
    public var version: ClientVersion { entry.version }

    /// Its name in answers.
    public var name: ClientName { .installed(entry.version) }
}
