import BundleValues
import BundleDisk

/// Checks the free disk space before a download starts.
enum DiskRule {
    /// Returns the bytes that must stay free for the shell: 64 MiB, or 5 % of a smaller disk.
    static func reserveBytes(_ space: FreeSpace) -> Int { min(64 << 20, space.totalBytes / 20) }

    /// Returns the reason why `footprint` does not fit; nil if it may fit.
    ///
    /// Content of an installed client is linked, so only the part beyond the largest client (`reusableBytes`,
    /// `reusableFiles`) is certain to be new. `downloadedBytes` is the part of the download that is on the disk
    /// already.
    static func refusal(
        _ footprint: Footprint, space: FreeSpace, reusableBytes: Int, reusableFiles: Int, downloadedBytes: Int
    ) -> String? {
        let files = max(0, (footprint.fileCount ?? 0) - reusableFiles)
        let content = max(0, (footprint.installedBytes ?? 0) - reusableBytes)
        let download = max(0, (footprint.downloadBytes ?? 0) - downloadedBytes)
        // The last block of a file is half empty on average.
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
