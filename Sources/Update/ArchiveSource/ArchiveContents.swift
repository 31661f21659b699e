import BundleArchive
import BundleValues
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
    ) throws -> ArchiveReader {
        do throws(ArchiveFailure) {
            return try ArchiveReader(
                descriptor: descriptor, size: size, format: format, limits: limits.decoding())
        } catch {
            throw error.refusal()
        }
    }

    /// Refuses a tree that is not the one whose numbers were signed; `content` is the digest of its canonical tar.
    static func require<Sink>(
        _ summary: ArchiveWalk<Sink>.Summary, content: SHA256Digest, in file: File, of manifest: Manifest
    ) throws {
        let version = manifest.version.description
        if let expected = manifest.fileCount, expected != summary.fileCount {
            throw UpdateFailure(
                .sizeMismatch, subject: "fileCount",
                "The archive of \(version) holds \(summary.fileCount) files, \(expected) were signed. Publish it again."
            )
        }
        if let expected = manifest.installedSize, expected != summary.installedSize {
            throw UpdateFailure(
                .sizeMismatch, subject: "installedSize",
                "The files of \(version) have \(summary.installedSize) bytes, \(expected) were signed. Publish it again."
            )
        }
        if let expected = manifest.contentSha256, expected != content, try !isDigest(expected, ofTarIn: file) {
            throw UpdateFailure(
                .digestMismatch, subject: "contentSha256",
                "The content of \(version) is \(content.hex), \(expected.hex) was signed. Publish it again.")
        }
    }

    /// The signed content digest, where the archive itself is a canonical tar that another tool wrote.
    ///
    /// The contract fixes every value of such a tar but not every byte: tools fill unused header fields in different ways.
    /// The digest of the very tar that was packed is then as good, and the archive's own digest was signed as well.
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
