import Glibc

extension Directory {
    /// When a name in this directory was last added, removed or replaced, in nanoseconds since 1970 as the file system counts.
    package func modification() throws(DiskError) -> Int {
        var status = stat()
        _ = try checked(fstat(descriptor, &status), "examine", path)
        return Int(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int(status.st_mtim.tv_nsec)
    }
}
