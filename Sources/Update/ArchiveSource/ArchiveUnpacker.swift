import BundleArchive
import BundleCore
import BundleValues
import BundleDisk

/// Entries through the policy into a staging area; every number that the manifest states is checked.
struct ArchiveUnpacker {
    let limits: ArchiveLimits
    let report: @Sendable (UpdateEvent) -> Void

    /// Fills `area` with the tree of `archive`, which `release` describes.
    func unpack(
        _ archive: VerifiedArchive, of release: VerifiedManifest, into area: StagingArea, reusing reuse: ReuseIndex
    ) throws -> StagedBundle {
        let manifest = release.manifest
        let receipt = try area.receipt(for: release.identity, manifest: release.document)
        let writer = CountingSink(
            try TreeWriter(area: area, reusing: reuse, receipt: receipt), total: manifest.fileCount, report: report)
        var (summary, sink) = try ArchiveContents.walk(
            archive.file, size: archive.size, expectedFiles: manifest.fileCount,
            limits: limits.lowered(by: manifest), into: writer)
        let finished = try sink.inner.finish()
        report(.settling)
        let content = try summary.contentSha256 ?? CanonicalTree(area.tree).digest()
        try ArchiveContents.require(summary, content: content, in: archive.file, of: manifest)
        return try area.seal(finished, contentSha256: content, bytesDownloaded: archive.bytesDownloaded)
    }
}

/// Counts files on their way, for progress.
private struct CountingSink: EntrySink {
    var inner: TreeWriter
    private let total: Int?
    private let report: @Sendable (UpdateEvent) -> Void
    private var files = 0

    init(_ inner: TreeWriter, total: Int?, report: @escaping @Sendable (UpdateEvent) -> Void) {
        self.inner = inner
        self.total = total
        self.report = report
    }

    mutating func addDirectory(_ path: BundlePath) throws { try inner.addDirectory(path) }
    mutating func beginFile(_ path: BundlePath, size: Int) throws { try inner.beginFile(path, size: size) }
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws { try inner.append(bytes) }
    mutating func endFile() throws {
        try inner.endFile()
        files += 1
        if files % 64 == 0 { report(.unpacking(files: files, of: total)) }
    }
    func abandon() { inner.abandon() }
}
