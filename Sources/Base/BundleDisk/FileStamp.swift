import CLibrary

/// The identity and state of a file. It changes with every write and when another file gets the name.
package struct FileStamp: Sendable, Hashable {
    package let size: Int
    private let device: UInt
    private let inode: UInt
    private let modified: [Int]
    private let changed: [Int]
    /// The last change of the file or its metadata, in seconds since 1970. Programs cannot set it.
    package var changeTime: Int { changed[0] }

    fileprivate init(_ status: stat) {
        size = Int(status.st_size)
        device = UInt(status.st_dev)
        inode = UInt(status.st_ino)
        modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
        changed = [status.st_ctim.tv_sec, status.st_ctim.tv_nsec]
    }
}

extension Directory {
    /// Whether the path of this directory now leads to another directory. It is false if the path does not exist.
    package var isReplaced: Bool {
        var (own, found) = (stat(), stat())
        guard fstat(descriptor, &own) == 0, stat(path, &found) == 0, found.st_mode & S_IFMT == S_IFDIR else {
            return false
        }
        return own.st_dev != found.st_dev || own.st_ino != found.st_ino
    }

    /// Returns the owner and the permission bits of this directory.
    package func permissions() throws(DiskError) -> (owner: UInt32, mode: UInt32) {
        let status = try status()
        return (status.st_uid, status.st_mode & 0o7777)
    }

    /// Returns the time at which an entry was last added, removed or replaced, in nanoseconds since 1970.
    package func modification() throws(DiskError) -> Int {
        let time = try status().st_mtim
        return time.tv_sec &* 1_000_000_000 &+ time.tv_nsec
    }

    func status() throws(DiskError) -> stat {
        var status = stat()
        _ = try checked(fstat(descriptor, &status), to: "examine", at: path)
        return status
    }

    /// Whether both are the same directory, regardless of their paths.
    package func isSame(as other: Directory) -> Bool {
        guard let mine = try? status(), let its = try? other.status() else { return false }
        return mine.st_dev == its.st_dev && mine.st_ino == its.st_ino
    }

    /// Returns the stamp of an entry without following links, or nil if it does not exist.
    package func stamp(of name: String) throws(DiskError) -> FileStamp? {
        var status = stat()
        if fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) < 0 {
            if errno == ENOENT { return nil }
            throw DiskError("examine", at: "\(path)/\(name)", code: errno)
        }
        return FileStamp(status)
    }
}

extension File {
    /// Returns the stamp, which is the same for all hard links of the file.
    package func stamp() throws(DiskError) -> FileStamp { FileStamp(try status()) }
}
