package import BundleDisk
package import BundleSigning
package import BundleValues

/// A private folder that the store opened for one attempt; it is removed unless its bundle is installed.
package final class StagingArea: Sendable {
    /// The file in an attempt's folder that makes the store keep the attempt when it fails: what it says is complete is of use
    /// to the next one.
    package static let journalName = "assets.journal"
    /// The name of the tree in an attempt's folder.
    package static let treeName = StoreLayout.stagedTree

    /// Where the client's tree grows.
    package let tree: Directory
    /// Where downloads are kept between runs, so that an interrupted one can go on.
    package let downloads: Directory
    /// The attempt's own folder, which holds the tree, and what a source keeps beside it.
    package let folder: Directory
    let name: String
    /// The store as it was when the area was opened.
    package let inventory: Inventory
    private let reserveBytes: Int
    /// Whether the seed has a serving root in the store.
    private let hasSeedRoot: Bool

    init(
        folder: Directory, name: String, tree: Directory, downloads: Directory, inventory: Inventory,
        reserveBytes: Int, hasSeedRoot: Bool
    ) {
        self.hasSeedRoot = hasSeedRoot
        self.inventory = inventory
        self.folder = folder
        self.name = name
        self.tree = tree
        self.downloads = downloads
        self.reserveBytes = reserveBytes
    }

    /// The folder of the last attempt that kept a journal and did not reach its end; nil where there is none.
    package func interrupted() throws(DiskError) -> Directory? {
        do {
            return try downloads.directory(StoreLayout.interrupted)
        } catch {
            if [.missing, .unsuitable].contains(error.kind) { return nil }
            throw error
        }
    }

    /// Refuses to go on, with `diskFull`, once less room is left than the device needs to go on running.
    package func requireRoom() throws {
        if try tree.freeSpace().bytes >= reserveBytes { return }
        throw UpdateFailure(
            .diskFull, subject: tree.path,
            "The disk is full: less than \(ByteCount(bytes: reserveBytes)) would be left free. "
                + "Free some space, then run it again.")
    }

    /// Refuses to begin, with `diskFull`, where `footprint` does not fit: all of it is new. A bundle that inherits from `seed` brings
    /// all of that to the store, too, where its files cannot be linked and were not extracted yet.
    package func requireRoom(for footprint: Footprint, inheriting seed: SeedFolder?) throws {
        var all = footprint
        if let seed, !hasSeedRoot, !seed.canBeLinked(into: folder) { all = try footprint.adding(seed.footprint()) }
        try Self.requireRoom(for: all, tree)
    }

    /// The same, with what is here already: content of the largest client that is linked, and bytes that were downloaded.
    static func requireRoom(
        for footprint: Footprint, _ folder: Directory, reusableBytes: Int = 0, reusableFiles: Int = 0,
        downloadedBytes: Int = 0
    ) throws {
        guard
            let refusal = DiskRule.refusal(
                footprint, space: try folder.freeSpace(), reusableBytes: reusableBytes, reusableFiles: reusableFiles,
                downloadedBytes: downloadedBytes)
        else { return }
        throw UpdateFailure(
            .diskFull, subject: folder.path,
            "Not enough room for the store \(folder.path): \(refusal). Free some space, then run it again.")
    }

    /// Starts the receipt of this attempt.
    package func receipt(for identity: BundleIdentity, manifest: JSONValue) throws -> ReceiptWriter {
        ReceiptWriter(try folder.file(creating: StoreLayout.stagedReceipt), identity, manifest: manifest)
    }

    /// Declares the tree complete: every file is written and listed in `receipt`, whose bytes become durable here.
    ///
    /// `bytesDownloaded` counts body bytes taken from the network in this run; `route` says how they came by.
    package func seal(
        _ receipt: consuming ReceiptWriter, contentSha256: SHA256Digest, bytesDownloaded: Int,
        route: DownloadRoute? = nil
    ) throws -> StagedBundle {
        try receipt.finish(contentSha256: contentSha256)
        return StagedBundle(
            area: self, identity: receipt.identity, contentSha256: contentSha256,
            installedSize: receipt.totalBytes, fileCount: receipt.fileCount, bytesDownloaded: bytesDownloaded,
            route: route)
    }

    /// Takes away what was staged so far, so that another way to stage it can be tried.
    package func clear() throws(DiskError) {
        try folder.removeFile(StoreLayout.stagedReceipt)
        for name in try tree.list() { try tree.removeTree(name) }
    }
}

/// A complete tree that waits to be installed; only `StagingArea.seal` makes one.
package struct StagedBundle: Sendable {
    let area: StagingArea
    /// What was staged.
    package let identity: BundleIdentity
    let contentSha256: SHA256Digest
    let installedSize: Int
    let fileCount: Int
    /// Body bytes taken from the network in this run.
    package let bytesDownloaded: Int
    /// How they came by; nil for a Meteor bundle.
    package let route: DownloadRoute?

    fileprivate init(
        area: StagingArea, identity: BundleIdentity, contentSha256: SHA256Digest, installedSize: Int, fileCount: Int,
        bytesDownloaded: Int, route: DownloadRoute?
    ) {
        self.route = route
        self.area = area
        self.identity = identity
        self.contentSha256 = contentSha256
        self.installedSize = installedSize
        self.fileCount = fileCount
        self.bytesDownloaded = bytesDownloaded
    }
}

extension StagedBundle {
    /// The same, with `bytes` more that were downloaded for nothing.
    package func adding(_ bytes: Int) -> StagedBundle {
        StagedBundle(
            area: area, identity: identity, contentSha256: contentSha256, installedSize: installedSize,
            fileCount: fileCount, bytesDownloaded: bytesDownloaded + bytes, route: route)
    }
}

/// Keeps what an attempt has downloaded for the next one: `downloads/interrupted`, the last one that kept a journal.
struct InterruptedAttempt {
    let staging: Directory
    let downloads: Directory

    /// Takes the attempt `name` out of staging; one without journal, or whose tree has become a client, is removed.
    func keep(_ name: String) throws(DiskError) {
        guard try hasDownloads(name) else { return try staging.removeTree(name) }
        try staging.directory(name).removeFile(StoreLayout.stagedReceipt)
        try downloads.removeTree(StoreLayout.interrupted)
        try staging.move(name, to: downloads, as: StoreLayout.interrupted)
    }

    /// The attempt `name` came to its end: what others left is of no use any more, be it kept or not yet cleared away.
    func removeOthers(than name: String) throws(DiskError) {
        try downloads.removeTree(StoreLayout.interrupted)
        for other in try staging.list() where other != name && other.hasPrefix(StoreLayout.attemptPrefix) {
            try staging.removeTree(other)
        }
    }

    /// Whether the attempt `name` was stopped after its tree had got its final name.
    func isPlaced(_ name: String) throws(DiskError) -> Bool {
        guard name.hasPrefix(StoreLayout.attemptPrefix), case .directory? = try staging.kind(of: name) else {
            return false
        }
        return try staging.directory(name).kind(of: StoreLayout.stagedTree) == nil
    }

    /// The same of an attempt with a journal: that of a push, which may have used what was kept before.
    func isPlacedPush(_ name: String) throws(DiskError) -> Bool {
        guard try isPlaced(name) else { return false }
        return try staging.directory(name).kind(of: StagingArea.journalName) != nil
    }

    private func hasDownloads(_ name: String) throws(DiskError) -> Bool {
        guard name.hasPrefix(StoreLayout.attemptPrefix), case .directory? = try staging.kind(of: name) else {
            return false
        }
        let attempt = try staging.directory(name)
        guard case .directory? = try attempt.kind(of: StoreLayout.stagedTree),
            case .file(let size)? = try attempt.kind(of: StagingArea.journalName)
        else { return false }
        return size > 0
    }
}
