/// Free room on a file system.
package struct FreeSpace: Sendable, Equatable {
    /// Bytes an ordinary user may still write.
    package let bytes: Int
    /// Size of the file system in bytes.
    package let totalBytes: Int
    /// Bytes that the smallest file takes.
    package let blockBytes: Int
    /// Files that may still be created; nil where the file system does not count them.
    package let files: Int?

    /// States what is free.
    package init(bytes: Int, totalBytes: Int, blockBytes: Int, files: Int?) {
        self.bytes = bytes
        self.totalBytes = totalBytes
        self.blockBytes = blockBytes
        self.files = files
    }
}

extension Int {
    /// The product, or the largest integer where it does not fit.
    func multipliedClamping(by other: Int) -> Int {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? .max : product
    }
}
