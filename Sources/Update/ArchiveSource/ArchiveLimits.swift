import BundleArchive
import BundleValues

/// Bounds for one archive. The device sets them; a manifest can only lower them.
package struct ArchiveLimits: Sendable, Equatable {
    /// Bytes of the archive.
    package var archiveBytes = 256 << 20
    /// Sum of the files' bytes.
    package var installedBytes = 512 << 20
    /// Bytes of one file.
    package var fileBytes = 256 << 20
    /// Files and folders that the archive lists.
    package var entries = 20_000
    /// Unpacked bytes for one archive byte, once more than `ratioGrace` bytes are out.
    package var ratio = 200
    /// Unpacked bytes before the ratio counts.
    package var ratioGrace = 32 << 20
    /// Time for unpacking.
    package var time = Duration.seconds(600)

    /// The defaults.
    package init() {}
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

    /// Refuses a release whose signed numbers exceed what this device takes, before the first byte of it.
    func admit(_ manifest: Manifest) throws(ArchiveRejection) {
        if let size = manifest.size, size > archiveBytes {
            throw ArchiveRejection(
                "archive-too-large",
                "the archive has \(ByteCount(bytes: size)), "
                    + "this device takes \(ByteCount(bytes: archiveBytes)) (--max-archive-size)")
        }
        if let size = manifest.installedSize, size > installedBytes {
            throw ArchiveRejection(
                "unpacked-too-large",
                "the files have \(ByteCount(bytes: size)), "
                    + "this device takes \(ByteCount(bytes: installedBytes)) (--max-installed-size)")
        }
        if let count = manifest.fileCount, count > entries {
            throw ArchiveRejection(
                "too-many-entries", "it has \(count) files, this device takes \(entries) (--max-files)")
        }
    }
}
