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

    private let warn: @Sendable (String) -> Void

    private init(
        _ folders: StoreFolders, lock: FileLock, ledger: Ledger, warn: @escaping @Sendable (String) -> Void
    ) {
        self.warn = warn
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
    public static func open(at path: String, warn: @escaping @Sendable (String) -> Void) throws -> BundleStore {
        let root = try StoreFolders.openRoot(path)
        guard let lock = try FileLock.take(StoreLayout.lock, in: root) else {
            throw UpdateFailure(
                .storeLocked, subject: path, "Another clientctl works on the store \(path): wait for it to finish.")
        }
        let folders = try StoreFolders(below: root)
        let recovery = StoreRecovery(folders, warn: warn)
        return BundleStore(folders, lock: lock, ledger: try recovery.run(), warn: warn)
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

    /// Publishes a staged bundle under its final name, makes it known, and selects what `rule` chooses from the picture
    /// with it: receipt, barrier, rename, ledger.
    ///
    /// When it returns, the bundle and the selection survive a power cut. The area stays, as the mark of a run that did
    /// not end, until the caller is done with retention and discards it.
    public func install(
        _ staged: StagedBundle, appId: String?, selecting rule: (Inventory) -> ClientName
    ) throws -> Installation {
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
            next.select(rule(try Inventory.read(root, ledger: next)))
            try replaceLedger(next)
        } catch {
            // Without its entry the folder is nobody's; take it back so that the store is what it was.
            try? clients.move(folder, to: staging, as: randomName(StoreLayout.trashPrefix))
            try? receipts.removeFile(receipt)
            throw error
        }
        do {
            try PreviousVersionFile.write(ledger.previous, clients: clients, staging: staging)
        } catch {
            // The installation stands; what is left in staging makes the next start write the line.
            warn("\(error); the next start repairs it.")
        }
        return Installation(
            bundle: InstalledBundle(entry: entry, path: "\(clients.path)/\(folder)"), current: ledger.current,
            previous: ledger.previous)
    }

    /// Makes the client that `rule` chooses from the present picture the current one, where it is not.
    public func select(_ rule: (Inventory) -> ClientName) throws {
        var next = ledger
        next.select(rule(try inventory()))
        if next == ledger { return }
        try replaceLedger(next)
        try PreviousVersionFile.write(ledger.previous, clients: clients, staging: staging)
    }

    /// What an installation changed.
    public struct Installation: Sendable {
        /// The client that was installed.
        public let bundle: InstalledBundle
        /// The client that runs now.
        public let current: ClientName
        /// The client that ran before.
        public let previous: ClientName?
    }

    // MARK: Removing

    /// Removes what `plan` gives up: the ledger forgets first, then the name goes in one rename, then the files.
    ///
    /// A stop in between leaves something in staging, or a folder that no entry vouches for; both go at the next start.
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
