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
            archive.file, size: archive.size, expectedFiles: manifest.fileCount,
            limits: limits.lowered(by: manifest), into: writer(of: release, into: area, reusing: reuse))
        let finished = try sink.inner.finish()
        report(.settling)
        let content = try summary.contentSha256 ?? CanonicalTree(area.tree).digest()
        try ArchiveContents.require(summary, of: manifest)
        try ArchiveContents.require(content, in: archive.file, of: manifest)
        return try area.seal(
            finished, contentSha256: content, bytesDownloaded: archive.bytesDownloaded, route: route)
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
        return try area.seal(finished, contentSha256: content, bytesDownloaded: file.bytesDownloaded, route: route)
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

/// The limits of one archive. The device sets them, and a manifest can only lower them.
package struct ArchiveLimits: Sendable, Equatable {
    /// The largest archive, in bytes.
    package var archiveBytes = 256 << 20
    /// The largest sum of all file sizes, in bytes.
    package var installedBytes = 512 << 20
    /// The largest file, in bytes.
    package var fileBytes = 256 << 20
    /// The largest memory that a delta may need, in bytes.
    package var deltaMemory = 64 << 20
    /// The largest number of entries, and of folders that entries have or imply.
    package var entries = 20_000
    /// The largest ratio of unpacked to packed bytes, applied after the first `ratioGrace` unpacked bytes.
    package var ratio = 200
    /// The unpacked bytes before the ratio applies.
    package var ratioGrace = 32 << 20
    /// The longest time that unpacking may take.
    package var time = Duration.seconds(600)

    package init() {}
}

extension ArchiveLimits {
    /// Returns the limits of a reader that starts now.
    func decoding() -> DecodingLimits { DecodingLimits(ratio: ratio, grace: ratioGrace, deadline: .now + time) }

    /// Returns these limits, lowered to the signed numbers. `entries` stays, because it counts folders and the signed
    /// file count does not.
    func lowered(by manifest: Manifest) -> ArchiveLimits {
        var lowered = self
        if let size = manifest.installedSize { lowered.installedBytes = min(size, installedBytes) }
        return lowered
    }

    /// Throws if a signed number exceeds a limit, before any byte of the release is downloaded.
    func admit(_ manifest: Manifest) throws(ArchiveRejection) {
        if let size = manifest.size, size > archiveBytes {
            throw ArchiveRejection(
                "archive-too-large",
                "the archive has \(ByteCount(bytes: size)), "
                    + "this device accepts \(ByteCount(bytes: archiveBytes)) (--max-archive-size)")
        }
        if let size = manifest.installedSize, size > installedBytes {
            throw ArchiveRejection(
                "unpacked-too-large",
                "the files have \(ByteCount(bytes: size)), "
                    + "this device accepts \(ByteCount(bytes: installedBytes)) (--max-installed-size)")
        }
        if let count = manifest.fileCount, count > entries {
            throw ArchiveRejection(
                "too-many-entries", "it has \(counted(count, "file")), this device accepts \(entries) (--max-files)")
        }
    }
}

/// Applies a delta, for installer, verifier and publisher.
enum DeltaContents {
    static func walk<Sink: EntrySink>(
        _ file: File, applying delta: DeltaList.Delta, on base: DeltaTree, of manifest: Manifest, limits: ArchiveLimits,
        into sink: Sink
    ) throws -> (ArchiveWalk<Sink>.Summary, Sink) {
        do {
            let bounds = DeltaBounds(
                memory: min(delta.memory, limits.deltaMemory), files: min(manifest.fileCount ?? 0, limits.entries),
                bytes: min(manifest.installedSize ?? 0, limits.installedBytes), deadline: .now + limits.time)
            let walk = try ArchiveWalk(
                try reader(file, on: base, bounds: bounds), limits: limits.lowered(by: manifest),
                expectedFiles: manifest.fileCount, into: sink)
            return try walk.run()
        } catch {
            sink.abandon()
            throw error
        }
    }

    private static func reader(_ file: File, on base: DeltaTree, bounds: DeltaBounds) throws -> DeltaReader {
        do throws(ArchiveFailure) {
            return try DeltaReader(file, on: base, within: bounds)
        } catch {
            throw error.refusal()
        }
    }

    /// Returns the content digest. Throws if it is not the signed one, and names the damaged file if the base is the
    /// cause.
    static func require<Sink>(
        _ summary: ArchiveWalk<Sink>.Summary, on base: DeltaTree, of manifest: Manifest
    ) throws -> SHA256Digest {
        if let content = summary.contentSha256, content == manifest.contentSha256 {
            try ArchiveContents.require(summary, of: manifest)
            return content
        }
        if let path = try base.firstDamage() { throw ArchiveFailure.damagedBase(path.string).refusal() }
        throw UpdateFailure(
            .digestMismatch, subject: "contentSha256",
            "The delta does not produce the signed content of \(manifest.version). Make it again.")
    }
}

/// Walks an archive, for installer, verifier and publisher.
enum ArchiveContents {
    static func walk<Sink: EntrySink>(
        _ file: File, size: Int, expectedFiles: Int?, limits: ArchiveLimits, into sink: Sink
    ) throws -> (ArchiveWalk<Sink>.Summary, Sink) {
        do {
            let format = ArchiveFormat(sniffing: try file.head(4))
            return try file.withDescriptor { descriptor in
                let reader = try reader(descriptor, size: size, format: format, limits)
                let walk = try ArchiveWalk(
                    reader, limits: limits, expectedFiles: expectedFiles, into: sink)
                return try walk.run()
            }
        } catch {
            sink.abandon()
            throw error
        }
    }

    private static func reader(
        _ descriptor: Int32, size: Int, format: ArchiveFormat, _ limits: ArchiveLimits
    ) throws -> ArchiveReader {
        do throws(ArchiveFailure) {
            return try ArchiveReader(
                descriptor: descriptor, size: size, format: format, limits: limits.decoding())
        } catch {
            throw error.refusal()
        }
    }

    /// Throws `sizeMismatch` if the number of files or their size is not the signed one.
    static func require<Sink>(_ summary: ArchiveWalk<Sink>.Summary, of manifest: Manifest) throws {
        let version = manifest.version.description
        if let expected = manifest.fileCount, expected != summary.fileCount {
            throw UpdateFailure(
                .sizeMismatch, subject: "fileCount",
                "The archive of \(version) has \(counted(summary.fileCount, "file")), but \(expected) were signed. Publish it again."
            )
        }
        if let expected = manifest.installedSize, expected != summary.installedSize {
            throw UpdateFailure(
                .sizeMismatch, subject: "installedSize",
                "The files of \(version) have \(summary.installedSize) bytes, but \(expected) were signed. Publish it again."
            )
        }
    }

    /// Throws `digestMismatch` if `content`, the digest of the canonical tar, is not the signed one.
    static func require(_ content: SHA256Digest, in file: File, of manifest: Manifest) throws {
        if let expected = manifest.contentSha256, expected != content, try !isDigest(expected, ofTarIn: file) {
            throw UpdateFailure(
                .digestMismatch, subject: "contentSha256",
                "The content of \(manifest.version) is \(content.hex), but \(expected.hex) was signed. Publish it again."
            )
        }
    }

    /// Returns whether the tar in `file`, as it is, has the signed content digest.
    ///
    /// The contract fixes the values of a canonical tar but not its bytes, because tools fill unused header fields in
    /// different ways. If another tool wrote the tar, the digest of that tar is accepted too; the digest of the archive
    /// was signed as well.
    static func isDigest(_ expected: SHA256Digest, ofTarIn file: File) throws -> Bool {
        let format = ArchiveFormat(sniffing: try file.head(4))
        var hasher = try SHA256Hasher()
        try file.withDescriptor { descriptor in
            do {
                try DecodedArchive.forEachBlock(descriptor: descriptor, format: format) { try hasher.update($0) }
            } catch let failure as ArchiveFailure {
                throw failure.refusal()
            }
        }
        return try hasher.finish() == expected
    }
}
