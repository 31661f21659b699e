package import BundleValues

/// A client that is complete in the store: its folder stands under its final name and the ledger vouches for it.
package struct InstalledBundle: Sendable, Equatable {
    /// What the ledger remembers about it.
    package let entry: Ledger.Entry
    /// Absolute or relative path of its folder, as the store was opened.
    package let path: String

    /// Only the store makes one.
    init(entry: Ledger.Entry, path: String) {
        self.entry = entry
        self.path = path
    }

    /// Its version.
    package var version: ClientVersion { entry.version }

    /// Its name in answers.
    package var name: ClientName { .installed(entry.version) }
}
