import CLibrary

/// The free space of a file system.
package struct FreeSpace: Sendable, Equatable {
    /// The bytes that an ordinary user can still write.
    package let bytes: Int
    /// The size of the file system in bytes.
    package let totalBytes: Int
    /// The disk space of the smallest file, in bytes.
    package let blockBytes: Int
    /// The number of files that can still be created; nil if the file system does not limit it.
    package let files: Int?

    package init(bytes: Int, totalBytes: Int, blockBytes: Int, files: Int?) {
        self.bytes = bytes
        self.totalBytes = totalBytes
        self.blockBytes = blockBytes
        self.files = files
    }
}

extension Int {
    /// Returns the product, or the largest integer if it overflows.
    func multipliedClamping(by other: Int) -> Int {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? .max : product
    }
}

extension Directory {
    /// Returns the free space of the file system.
    package func freeSpace() throws(DiskError) -> FreeSpace {
        var status = statvfs()
        _ = try checked(fstatvfs(descriptor, &status), to: "examine", at: path)
        let block = Int(clamping: status.f_frsize)
        return FreeSpace(
            bytes: Int(clamping: status.f_bavail).multipliedClamping(by: block),
            totalBytes: Int(clamping: status.f_blocks).multipliedClamping(by: block),
            blockBytes: block,
            files: status.f_files == 0 ? nil : Int(clamping: status.f_favail))
    }
}
