public import BundleDisk
public import BundleSigning

/// A private folder that the store opened for one attempt; it is removed unless its bundle is installed.
public final class StagingArea: Sendable {
    /// Where the client's tree grows.
    public let tree: Directory
    /// Where downloads are kept between runs, so that an interrupted one can go on.
    public let downloads: Directory
    let folder: Directory
    let name: String
    private let reserveBytes: Int

    init(folder: Directory, name: String, tree: Directory, downloads: Directory, reserveBytes: Int) {
        self.folder = folder
        self.name = name
        self.tree = tree
        self.downloads = downloads
        self.reserveBytes = reserveBytes
    }

    /// Refuses to go on, with `diskFull`, once less room is left than the device needs to go on running.
    public func requireRoom() throws {
        if try tree.freeSpace().bytes >= reserveBytes { return }
        throw UpdateFailure(
            .diskFull, subject: tree.path,
            "The disk is full: less than \(ByteCount(bytes: reserveBytes)) would be left free. "
                + "Free some space, then run it again.")
    }

    /// Starts the receipt of this attempt.
    public func receipt(for identity: BundleIdentity, manifest: JSONValue) throws -> ReceiptWriter {
        ReceiptWriter(try folder.file(creating: StoreLayout.stagedReceipt), identity, manifest: manifest)
    }

    /// Declares the tree complete: every file is written and listed in `receipt`, whose bytes become durable here.
    ///
    /// `bytesDownloaded` counts body bytes taken from the network in this run.
    public func seal(
        _ receipt: consuming ReceiptWriter, contentSha256: SHA256Digest, bytesDownloaded: Int
    ) throws -> StagedBundle {
        try receipt.finish(contentSha256: contentSha256)
        return StagedBundle(
            area: self, identity: receipt.identity, contentSha256: contentSha256,
            installedSize: receipt.totalBytes, fileCount: receipt.fileCount, bytesDownloaded: bytesDownloaded)
    }
}

/// A complete tree that waits to be installed; only `StagingArea.seal` makes one.
public struct StagedBundle: Sendable {
    let area: StagingArea
    /// What was staged.
    public let identity: BundleIdentity
    let contentSha256: SHA256Digest
    let installedSize: Int
    let fileCount: Int
    /// Body bytes taken from the network in this run.
    public let bytesDownloaded: Int

    fileprivate init(
        area: StagingArea, identity: BundleIdentity, contentSha256: SHA256Digest, installedSize: Int, fileCount: Int,
        bytesDownloaded: Int
    ) {
        self.area = area
        self.identity = identity
        self.contentSha256 = contentSha256
        self.installedSize = installedSize
        self.fileCount = fileCount
        self.bytesDownloaded = bytesDownloaded
    }
}
