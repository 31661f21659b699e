import BundleArchive
import BundleCore
import BundleDisk
import BundleSigning
import BundleValues

/// Unpacks archives and deltas into a staging area and checks every number in the manifest.
struct ArchiveUnpacker {
    let limits: ArchiveLimits
    let report: UpdateObserver

    /// Unpacks `archive` into `area`.
    func unpack(
        _ archive: VerifiedArchive, of release: VerifiedManifest, into area: StagingArea, reusing reuse: ReuseIndex,
        route: DownloadRoute
    ) throws -> StagedBundle {
        let manifest = release.manifest
        var (summary, sink) = try ArchiveContents.walk(
            archive.file, size: archive.size, expectedFiles: manifest.fileCount, requiring: manifest.requiredFiles,
            limits: limits.lowered(by: manifest), into: writer(of: release, into: area, reusing: reuse))
        let finished = try sink.inner.finish()
        report(.settling)
        let content = try summary.contentSha256 ?? CanonicalTree(area.tree).digest()
        try ArchiveContents.require(summary, of: manifest)
        try ArchiveContents.require(content, in: archive.file, of: manifest)
        try manifest.program.map { try area.prepare($0) }
        return try area.seal(
            finished, contentSha256: content, bytesDownloaded: archive.bytesDownloaded, route: route,
            kind: manifest.kind)
    }

    /// Applies `delta`, whose bytes are in `file`, to `base` and writes the result into `area`. Throws if the result is
    /// not `release`.
    func unpack(
        _ file: VerifiedArchive, applying delta: DeltaList.Delta, on base: DeltaTree, of release: VerifiedManifest,
        into area: StagingArea, reusing reuse: ReuseIndex, route: DownloadRoute
    ) throws -> StagedBundle {
        let manifest = release.manifest
        var (summary, sink) = try DeltaContents.walk(
            file.file, applying: delta, on: base, of: manifest, limits: limits,
            into: writer(of: release, into: area, reusing: reuse))
        let finished = try sink.inner.finish()
        report(.settling)
        let content = try DeltaContents.require(summary, on: base, of: manifest)
        try manifest.program.map { try area.prepare($0) }
        return try area.seal(
            finished, contentSha256: content, bytesDownloaded: file.bytesDownloaded, route: route, kind: manifest.kind)
    }

    private func writer(
        of release: VerifiedManifest, into area: StagingArea, reusing reuse: ReuseIndex
    ) throws -> CountingSink {
        let receipt = try area.receipt(for: release.identity, manifest: release.document)
        return CountingSink(
            try TreeWriter(area: area, reusing: reuse, receipt: receipt), total: release.manifest.fileCount,
            report: report)
    }
}

/// Reports the number of unpacked files.
private struct CountingSink: EntrySink {
    var inner: TreeWriter
    private let total: Int?
    private let report: UpdateObserver
    private var files = 0

    init(_ inner: TreeWriter, total: Int?, report: UpdateObserver) {
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
