import BundleValues
import BundleDisk

/// Is there room? A pure rule, asked before the first byte.
enum DiskRule {
    /// Bytes that must stay free: the shell still has to run. 64 MiB, or 5 % of a disk where that is less.
    static func reserveBytes(_ space: FreeSpace) -> Int { min(64 << 20, space.totalBytes / 20) }

    /// Why `footprint` does not fit; nil where it may.
    ///
    /// Content that an installed client already has is linked, so only what exceeds the largest one (`reusableBytes`,
    /// `reusableFiles`) is sure to be new. `downloadedBytes` of the download are on the disk already.
    static func refusal(
        _ footprint: Footprint, space: FreeSpace, reusableBytes: Int, reusableFiles: Int, downloadedBytes: Int
    ) -> String? {
        let files = max(0, (footprint.fileCount ?? 0) - reusableFiles)
        let content = max(0, (footprint.installedBytes ?? 0) - reusableBytes)
        let download = max(0, (footprint.downloadBytes ?? 0) - downloadedBytes)
        // A file ends in a block that is half empty on average.
        let (rounding, overflow) = files.multipliedReportingOverflow(by: space.blockBytes / 2)
        let parts = [download, content, overflow ? .max : rounding, reserveBytes(space)]
        var needed = 0
        for part in parts {
            let (sum, overflow) = needed.addingReportingOverflow(part)
            needed = overflow ? .max : sum
        }
        if needed > space.bytes {
            return "\(ByteCount(bytes: needed)) are needed, \(ByteCount(bytes: space.bytes)) are free"
        }
        if let free = space.files, files > free { return "\(files) files are needed, \(free) more are possible" }
        return nil
    }
}
