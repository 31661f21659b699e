import Glibc

/// What the kernel says of a file's state: after a write, or under another file of the same name, it is different.
package struct FileStamp: Sendable, Hashable {
    /// Its bytes.
    package let size: Int
    private let device: UInt
    private let inode: UInt
    private let modified: [Int]
    private let changed: [Int]
    /// When anything of it was last changed, in seconds since 1970: nobody sets that back.
    package var changedSecond: Int { changed[0] }

    fileprivate init(_ status: stat) {
        size = Int(status.st_size)
        device = UInt(status.st_dev)
        inode = UInt(status.st_ino)
        modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
        changed = [status.st_ctim.tv_sec, status.st_ctim.tv_nsec]
    }
}

extension Directory {
    /// Whether `other` is this very folder, whatever has its path by now.
    package func isSame(as other: Directory) -> Bool {
        var (mine, its) = (stat(), stat())
        guard fstat(descriptor, &mine) == 0, fstat(other.descriptor, &its) == 0 else { return false }
        return mine.st_dev == its.st_dev && mine.st_ino == its.st_ino
    }

    /// The state of `name`, one component, without following it; nil where there is no such name.
    package func stamp(of name: String) throws(DiskError) -> FileStamp? {
        var status = stat()
        if fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) < 0 {
            if errno == ENOENT { return nil }
            throw DiskError("examine", "\(path)/\(name)", code: errno)
        }
        return FileStamp(status)
    }
}

extension File {
    /// Its state; the same as that of any other name of it.
    package func stamp() throws(DiskError) -> FileStamp { FileStamp(try status()) }
}
