import BundleDisk
import BundleSigning
import BundleValues

/// Brings a store back to what its ledger says, after a run that was stopped anywhere. Idempotent; runs under the lock.
struct StoreRecovery {
    let root: Directory
    let folders: StoreFolders
    let clients: Directory
    let receipts: Directory
    let staging: Directory
    let downloads: Directory
    let serving: ServingFolder
    private let time: Timestamp
    let warn: (String) -> Void

    /// What is adopted at `time` counts as installed then.
    init(_ folders: StoreFolders, at time: Timestamp, warn: @escaping (String) -> Void) {
        self.time = time
        root = folders.root
        self.folders = folders
        clients = folders.clients
        receipts = folders.receipts
        staging = folders.staging
        downloads = folders.downloads
        serving = ServingFolder(folders.serving)
        self.warn = warn
    }

    func run() throws { try LedgerKeeper(root: root).exclusively(repair) }

    private func repair(_ door: LedgerDoor) throws {
        for name in [StoreLayout.ledger, StoreLayout.session] { try root.removeTree(name + StoreLayout.asideSuffix) }
        var repairs = Repairs(of: try readLedger(door), in: try StoredTrees.read(root))
        try dropEntriesWithoutFolder(&repairs)
        try adoptOrRemoveFolders(&repairs)
        let attempts = InterruptedAttempt(staging: staging, downloads: downloads)
        let left = try staging.list()
        // What an earlier attempt had downloaded was used by the one that came to its end.
        if try left.contains(where: attempts.isPlacedPush) { try downloads.removeTree(StoreLayout.interrupted) }
        for name in left { try attempts.keep(name) }
        for name in try downloads.list() where name != StoreLayout.interrupted {
            if case .file? = try downloads.kind(of: name) { continue }
            try downloads.removeTree(name)
        }
        for version in repairs.ledger.mentioned where repairs.ledger.entry(version) == nil {
            repairs.add(.lost(version))
        }
        try removeReceiptsWithoutEntry(repairs.ledger)
        let roots = Set(repairs.ledger.entries.map(\.identity.servingName))
        try serving.removeUnused { !$0.hasPrefix(SeedFolder.servingPrefix) && !roots.contains($0) }
        try serving.clearRemoved()
        try door.write(repairs.changes)
        try PreviousVersionFile.write(repairs.ledger.previous, clients: clients, staging: staging)
    }

    /// The changes that bring the ledger up to the disk, and the ledger after them.
    private struct Repairs {
        private(set) var ledger: Ledger
        private(set) var changes: [LedgerChange] = []
        private let trees: StoredTrees

        init(of ledger: Ledger, in trees: StoredTrees) {
            self.ledger = ledger
            self.trees = trees
        }

        mutating func add(_ change: LedgerChange) {
            guard case .accepted(let next) = ledger.applying([change], in: trees) else { return }
            ledger = next
            changes.append(change)
        }
    }

    /// A ledger that cannot be read must not brick the device: what it said about clients stands in the receipts too.
    private func readLedger(_ door: LedgerDoor) throws -> Ledger {
        do {
            return try door.read() ?? Ledger()
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            warn("\(failure.message) Kept as \(StoreLayout.ledger).damaged; blocks recorded in it are lost.")
            let aside = StoreLayout.ledger + StoreLayout.damagedSuffix
            try root.removeTree(aside)
            try root.rename(StoreLayout.ledger, to: aside)
            return Ledger()
        }
    }

    private func dropEntriesWithoutFolder(_ repairs: inout Repairs) throws {
        for entry in repairs.ledger.entries {
            if case .directory? = try folders.trees(of: entry.version).kind(of: entry.version.folderName) { continue }
            warn("\(ClientName.installed(entry.version)) is in the ledger but not in the store; it is forgotten.")
            repairs.add(.lost(entry.version))
        }
    }

    /// A folder that no entry vouches for is a client only if every byte of it agrees with its receipt.
    private func adoptOrRemoveFolders(_ repairs: inout Repairs) throws {
        let attempts = InterruptedAttempt(staging: staging, downloads: downloads)
        let wasInstalling = try staging.list().contains { try attempts.isPlaced($0) }
        for source in SourceName.allCases {
            let trees = folders.trees(of: source)
            for name in try trees.list() where source != .archive || name != StoreLayout.previousVersion {
                let version = StoreLayout.version(ofTree: name, of: source)
                if let version, repairs.ledger.entry(version) != nil { continue }
                if let version,
                    let entry = try InstalledTree.entry(vouchedBy: receipts, for: version, in: trees, at: time),
                    repairs.ledger.fitsSeed(entry.identity)
                {
                    repairs.add(.adopted(entry, isNewest: wasInstalling))
                    warn("\(ClientName.installed(version)) was complete but not in the ledger; it is known again.")
                } else {
                    warn(
                        "\(StoreLayout.trees(of: source))/\(name) is no client of this store, or no longer; it is removed."
                    )
                    try trees.move(name, to: staging, as: randomName(StoreLayout.trashPrefix))
                }
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
