import BundleArchive
import BundleValues

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
    package func lowered(by manifest: Manifest) -> ArchiveLimits {
        var lowered = self
        if let size = manifest.installedSize { lowered.installedBytes = min(size, installedBytes) }
        return lowered
    }

    /// Throws if a signed number exceeds a limit, before any byte of the release is downloaded.
    package func admit(_ manifest: Manifest) throws(ArchiveRejection) {
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
