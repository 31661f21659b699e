package import BundleFormats
package import BundleDisk
package import BundleSigning
package import BundleValues

/// The private folder of one attempt. It is removed unless its bundle is installed.
package final class StagingArea: Sendable {
    /// The file that lists an attempt's complete downloads. The store keeps a failed attempt that has one for the
    /// next attempt.
    package static let journalName = "assets.journal"
    package static let treeName = StoreLayout.stagedTree

    /// The folder of the client's tree.
    package let tree: Directory
    /// The folder for downloads that a later attempt can resume.
    package let downloads: Directory
    /// The attempt's folder, with the tree and the source's own files.
    package let folder: Directory
    let name: String
    /// The store when the area was opened.
    package let inventory: Inventory
    private let reserveBytes: Int
    /// Whether the store has a serving root of the seed.
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

    /// Returns the folder of the last failed attempt that kept a journal; nil if there is none.
    package func interrupted() throws(DiskError) -> Directory? {
        try downloads.directory(ifPresent: StoreLayout.interrupted)
    }

    /// Throws `diskFull` if less space is free than the device needs to run.
    package func requireRoom() throws {
        if try tree.freeSpace().bytes >= reserveBytes { return }
        throw UpdateFailure(
            .diskFull, subject: tree.path,
            "The disk is full: less than \(ByteCount(bytes: reserveBytes)) would be left free. "
                + "Free some space, then run it again.")
    }

    /// Throws `diskFull` if `footprint`, all of which is new, does not fit. A bundle that shares files of `seed`
    /// needs space for all of them if they cannot be linked and have no serving root yet.
    package func requireRoom(for footprint: Footprint, inheriting seed: SeedFolder?) throws {
        var all = footprint
        if let seed, !hasSeedRoot, !seed.canBeLinked(into: folder) { all = try footprint.adding(seed.footprint()) }
        try Self.requireRoom(for: all, tree)
    }

    /// Throws `diskFull` if `footprint` does not fit. Content of the largest client can be linked, and downloaded
    /// bytes are on the disk already.
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

    /// Declares the tree complete: every file is written and listed in `receipt`, which becomes durable.
    ///
    /// `bytesDownloaded` is the size of all response bodies of this run.
    package func seal(
        _ receipt: consuming ReceiptWriter, contentSha256: SHA256Digest, bytesDownloaded: Int,
        route: DownloadRoute? = nil, kind: ReleaseKind = .client
    ) throws -> StagedBundle {
        try receipt.finish(contentSha256: contentSha256)
        return StagedBundle(
            area: self, identity: receipt.identity, contentSha256: contentSha256,
            installedSize: receipt.totalBytes, fileCount: receipt.fileCount, bytesDownloaded: bytesDownloaded,
            route: route, kind: kind)
    }

    /// Makes the files of `program` executable. Throws `wrongMachine` if one is for another processor than this one.
    package func prepare(_ program: ReleaseProgram) throws {
        for path in program.files {
            let file = try tree.file(path.string)
            let head = try file.head(min(file.size(), ProgramMachine.headBytes))
            if let machine = ProgramMachine(head: head), let own = ProgramMachine.own, machine != own {
                throw machine.refusal(of: path, wanted: own, by: "this device is")
            }
        }
        try ProgramModes(program).apply(to: tree)
    }

    /// Removes the staged files, so that another way to stage the bundle can be tried.
    package func clear() throws(DiskError) {
        try folder.removeFile(StoreLayout.stagedReceipt)
        for name in try tree.list() { try tree.removeTree(name) }
    }
}

/// A complete tree that waits for its installation. Only `StagingArea.seal` creates it.
package struct StagedBundle: Sendable {
    let area: StagingArea
    package let identity: BundleIdentity
    let contentSha256: SHA256Digest
    let installedSize: Int
    let fileCount: Int
    let kind: ReleaseKind
    /// The size of all response bodies of this run.
    package let bytesDownloaded: Int
    /// The route of the download; nil for a Meteor bundle.
    package let route: DownloadRoute?
    /// The beginning of the release notes; nil if there are none.
    package private(set) var notes: String?

    fileprivate init(
        area: StagingArea, identity: BundleIdentity, contentSha256: SHA256Digest, installedSize: Int, fileCount: Int,
        bytesDownloaded: Int, route: DownloadRoute?, kind: ReleaseKind
    ) {
        self.route = route
        self.kind = kind
        self.area = area
        self.identity = identity
        self.contentSha256 = contentSha256
        self.installedSize = installedSize
        self.fileCount = fileCount
        self.bytesDownloaded = bytesDownloaded
    }
}

extension StagedBundle {
    /// Returns the bundle with `bytes` of failed downloads added.
    package func adding(_ bytes: Int) -> StagedBundle {
        StagedBundle(
            area: area, identity: identity, contentSha256: contentSha256, installedSize: installedSize,
            fileCount: fileCount, bytesDownloaded: bytesDownloaded + bytes, route: route,
            kind: kind)
    }

    /// Returns the bundle with release notes.
    package func with(notes: String?) -> StagedBundle {
        var bundle = self
        bundle.notes = notes
        return bundle
    }
}

/// Keeps the downloads of the last failed attempt that has a journal, in `downloads/interrupted`.
struct InterruptedAttempt {
    let staging: Directory
    let downloads: Directory

    /// Moves the attempt `name` out of staging. Removes an attempt without a journal, or whose tree has become a
    /// client.
    func keep(_ name: String) throws(DiskError) {
        guard try hasDownloads(name) else { return try staging.removeTree(name) }
        try staging.directory(name).removeFile(StoreLayout.stagedReceipt)
        try downloads.removeTree(StoreLayout.interrupted)
        try staging.move(name, to: downloads, as: StoreLayout.interrupted)
    }

    /// Removes the downloads of other attempts after the attempt `name` was completed.
    func removeOthers(than name: String) throws {
        let others = try staging.list().filter { $0 != name && $0.hasPrefix(StoreLayout.attemptPrefix) }
        let removed = [(downloads, StoreLayout.interrupted)] + others.map { (staging, $0) }
        try removed.attemptEach { try $0.removeTree($1) }
    }

    /// Returns whether the attempt `name` was interrupted after its tree got its final name.
    func isPlaced(_ name: String) throws(DiskError) -> Bool {
        guard name.hasPrefix(StoreLayout.attemptPrefix), case .directory? = try staging.kind(of: name) else {
            return false
        }
        return try staging.directory(name).kind(of: StoreLayout.stagedTree) == nil
    }

    /// Returns whether the attempt `name` is placed and has a journal, as that of a Meteor bundle does. It may have
    /// used the kept downloads.
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
