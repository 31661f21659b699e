import BundleArchive
import BundleCore
import BundleDisk
import BundleSigning

/// What installer, verifier and publisher all do with an archive: walk it.
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
    ) throws(ArchiveRejection) -> ArchiveReader {
        do {
            return try ArchiveReader(
                descriptor: descriptor, size: size, format: format, limits: limits.decoding())
        } catch {
            throw ArchiveRejection(error)
        }
    }

    /// Refuses a tree that is not the one whose numbers were signed.
    static func require(
        fileCount: Int, installedSize: Int, content: SHA256Digest, of manifest: Manifest
    ) throws(UpdateFailure) {
        let version = manifest.version.description
        if let expected = manifest.fileCount, expected != fileCount {
            throw UpdateFailure(
                .sizeMismatch, subject: "fileCount",
                "The archive of \(version) holds \(fileCount) files, \(expected) were signed. Publish it again.")
        }
        if let expected = manifest.installedSize, expected != installedSize {
            throw UpdateFailure(
                .sizeMismatch, subject: "installedSize",
                "The files of \(version) have \(installedSize) bytes, \(expected) were signed. Publish it again.")
        }
        if let expected = manifest.contentSha256, expected != content {
            throw UpdateFailure(
                .digestMismatch, subject: "contentSha256",
                "The content of \(version) is \(content.hex), \(expected.hex) was signed. Publish it again.")
        }
    }

    static func require<Sink>(
        _ summary: ArchiveWalk<Sink>.Summary, content: SHA256Digest, of manifest: Manifest
    ) throws(UpdateFailure) {
        try require(
            fileCount: summary.fileCount, installedSize: summary.installedSize, content: content, of: manifest)
    }
}

extension ArchiveLimits {
    /// The bounds of a reader that starts now.
    func decoding() -> DecodingLimits { DecodingLimits(ratio: ratio, grace: ratioGrace, deadline: .now + time) }

    /// These limits, or the signed numbers where they are lower. Folders count as entries but not as files.
    func lowered(by manifest: Manifest) -> ArchiveLimits {
        var lowered = self
        if let size = manifest.installedSize { lowered.installedBytes = min(size, installedBytes) }
        return lowered
    }
}
