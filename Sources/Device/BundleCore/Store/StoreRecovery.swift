import BundleDisk
import BundleSigning
import BundleValues

/// Makes a store agree with its ledger after an interrupted run. Idempotent; requires the lock.
///
/// Files that cannot be removed, because they belong to another user, are immutable, unreadable or a mount point,
/// stay and are reported once. Only the ledger must be writable.
struct StoreRecovery {
    let folders: StoreFolders
    let serving: ServingFolder
    private let environment: Environment

    /// Adopted clients get the present as their time of installation.
    init(_ folders: StoreFolders, environment: Environment) {
        self.environment = environment
        self.folders = folders
        serving = ServingFolder(folders.serving)
    }

    func run() throws { try LedgerKeeper(root: folders.root).exclusively(repair) }

    private func repair(_ access: LedgerAccess) throws {
        var left = Leftovers()
        for name in [StoreLayout.ledger, StoreLayout.ledgerBefore, StoreLayout.session] {
            left.attempt { try folders.root.removeTree(name + StoreLayout.asideSuffix) }
        }
        var repairs = Repairs(of: try readLedger(access), in: try StoredTrees.read(folders.root))
        dropEntriesWithoutFolder(&repairs, leftovers: &left)
        adoptOrRemoveFolders(&repairs, leftovers: &left)
        clearAttempts(&left)
        for version in repairs.ledger.mentioned where repairs.ledger.entry(version) == nil {
            repairs.add(.lost(version))
        }
        removeReceiptsWithoutEntry(in: repairs.ledger, leftovers: &left)
        let roots = Set(repairs.ledger.entries.map(\.identity.servingName))
        left.attempt { try serving.removeUnused { !$0.hasPrefix(SeedFolder.servingPrefix) && !roots.contains($0) } }
        left.attempt { try serving.clearRemoved() }
        try access.write(repairs.changes)
        left.attempt {
            try PreviousVersionFile.write(repairs.ledger.previous, clients: folders.clients, staging: folders.staging)
        }
        left.report(to: environment.log)
    }

    /// The failures of a recovery.
    private struct Leftovers {
        private var first: (any Error)?
        private var count = 0

        /// Returns the result of `body`; nil if it throws.
        @discardableResult
        mutating func attempt<Value>(_ body: () throws -> Value) -> Value? {
            do {
                return try body()
            } catch {
                if first == nil { first = error }
                count += 1
                return nil
            }
        }

        func report(to log: (String) -> Void) {
            guard let first else { return }
            let others = count > 1 ? " (and \(count - 1) more)" : ""
            log(
                "The store could not be cleaned up: \(UpdateFailure(first).message)\(others) The rest stays as it is, and the next "
                    + "run tries again.")
        }
    }

    private func clearAttempts(_ left: inout Leftovers) {
        let attempts = InterruptedAttempt(staging: folders.staging, downloads: folders.downloads)
        let names = left.attempt { try folders.staging.list() } ?? []
        for name in names where left.attempt({ try attempts.isPlacedPush(name) }) == true {
            left.attempt { try attempts.removeOthers(than: name) }
        }
        for name in names { left.attempt { try attempts.keep(name) } }
        for name in left.attempt({ try folders.downloads.list() }) ?? [] where name != StoreLayout.interrupted {
            left.attempt {
                if case .file? = try folders.downloads.kind(of: name) { return }
                try folders.downloads.removeTree(name)
            }
        }
    }

    /// The changes that make the ledger agree with the disk, and the resulting ledger.
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

    /// An unreadable ledger must not make the device unusable: the receipts describe the clients too.
    private func readLedger(_ access: LedgerAccess) throws -> Ledger {
        do {
            let generations = try LedgerFile.generations(folders.root)
            if let damage = generations.damage {
                let kept = try keepDamaged() ? " The damaged one is kept as \(StoreLayout.ledger).damaged." : ""
                environment.log("\(damage.message)\(kept)")
                if let ledger = generations.ledger { try access.restore(ledger) }
            }
            return generations.ledger ?? Ledger()
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            let hasNewest = try folders.root.kind(of: StoreLayout.ledger) != nil
            // The newest ledger is kept, wherever this is interrupted.
            if hasNewest { try folders.root.removeTree(StoreLayout.ledgerBefore) }
            let isKept = try setAside(hasNewest ? StoreLayout.ledger : StoreLayout.ledgerBefore)
            let kept = isKept ? " It is kept as \(StoreLayout.ledger).damaged." : ""
            environment.log("\(failure.message) Blocks recorded in it are lost.\(kept)")
            return Ledger()
        }
    }

    /// Links the damaged ledger to a second name. Its first name must stay, since an interruption without it would
    /// lose the store's state. Returns false if nothing is kept.
    private func keepDamaged() throws -> Bool {
        guard case .file? = try folders.root.kind(of: StoreLayout.ledger) else {
            return try setAside(StoreLayout.ledger)
        }
        let aside = StoreLayout.ledger + StoreLayout.damagedSuffix
        try folders.root.removeTree(aside)
        do {
            try folders.root.link(StoreLayout.ledger, to: folders.root, as: aside)
            return true
        } catch {
            guard error.kind == .permission else { throw error }
            // The file can be neither linked nor read, so nothing is kept.
            return false
        }
    }

    /// Frees the `name` of a ledger. An entry that is neither a file nor a folder has no content, and Landlock does
    /// not allow a rename. Returns false if nothing is kept.
    private func setAside(_ name: String) throws -> Bool {
        let aside = StoreLayout.ledger + StoreLayout.damagedSuffix
        switch try folders.root.kind(of: name) {
        case nil: return false
        case .file, .directory:
            try folders.root.removeTree(aside)
            try folders.root.rename(name, to: aside)
            return true
        default:
            try folders.root.removeFile(name)
            return false
        }
    }

    private func dropEntriesWithoutFolder(_ repairs: inout Repairs, leftovers left: inout Leftovers) {
        for entry in repairs.ledger.entries {
            let kind = left.attempt { try folders.trees(of: entry.version).kind(of: entry.version.folderName) }
            // A folder that cannot be read may exist.
            guard let kind else { continue }
            if case .directory? = kind { continue }
            environment.log(
                "\(ClientName.installed(entry.version)) was removed from the ledger: its folder is missing.")
            repairs.add(.lost(entry.version))
        }
    }

    /// Adopts a folder without an entry only if every byte of it agrees with its receipt.
    private func adoptOrRemoveFolders(_ repairs: inout Repairs, leftovers left: inout Leftovers) {
        let attempts = InterruptedAttempt(staging: folders.staging, downloads: folders.downloads)
        let wasInstalling = left.attempt { try folders.staging.list().contains { try attempts.isPlaced($0) } } ?? false
        for source in SourceName.allCases {
            let names = left.attempt { try folders.trees(of: source).list() } ?? []
            for name in names where source != .archive || name != StoreLayout.previousVersion {
                left.attempt { try adoptOrRemove(name, of: source, wasInstalling: wasInstalling, repairs: &repairs) }
            }
        }
    }

    private func adoptOrRemove(
        _ name: String, of source: SourceName, wasInstalling: Bool, repairs: inout Repairs
    ) throws {
        let trees = folders.trees(of: source)
        let version = StoreLayout.version(ofTree: name, of: source)
        if let version, repairs.ledger.entry(version) != nil { return }
        let entry = try version.flatMap {
            try InstalledTree.entry(matching: folders.receipts, for: $0, in: trees, at: environment.now())
        }
        if let entry, repairs.ledger.fitsSeed(entry.identity) {
            repairs.add(.adopted(entry, isNewest: wasInstalling))
            return environment.log(
                "recovered \(ClientName.installed(entry.version)): it was complete but missing from the ledger.")
        }
        try trees.move(name, to: folders.staging, as: randomName(StoreLayout.trashPrefix))
        environment.log(
            "\(StoreLayout.trees(of: source))/\(name) was removed: "
                + (entry == nil
                    ? "the ledger has no client of this name, perhaps because its removal was interrupted."
                    : "it was downloaded for another seed."))
    }

    private func removeReceiptsWithoutEntry(in ledger: Ledger, leftovers left: inout Leftovers) {
        for name in left.attempt({ try folders.receipts.list() }) ?? [] {
            if let version = StoreLayout.version(ofReceipt: name), ledger.entry(version) != nil { continue }
            left.attempt { try folders.receipts.removeTree(name) }
        }
    }
}

/// Removes an installed client from a locked store: first its entry, then its names, each by one rename, then its
/// files.
struct ClientRemoval {
    private let folders: StoreFolders
    private let keeper: LedgerKeeper
    private let serving: ServingFolder

    init(_ folders: StoreFolders) {
        self.folders = folders
        keeper = LedgerKeeper(root: folders.root)
        serving = ServingFolder(folders.serving)
    }

    /// Removes the client of `entry`, unless a server shows it or `change`, which removes its entry, is refused.
    func remove(_ entry: Ledger.Entry, because change: LedgerChange) throws {
        let name = entry.identity.servingName
        guard let claim = try serving.claim(name) else { return }
        defer { withExtendedLifetime(claim) {} }
        guard case .written = try keeper.propose([change]) else { return }
        let steps: [() throws -> Void] = [{ try serving.remove(name) }, { try removeTree(of: entry.version) }]
        try steps.attemptEach { try $0() }
    }

    private func removeTree(of version: ClientVersion) throws {
        let trash = randomName(StoreLayout.trashPrefix)
        // Recovery does not adopt a folder without a receipt, so an interruption from here on does not restore the
        // client.
        try folders.receipts.removeFile(StoreLayout.receipt(version))
        do {
            try folders.trees(of: version).move(version.folderName, to: folders.staging, as: trash)
            try folders.trees(of: version).sync()
            try folders.staging.removeTree(trash)
        } catch {
            guard error.kind == .crossesDevice else { throw error }
            // A folder from a lower layer of an overlay cannot be renamed. Its entry is gone already.
            try folders.trees(of: version).removeTree(version.folderName)
        }
    }
}
