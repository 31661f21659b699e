import BundleValues
import BundleDisk

/// How an installed client leaves a store that the caller has locked: the ledger forgets first, then the names go, each in one
/// rename, then the files.
struct ClientRemoval {
    private let folders: StoreFolders
    private let keeper: LedgerKeeper
    private let serving: ServingFolder

    init(_ folders: StoreFolders) {
        self.folders = folders
        keeper = LedgerKeeper(root: folders.root)
        serving = ServingFolder(folders.serving)
    }

    /// Removes the client of `entry` unless a running server shows it or `change`, by which the ledger forgets it, is refused.
    func remove(_ entry: Ledger.Entry, because change: LedgerChange) throws {
        let name = entry.identity.servingName
        guard let claim = try serving.claim(name) else { return }
        defer { withExtendedLifetime(claim) {} }
        guard case .written = try keeper.propose([change]) else { return }
        try serving.remove(name)
        try removeTree(of: entry.version)
    }

    private func removeTree(of version: ClientVersion) throws {
        let trash = randomName(StoreLayout.trashPrefix)
        // Without its receipt the folder is nobody's, so a stop from here on does not bring it back.
        try folders.receipts.removeFile(StoreLayout.receipt(version))
        do {
            try folders.trees(of: version).move(version.folderName, to: folders.staging, as: trash)
            try folders.trees(of: version).sync()
            try folders.staging.removeTree(trash)
        } catch  where error.kind == .crossesDevice {
            // A folder from a lower layer of an overlay cannot be renamed; the ledger has forgotten it already.
            try folders.trees(of: version).removeTree(version.folderName)
        }
    }
}
