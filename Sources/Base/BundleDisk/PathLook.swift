import CLinux
import CLibrary

/// Queries about folders by their path. None of them changes anything.
package enum PathLook {
    /// Returns the owner and permission bits of a path. It follows links.
    package static func permissions(_ path: String) throws(DiskError) -> (owner: UInt32, mode: UInt32) {
        var status = stat()
        _ = try checked(stat(path, &status), to: "examine", at: path)
        return (status.st_uid, status.st_mode & 0o7777)
    }

    /// Returns the error if this user cannot create files in the folder, otherwise nil.
    package static func writeRefusal(_ path: String) -> DiskError? {
        faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0 ? nil : DiskError("write to", at: path, code: errno)
    }

    /// Returns the folder, or its nearest existing parent.
    package static func nearest(to path: String) -> String {
        var path = path
        while access(path, F_OK) != 0, errno == ENOENT, path != ".", path != "/" { path = parent(of: path) }
        return path
    }

    /// Returns the absolute path without links, even if the last components do not exist; nil if they contain `..`.
    package static func resolved(_ path: String) -> String? {
        if let real = realpath(path, nil) {
            defer { free(real) }
            return String(cString: real)
        }
        var parts = path.split(separator: "/", omittingEmptySubsequences: false)
        while parts.last == "" { parts.removeLast() }
        guard let name = parts.popLast(), name != ".." else { return nil }
        let parent = parts.isEmpty ? "." : parts.joined(separator: "/")
        return resolved(parent.isEmpty ? "/" : parent).map { $0 == "/" ? "/\(name)" : "\($0)/\(name)" }
    }

    /// Returns the path without its last component.
    package static func parent(of path: String) -> String {
        var path = path
        while path.hasSuffix("/") && path != "/" { path.removeLast() }
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

extension Directory {
    /// Whether files can be linked and moved from here to `other`: both are on one file system and one mount.
    package func isJoined(to other: Directory) throws(DiskError) -> Bool {
        if try status().st_dev != other.status().st_dev { return false }
        // The kernel compares the mounts before it looks up the name, which does not exist.
        let name = randomName(".none-")
        return renameat(descriptor, name, other.descriptor, name) == 0 || errno != EXDEV
    }

    /// Renames `name` to `target` by the kernel's exclusive rename alone. Returns the error if the kernel or file system
    /// does not support it.
    package func exclusiveRenameRefusal(_ name: String, to target: String) -> DiskError? {
        let result = clinux_rename_noreplace_strictly(descriptor, name, descriptor, target)
        return result < 0 ? DiskError("rename", at: "\(path)/\(name)", code: -result) : nil
    }
}
