import BundleDisk
import BundleSigning
package import BundleValues
import CLibrary

/// The owner of a store's folders while it holds the lock. All changes follow the protocol of SECURITY: build the new
/// files aside, sync, rename, sync the folder, then write the ledger. An interruption at any point leaves the old
/// state or the new one.
package actor BundleStore {
    private let folders: StoreFolders
    private let serving: ServingFolder
    private let removal: ClientRemoval
    private let lock: FileLock
    private let keeper: LedgerKeeper
    private let environment: Environment

    private init(_ folders: StoreFolders, lock: FileLock, environment: Environment) {
        serving = ServingFolder(folders.serving)
        removal = ClientRemoval(folders)
        keeper = LedgerKeeper(root: folders.root)
        self.folders = folders
        self.lock = lock
        self.environment = environment
    }

    /// Opens the store at `path`, creates it (mode 0700) if it is missing, takes its lock, and cleans up after an
    /// interrupted run.
    ///
    /// Throws `storeLocked` if another process works on the store, and `permissionDenied` if other users may write to
    /// it. Recovered clients get the present as their time of installation; the log receives a message for each repair.
    package static func open(at path: String, environment: Environment) throws -> BundleStore {
        let root = try StoreFolders.openRoot(path)
        guard let lock = try FileLock.take(StoreLayout.lock, in: root) else {
            throw UpdateFailure(
                .storeLocked, subject: path, "Another clientctl works on the store \(path). Wait until it is finished.")
        }
        let folders = try StoreFolders(below: root)
        try StoreRecovery(folders, environment: environment).run()
        return BundleStore(folders, lock: lock, environment: environment)
    }

    /// Opens the store as `open(at:environment:)` does, and waits up to three seconds while another process works on it. The
    /// process that shows a client removes old clients after a start, which takes moments.
    package static func openWaiting(at path: String, environment: Environment) async throws -> BundleStore {
        for _ in 0..<150 {
            do {
                return try open(at: path, environment: environment)
            } catch let failure as UpdateFailure where failure.code == .storeLocked {
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        return try open(at: path, environment: environment)
    }

    /// Returns a snapshot of the store.
    package func inventory() throws -> Inventory { try Inventory.read(folders.root, ledger: try keeper.read()) }

    /// Throws `appMismatch` if the store is bound to another application than `appId`.
    package func requireBound(to appId: String?) throws {
        guard let appId else { return }
        let inventory = try inventory()
        let outcome = inventory.ledger.applying([.bound(appId: appId)], in: inventory.trees)
        if case .refused(let refusal) = outcome { throw refusal.failure }
    }

    // MARK: Installing

    /// Opens a private folder for an attempt that needs `footprint`. Throws `diskFull` before it writes anything.
    package func openStaging(for footprint: Footprint) throws -> StagingArea {
        let space = try folders.root.freeSpace()
        let inventory = try inventory()
        let largest = inventory.bundles.map(\.entry.installedSize).max() ?? 0
        let most = inventory.bundles.map(\.entry.fileCount).max() ?? 0
        var downloaded = 0
        for name in try folders.downloads.list() {
            if case .file(let size)? = try folders.downloads.kind(of: name) { downloaded += size }
        }
        try StagingArea.requireRoom(
            for: footprint, folders.root, reusableBytes: largest, reusableFiles: most, downloadedBytes: downloaded)
        let name = randomName(StoreLayout.attemptPrefix)
        try folders.staging.makeDirectory(name, mode: 0o700)
        let folder = try folders.staging.directory(name)
        return StagingArea(
            folder: folder, name: name, tree: try folder.directory(creating: StoreLayout.stagedTree),
            downloads: folders.downloads, inventory: inventory, reserveBytes: DiskRule.reserveBytes(space),
            hasSeedRoot: try folders.serving.list().contains {
                $0.hasPrefix(SeedFolder.servingPrefix)
            })
    }

    /// Returns the content of the installed clients that an attempt may link.
    package func reuseIndex() throws -> ReuseIndex { ReuseIndex(try inventory().bundles, in: folders.root) }

    /// Removes the area of a failed attempt. Keeps its journaled downloads for the next attempt, unless
    /// `keepingDownloads` is false, as on a full disk. The next run removes the files that this one cannot.
    package func discard(_ area: StagingArea, keepingDownloads: Bool = true) {
        if keepingDownloads {
            try? InterruptedAttempt(staging: folders.staging, downloads: folders.downloads).keep(area.name)
        } else {
            try? folders.staging.removeTree(area.name)
        }
    }

    /// Moves a staged bundle to its final name and applies `changes`: receipt, sync, rename, ledger.
    ///
    /// On return, the bundle and the changes are durable. If it throws, the store is unchanged. An installed version
    /// gets only the new manifest. Throws `versionExists` if its content differs.
    func install(_ staged: StagedBundle, at time: Timestamp, with changes: [LedgerChange]) throws -> Inventory {
        let version = staged.identity.version
        let entry = Ledger.Entry(
            identity: staged.identity, contentSha256: staged.contentSha256, installedSize: staged.installedSize,
            fileCount: staged.fileCount, installedAt: time, route: staged.route, notes: staged.notes)
        let known = try keeper.read().entry(version)
        let inventory: Inventory
        do {
            try StoreKind.settle(staged.kind, in: folders.root)
            if let known { try renew(known, by: staged) } else { try place(staged) }
            inventory = try keeper.apply([.installed(entry)] + changes).after
        } catch {
            if known == nil { undoPlace(version) }
            discard(staged.area)
            throw error
        }
        // An area that cannot be removed makes the next run finish the installation, so it is removed last.
        do {
            try keeper.publishPrevious(clients: folders.clients, staging: folders.staging)
            if version.source == .meteor {
                try InterruptedAttempt(staging: folders.staging, downloads: folders.downloads).removeOthers(
                    than: staged.area.name)
            }
            try folders.staging.removeTree(staged.area.name)
        } catch {
            environment.log(
                "\(UpdateFailure(error).message) \(ClientName.installed(version)) is installed; the next run cleans up."
            )
        }
        return inventory
    }

    /// Moves a staged tree and its receipt to their final names.
    private func place(_ staged: StagedBundle) throws {
        let version = staged.identity.version
        // A serving root of an earlier client with this version would be used for this one.
        try serving.remove(staged.identity.servingName)
        let receipt = StoreLayout.receipt(version)
        try folders.receipts.removeFile(receipt)
        try staged.area.folder.move(StoreLayout.stagedReceipt, to: folders.receipts, as: receipt)
        // Nothing gets its final name before all its bytes are on the disk.
        try staged.area.tree.syncFileSystem()
        let trees = folders.trees(of: version)
        try staged.area.folder.move(StoreLayout.stagedTree, to: trees, as: version.folderName)
        try trees.sync()
        try folders.receipts.sync()
    }

    /// Replaces the receipt of an installed client that was unusable until its new manifest.
    private func renew(_ known: Ledger.Entry, by staged: StagedBundle) throws {
        let version = known.version
        guard known.contentSha256 == staged.contentSha256 else {
            throw UpdateFailure(
                .versionExists, subject: version.description,
                "Version \(version) is installed with other content. Publish the change under a new version.")
        }
        try staged.area.folder.rename(StoreLayout.stagedReceipt, to: folders.receipts, as: StoreLayout.receipt(version))
        try folders.receipts.sync()
    }

    /// Undoes `place` as far as possible. Without its receipt, recovery does not adopt the folder, so the receipt
    /// goes first.
    private func undoPlace(_ version: ClientVersion) {
        try? folders.receipts.removeFile(StoreLayout.receipt(version))
        let trash = randomName(StoreLayout.trashPrefix)
        try? folders.trees(of: version).move(version.folderName, to: folders.staging, as: trash)
        try? folders.staging.removeTree(trash)
    }

    /// Applies all of `changes` to the ledger, or none.
    func apply(_ changes: [LedgerChange]) throws -> Inventory {
        let inventory = try keeper.apply(changes).after
        keeper.updatePrevious(in: folders, environment: environment)
        return inventory
    }

    /// Returns the folder for the copies of a repair.
    func repairFolder() throws -> RepairFolder { try RepairFolder(folders) }

    // MARK: Removing

    /// Removes all but `keep` clients, and returns which stayed and which were removed.
    ///
    /// A client that a server shows stays, as does one that has got a role since the plan was made.
    package func retain(keeping keep: Int) throws -> RetentionPlan {
        let plan = RetentionRule.plan(try inventory(), keep: keep)
        for name in plan.removed {
            guard let version = name.version, let entry = try keeper.read().entry(version) else { continue }
            do {
                try removal.remove(entry, because: .removed(version))
            } catch {
                environment.log("\(UpdateFailure(error).message) Files of \(name) stay until the next run.")
            }
        }
        let left = try inventory().bundles.map(\.name)
        return RetentionPlan(
            retained: left, removed: plan.removed.filter { !left.contains($0) },
            shown: plan.removed.filter(left.contains))
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

    /// Opens the folders below `root`, and creates those that are missing.
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

    /// Returns the folder with the tree of `version`.
    func trees(of version: ClientVersion) -> Directory { trees(of: version.source) }

    /// Returns the folder with the trees of `source`.
    func trees(of source: SourceName) -> Directory {
        switch source {
        case .archive: clients
        case .meteor: meteor
        }
    }

    /// Opens the store's folder. Creates it and the missing folders above it.
    static func openRoot(_ path: String) throws -> Directory {
        try Directory.createAll(path, mode: 0o700)
        let root = try Directory.open(path)
        try requireOwn(root)
        try requirePrivate(root)
        try StoreMark.require(in: root)
        return root
    }

    /// Files that root creates in another user's store would not belong to that user, who could neither change nor
    /// remove them.
    private static func requireOwn(_ root: Directory) throws {
        if try geteuid() != 0 || root.permissions().owner == 0 { return }
        throw UpdateFailure(
            .permissionDenied, subject: root.path,
            "The store \(root.path) belongs to another user. Run this command as its owner, with `sudo -u`.")
    }

    /// Throws if every user may write to `folder`: a user who can write a client and its receipt can plant a client.
    private static func requirePrivate(_ folder: Directory) throws {
        if try folder.permissions().mode & 0o002 == 0 { return }
        throw UpdateFailure(
            .permissionDenied, subject: folder.path,
            "Every user may write to \(folder.path). Run `chmod o-w` on it, and check its contents.")
    }
}
