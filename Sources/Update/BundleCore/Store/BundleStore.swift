import BundleDisk
import BundleSigning
package import BundleValues
import Glibc

/// The one owner of a store's folders, for as long as it holds the lock. All changes follow SECURITY's protocol: build
/// aside, sync, rename, sync the folder, then the ledger; a stop at any point leaves the old state or the new one.
package actor BundleStore {
    private let root: Directory
    private let folders: StoreFolders
    private let clients: Directory
    private let receipts: Directory
    private let staging: Directory
    private let downloads: Directory
    private let serving: ServingFolder
    private let removal: ClientRemoval
    private let lock: FileLock
    private let keeper: LedgerKeeper
    private let warn: @Sendable (String) -> Void

    private init(_ folders: StoreFolders, lock: FileLock, warn: @escaping @Sendable (String) -> Void) {
        root = folders.root
        serving = ServingFolder(folders.serving)
        removal = ClientRemoval(folders)
        keeper = LedgerKeeper(root: folders.root)
        self.folders = folders
        clients = folders.clients
        receipts = folders.receipts
        staging = folders.staging
        downloads = folders.downloads
        self.lock = lock
        self.warn = warn
    }

    /// Opens the store at `path`, creating it (mode 0700) where it is missing, takes its lock and clears what an
    /// interrupted run left.
    ///
    /// Throws `storeLocked` when another process works on it, `permissionDenied` when others may write to it. What is found
    /// again counts as installed at `time`; `warn` hears about repairs.
    package static func open(
        at path: String, time: Timestamp, warn: @escaping @Sendable (String) -> Void
    ) throws -> BundleStore {
        let root = try StoreFolders.openRoot(path)
        guard let lock = try FileLock.take(StoreLayout.lock, in: root) else {
            throw UpdateFailure(
                .storeLocked, subject: path, "Another clientctl works on the store \(path): wait for it to finish.")
        }
        let folders = try StoreFolders(below: root)
        try StoreRecovery(folders, at: time, warn: warn).run()
        return BundleStore(folders, lock: lock, warn: warn)
    }

    /// One consistent picture.
    package func inventory() throws -> Inventory { try Inventory.read(root, ledger: try keeper.read()) }

    /// Refuses another application than the one that the store is bound to.
    package func requireBound(to appId: String?) throws {
        guard let appId else { return }
        let inventory = try inventory()
        let outcome = inventory.ledger.applying([.bound(appId: appId)], in: inventory.trees)
        if case .refused(let refusal) = outcome { throw refusal.failure }
    }

    // MARK: Installing

    /// Opens a private area for an attempt that needs `footprint`, or says `diskFull` before anything is written.
    package func openStaging(for footprint: Footprint) throws -> StagingArea {
        let space = try root.freeSpace()
        let inventory = try inventory()
        let largest = inventory.bundles.map(\.entry.installedSize).max() ?? 0
        let most = inventory.bundles.map(\.entry.fileCount).max() ?? 0
        var downloaded = 0
        for name in try downloads.list() {
            if case .file(let size)? = try downloads.kind(of: name) { downloaded += size }
        }
        try StagingArea.requireRoom(
            for: footprint, root, reusableBytes: largest, reusableFiles: most, downloadedBytes: downloaded)
        let name = randomName(StoreLayout.attemptPrefix)
        try staging.makeDirectory(name, mode: 0o700)
        let folder = try staging.directory(name)
        return StagingArea(
            folder: folder, name: name, tree: try folder.directory(creating: StoreLayout.stagedTree),
            downloads: downloads, inventory: inventory, reserveBytes: DiskRule.reserveBytes(space),
            hasSeedRoot: try root.directory(StoreLayout.serving).list().contains {
                $0.hasPrefix(SeedFolder.servingPrefix)
            })
    }

    /// What the installed clients have, for linking.
    package func reuseIndex() throws -> ReuseIndex { ReuseIndex(try inventory().bundles, in: root) }

    /// Takes away an area that did not become a bundle; what it downloaded under a journal is kept for the next attempt, unless
    /// that is what fills the disk. What cannot be removed is cleared at the next start.
    package func discard(_ area: StagingArea, keepingDownloads: Bool = true) {
        if keepingDownloads {
            try? InterruptedAttempt(staging: staging, downloads: downloads).keep(area.name)
        } else {
            try? staging.removeTree(area.name)
        }
    }

    /// Publishes a staged bundle under its final name and makes it known, together with `changes`: receipt, barrier, rename,
    /// ledger.
    ///
    /// When it returns, the bundle and the changes survive a power cut; when it throws, the store is what it was. A
    /// version that is installed already is only known by its new manifest; with other content it is `versionExists`.
    func install(_ staged: StagedBundle, at time: Timestamp, with changes: [LedgerChange]) throws -> Inventory {
        let version = staged.identity.version
        let entry = Ledger.Entry(
            identity: staged.identity, contentSha256: staged.contentSha256, installedSize: staged.installedSize,
            fileCount: staged.fileCount, installedAt: time, route: staged.route)
        let known = try keeper.read().entry(version)
        let inventory: Inventory
        do {
            if let known { try renew(known, by: staged) } else { try place(staged) }
            inventory = try keeper.apply([.installed(entry)] + changes).after
        } catch {
            if known == nil { takeBack(version) }
            discard(staged.area)
            throw error
        }
        // Done. An area that stays behind tells the next run to finish this, so it goes last.
        do {
            try keeper.publishPrevious(clients: clients, staging: staging)
            if version.source == .meteor {
                try InterruptedAttempt(staging: staging, downloads: downloads).removeOthers(than: staged.area.name)
            }
            try staging.removeTree(staged.area.name)
        } catch {
            warn(
                "\(UpdateFailure(error).message) \(ClientName.installed(version)) is installed all the same; the next run clears up."
            )
        }
        return inventory
    }

    /// Gives a staged tree and its receipt their final names.
    private func place(_ staged: StagedBundle) throws {
        let version = staged.identity.version
        // What an earlier client of that version left there would be taken for this one.
        try serving.remove(staged.identity.servingName)
        let receipt = StoreLayout.receipt(version)
        try receipts.removeFile(receipt)
        try staged.area.folder.move(StoreLayout.stagedReceipt, to: receipts, as: receipt)
        // The barrier: nothing gets its final name before every byte of it is on the disk.
        try staged.area.tree.syncFileSystem()
        let trees = folders.trees(of: version)
        try staged.area.folder.move(StoreLayout.stagedTree, to: trees, as: version.folderName)
        try trees.sync()
        try receipts.sync()
    }

    /// Gives an installed client, unusable so far, the receipt of the manifest that made it usable.
    private func renew(_ known: Ledger.Entry, by staged: StagedBundle) throws {
        let version = known.version
        guard known.contentSha256 == staged.contentSha256 else {
            throw UpdateFailure(
                .versionExists, subject: version.description,
                "Version \(version) is installed with other content: publish the change under a version of its own.")
        }
        try staged.area.folder.rename(StoreLayout.stagedReceipt, to: receipts, as: StoreLayout.receipt(version))
        try receipts.sync()
    }

    /// Undoes `place` as far as the disk lets it. The receipt goes first: without it, recovery does not adopt the folder.
    private func takeBack(_ version: ClientVersion) {
        try? receipts.removeFile(StoreLayout.receipt(version))
        let trash = randomName(StoreLayout.trashPrefix)
        try? folders.trees(of: version).move(version.folderName, to: staging, as: trash)
        try? staging.removeTree(trash)
    }

    /// Applies `changes` to the ledger, all of them or none.
    func apply(_ changes: [LedgerChange]) throws -> Inventory {
        let inventory = try keeper.apply(changes).after
        do {
            try keeper.publishPrevious(clients: clients, staging: staging)
        } catch {
            warn(Self.delayed(error))
        }
        return inventory
    }

    /// What is said where the ledger is written and `clients/previousVersion` is not. The ledger counts, as long as the disk
    /// gives it back.
    static func delayed(_ error: any Error) -> String {
        let failure = UpdateFailure(error)
        if failure.code == .storeDamaged {
            return
                "\(failure.message) It was written just now. If the disk does not give it back later either, the one before "
                + "it counts: do this again then."
        }
        return "\(failure.message) clients/previousVersion is brought up to date by the next run."
    }

    /// Where copies wait for their places, for as long as this store is held.
    func repairBench() throws -> RepairBench { try RepairBench(folders) }

    // MARK: Removing

    /// Removes all but `keep` clients; returns what stayed and what went.
    ///
    /// What a running server shows stays, and so does what has meanwhile got a role.
    package func retain(keeping keep: Int) throws -> RetentionPlan {
        let plan = RetentionRule.plan(try inventory(), keep: keep)
        for name in plan.removed {
            guard let version = name.version, let entry = try keeper.read().entry(version) else { continue }
            try removal.remove(entry, because: .removed(version))
        }
        let left = try inventory().bundles.map(\.name)
        return RetentionPlan(retained: left, removed: plan.removed.filter { !left.contains($0) })
    }
}

/// The open folders of one store.
struct StoreFolders {
    let root: Directory
    let clients: Directory
    let meteor: Directory
    let receipts: Directory
    let staging: Directory
    let downloads: Directory
    let serving: Directory

    /// Opens the folders below `root`, creating those that are missing.
    init(below root: Directory) throws {
        self.root = root
        let isNew = try root.kind(of: StoreLayout.clients) == nil
        clients = try root.directory(creating: StoreLayout.clients)
        meteor = try root.directory(creating: StoreLayout.meteor)
        receipts = try root.directory(creating: StoreLayout.receipts)
        staging = try root.directory(creating: StoreLayout.staging, mode: 0o700)
        downloads = try root.directory(creating: StoreLayout.downloads, mode: 0o700)
        serving = try root.directory(creating: StoreLayout.serving)
        for folder in [clients, meteor, receipts, staging, downloads, serving] { try Self.requirePrivate(folder) }
        if isNew { try root.sync() }
    }

    /// The folder that holds the tree of `version`.
    func trees(of version: ClientVersion) -> Directory { trees(of: version.source) }

    /// The folder that holds the trees of `source`.
    func trees(of source: SourceName) -> Directory {
        switch source {
        case .archive: clients
        case .meteor: meteor
        }
    }

    /// Opens the store's own folder, creating it and what is missing above it.
    static func openRoot(_ path: String) throws -> Directory {
        try Directory.createAll(path, mode: 0o700)
        let root = try Directory.open(path)
        try requireOwn(root)
        try requirePrivate(root)
        try StoreMark.require(in: root)
        return root
    }

    /// What the system's administrator makes in another user's store is not that user's, who could neither change nor remove it.
    private static func requireOwn(_ root: Directory) throws {
        if try geteuid() != 0 || root.permissions().owner == 0 { return }
        throw UpdateFailure(
            .permissionDenied, subject: root.path,
            "The store \(root.path) belongs to another user: use it as its owner, with `sudo -u`.")
    }

    /// Refuses a folder that everybody may write to: whoever can write a client and its receipt can plant one.
    private static func requirePrivate(_ folder: Directory) throws {
        if try folder.permissions().mode & 0o002 == 0 { return }
        throw UpdateFailure(
            .permissionDenied, subject: folder.path,
            "Everybody may write to \(folder.path): take that away with `chmod o-w`, and check what is in it.")
    }
}
