import BundleDisk
import BundleSigning
import Glibc

/// The one owner of a store's folders, for as long as it holds the lock. All changes follow SECURITY's protocol: build
/// aside, sync, rename, sync the folder, then the ledger; a stop at any point leaves the old state or the new one.
public actor BundleStore {
    private let root: Directory
    private let clients: Directory
    private let receipts: Directory
    private let staging: Directory
    private let downloads: Directory
    private let lock: FileLock
    private var ledger: Ledger

    private init(_ folders: StoreFolders, lock: FileLock, ledger: Ledger) {
        root = folders.root
        clients = folders.clients
        receipts = folders.receipts
        staging = folders.staging
        downloads = folders.downloads
        self.lock = lock
        self.ledger = ledger
    }

    /// Opens the store at `path`, creating it (mode 0700) where it is missing, takes its lock and clears what an
    /// interrupted run left.
    ///
    /// Throws `storeLocked` when another process works on it, `permissionDenied` when others may write to it. `warn`
    /// hears about repairs.
    public static func open(at path: String, warn: @escaping (String) -> Void) throws -> BundleStore {
        let root = try StoreFolders.openRoot(path)
        guard let lock = try FileLock.take(StoreLayout.lock, in: root) else {
            throw UpdateFailure(
                .storeLocked, subject: path, "Another clientctl works on the store \(path): wait for it to finish.")
        }
        let folders = try StoreFolders(below: root)
        let recovery = StoreRecovery(folders, warn: warn)
        return BundleStore(folders, lock: lock, ledger: try recovery.run())
    }

    /// One consistent picture.
    public func inventory() throws -> Inventory { try Inventory.read(root, ledger: ledger) }

    /// Binds the store to `appId`, or refuses another one than it is bound to. Returns the device's application.
    public func bound(to appId: String?) throws -> String? {
        guard let bound = ledger.appId else { return appId }
        if let appId, !appId.utf8.elementsEqual(bound.utf8) {
            throw UpdateFailure(
                .appMismatch, subject: appId,
                "The store belongs to \(bound), not to \(appId): check --app-id, or use another store.")
        }
        return bound
    }

    // MARK: Installing

    /// Opens a private area for an attempt that needs `footprint`, or says `diskFull` before anything is written.
    public func openStaging(for footprint: Footprint) throws -> StagingArea {
        let space = try root.freeSpace()
        let inventory = try inventory()
        let largest = inventory.bundles.map(\.entry.installedSize).max() ?? 0
        let most = inventory.bundles.map(\.entry.fileCount).max() ?? 0
        var downloaded = 0
        for name in try downloads.list() {
            if case .file(let size)? = try downloads.kind(of: name) { downloaded += size }
        }
        if let refusal = DiskRule.refusal(
            footprint, space: space, reusableBytes: largest, reusableFiles: most, downloadedBytes: downloaded)
        {
            throw UpdateFailure(
                .diskFull, subject: root.path,
                "Not enough room for the store \(root.path): \(refusal). Free some space, then run it again.")
        }
        let name = randomName(StoreLayout.attemptPrefix)
        try staging.makeDirectory(name, mode: 0o700)
        let folder = try staging.directory(name)
        return StagingArea(
            folder: folder, name: name, tree: try folder.directory(creating: StoreLayout.stagedTree),
            downloads: downloads, reserveBytes: DiskRule.reserveBytes(space))
    }

    /// What the installed clients have, for linking.
    public func reuseIndex() throws -> ReuseIndex { ReuseIndex(try inventory().bundles, in: root) }

    /// Removes an area that did not become a bundle; what cannot be removed is cleared at the next start.
    public func discard(_ area: StagingArea) {
        try? staging.removeTree(area.name)
    }

    /// Publishes a staged bundle under its final name and makes it known: receipt, barrier, rename, ledger.
    ///
    /// When it returns, the bundle survives a power cut. The area stays as the mark of an unfinished run until the
    /// caller, done with selection and retention, discards it.
    public func install(_ staged: StagedBundle, appId: String?) throws -> InstalledBundle {
        let version = staged.identity.version
        let receipt = StoreLayout.receipt(version)
        let folder = version.folderName
        try receipts.removeFile(receipt)
        try staged.area.folder.move(StoreLayout.stagedReceipt, to: receipts, as: receipt)
        do {
            // The barrier: nothing gets its final name before every byte of it is on the disk.
            try staged.area.tree.syncFileSystem()
            try staged.area.folder.move(StoreLayout.stagedTree, to: clients, as: folder)
        } catch {
            try? receipts.removeFile(receipt)
            throw error
        }
        try clients.sync()
        try receipts.sync()
        var next = ledger
        let entry = Ledger.Entry(
            identity: staged.identity, contentSha256: staged.contentSha256, installedSize: staged.installedSize,
            fileCount: staged.fileCount, installedAt: Timestamp(clamping: time(nil)))
        next.record(entry)
        if let appId { next.bind(appId: appId) }
        do {
            try replaceLedger(next)
        } catch {
            // Without its entry the folder is nobody's; take it back so that the store is what it was.
            try? clients.move(folder, to: staging, as: randomName(StoreLayout.trashPrefix))
            try? receipts.removeFile(receipt)
            throw error
        }
        return InstalledBundle(entry: entry, path: "\(clients.path)/\(folder)")
    }

    /// Makes the client that `rule` chooses from the present picture the current one. Returns it and the one before.
    public func select(_ rule: (Inventory) -> ClientName) throws -> (current: ClientName, previous: ClientName?) {
        var next = ledger
        next.select(rule(try inventory()))
        if next != ledger {
            try replaceLedger(next)
            try PreviousVersionFile.write(ledger.previous, clients: clients, staging: staging)
        }
        return (ledger.current, ledger.previous)
    }

    // MARK: Removing

    /// Removes what `plan` gives up: the ledger forgets first, then the name goes in one rename, then the files.
    public func retain(_ plan: RetentionPlan) throws {
        for version in plan.removed {
            var next = ledger
            next.forget(version)
            try replaceLedger(next)
            try remove(version)
        }
    }

    private func remove(_ version: SemanticVersion) throws {
        let trash = randomName(StoreLayout.trashPrefix)
        do {
            try clients.move(version.folderName, to: staging, as: trash)
            try clients.sync()
            try staging.removeTree(trash)
        } catch  where error.kind == .crossesDevice {
            // A folder from a lower layer of an overlay cannot be renamed; the ledger has forgotten it already.
            try clients.removeTree(version.folderName)
        }
        try receipts.removeFile(StoreLayout.receipt(version))
    }

    private func replaceLedger(_ next: Ledger) throws {
        try LedgerFile.write(next, to: root)
        ledger = next
    }
}
