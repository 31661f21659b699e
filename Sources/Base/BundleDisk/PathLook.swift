import CLinux
import Glibc

/// What the kernel says of folders that are not used: everything here changes nothing.
package enum PathLook {
    /// Owner and permission bits of what is at an ordinary path, links followed.
    package static func permissions(_ path: String) throws(DiskError) -> (owner: UInt32, mode: UInt32) {
        var status = stat()
        _ = try checked(stat(path, &status), "examine", path)
        return (status.st_uid, status.st_mode & 0o7777)
    }

    /// Why this user may not make files in the folder at an ordinary path; nil where that is allowed.
    package static func writeRefusal(_ path: String) -> DiskError? {
        faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0 ? nil : DiskError("write to", path, code: errno)
    }

    /// The folder at an ordinary path, or the first one above it that is there.
    package static func nearest(to path: String) -> String {
        var path = path
        while access(path, F_OK) != 0, errno == ENOENT, path != ".", path != "/" { path = parent(of: path) }
        return path
    }

    /// The path without its last name.
    package static func parent(of path: String) -> String {
        var path = path
        while path.hasSuffix("/") && path != "/" { path.removeLast() }
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

extension Directory {
    /// Whether files can be linked and moved from here into `other`: one file system, below one mount point.
    package func isJoined(to other: Directory) throws(DiskError) -> Bool {
        var (mine, its) = (stat(), stat())
        _ = try checked(fstat(descriptor, &mine), "examine", path)
        _ = try checked(fstat(other.descriptor, &its), "examine", other.path)
        if mine.st_dev != its.st_dev { return false }
        // The kernel compares mount points before it looks for the name, which nothing has.
        let name = randomName(".none-")
        return renameat(descriptor, name, other.descriptor, name) == 0 || errno != EXDEV
    }

    /// Why the kernel itself cannot rename `name` without replacing what has the name `target`; nil where it can, which renames it.
    package func exclusiveRenameRefusal(_ name: String, to target: String) -> DiskError? {
        let result = clinux_rename_noreplace_strictly(descriptor, name, descriptor, target)
        return result < 0 ? DiskError("rename", "\(path)/\(name)", code: -result) : nil
    }
}
