import BundleDisk
import BundleSigning

/// Brings a store back to what its ledger says, after a run that was stopped anywhere. Idempotent; runs under the lock.
struct StoreRecovery {
    let root: Directory
    let clients: Directory
    let receipts: Directory
    let staging: Directory
    let downloads: Directory
    let serving: ServingFolder
    let warn: (String) -> Void

    init(_ folders: StoreFolders, warn: @escaping (String) -> Void) {
        root = folders.root
        clients = folders.clients
        receipts = folders.receipts
        staging = folders.staging
        downloads = folders.downloads
        serving = ServingFolder(folders.serving)
        self.warn = warn
    }

    func run() throws { try LedgerKeeper(root: root).exclusively(repair) }

    private func repair() throws {
        try root.removeTree(StoreLayout.ledger + StoreLayout.asideSuffix)
        let written = try readLedger()
        var ledger = written ?? Ledger()
        try dropEntriesWithoutFolder(&ledger)
        try adoptOrRemoveFolders(&ledger)
        for name in try staging.list() { try staging.removeTree(name) }
        for name in try downloads.list() {
            if case .file? = try downloads.kind(of: name) { continue }
            try downloads.removeTree(name)
        }
        for version in ledger.mentioned where ledger.entry(version) == nil { ledger.forget(version) }
        try removeReceiptsWithoutEntry(ledger)
        let roots = Set(ledger.entries.map(\.identity.servingName))
        try serving.removeUnused { !$0.hasPrefix(SeedFolder.servingPrefix) && !roots.contains($0) }
        if ledger != written { try LedgerFile.write(ledger, to: root) }
        try PreviousVersionFile.write(ledger.previous, clients: clients, staging: staging)
    }

    /// A ledger that cannot be read must not brick the device: what it said about clients stands in the receipts too.
    private func readLedger() throws -> Ledger? {
        do {
            return try LedgerFile.read(root)
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            warn("\(failure.message) Kept as \(StoreLayout.ledger).damaged; blocks recorded in it are lost.")
            let aside = StoreLayout.ledger + ".damaged"
            try root.removeTree(aside)
            try root.rename(StoreLayout.ledger, to: aside)
            return nil
        }
    }

    private func dropEntriesWithoutFolder(_ ledger: inout Ledger) throws {
        for entry in ledger.entries {
            if case .directory? = try clients.kind(of: entry.version.folderName) { continue }
            warn("\(entry.version.folderName) is in the ledger but not in the store; it is forgotten.")
            ledger.forget(entry.version)
        }
    }

    /// A folder that no entry vouches for is a client only if every byte of it agrees with its receipt.
    private func adoptOrRemoveFolders(_ ledger: inout Ledger) throws {
        for name in try clients.list() where name != StoreLayout.previousVersion {
            let version = try? SemanticVersion(parsingFolderName: name)
            if let version, ledger.entry(version) != nil { continue }
            if let version, let entry = try InstalledTree.entry(vouchedBy: receipts, for: version, in: clients) {
                ledger.record(entry)
                warn("\(name) was complete but not in the ledger; it is known again.")
            } else {
                warn("\(name) is not a client that a receipt vouches for; it is removed.")
                try clients.move(name, to: staging, as: randomName(StoreLayout.trashPrefix))
            }
        }
    }

    private func removeReceiptsWithoutEntry(_ ledger: Ledger) throws {
        for name in try receipts.list() {
            if let version = StoreLayout.version(ofReceipt: name), ledger.entry(version) != nil { continue }
            try receipts.removeTree(name)
        }
    }
}
