import CLinux
import CLibrary

/// An open directory. All paths below it are resolved by descriptor, never through a link and never above it.
///
/// Names are relative paths whose bytes reach the kernel unchanged. They are resolved by `openat2` with `RESOLVE_BENEATH`
/// and `RESOLVE_NO_SYMLINKS`, or component by component on a kernel without it. Operations on an entry of this directory,
/// such as rename and remove, accept one component only. Files are created with `O_EXCL` and mode 0644.
package final class Directory: Sendable {
    let descriptor: Int32
    /// The path for messages.
    package let path: String

    init(adopting descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    deinit { close(descriptor) }

    /// Opens an existing directory by an ordinary path. It follows links.
    package static func open(_ path: String) throws(DiskError) -> Directory {
        let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC
        let descriptor = CLibrary.open(path, flags)
        if descriptor < 0, errno == ENOTDIR {
            // A file in the middle of the path causes the same error.
            var status = stat()
            let isFile = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
            throw DiskError(isFile ? DiskError.asFolder : "open", at: path, code: ENOTDIR)
        }
        return Directory(adopting: try checked(descriptor, to: "open", at: path), path: path)
    }

    /// Creates a directory by an ordinary path. An existing one stays unchanged.
    package static func create(_ path: String, mode: UInt32) throws(DiskError) {
        if mkdir(path, mode) < 0 && errno != EEXIST { throw DiskError("create", at: path, code: errno) }
    }

    /// Creates a directory by an ordinary path, and its missing parents with mode 0755.
    package static func createAll(_ path: String, mode: UInt32 = 0o755) throws(DiskError) {
        var prefix = ""
        for component in path.split(separator: "/", omittingEmptySubsequences: false).dropLast() {
            prefix += component + "/"
            try create(prefix, mode: 0o755)
        }
        try create(path, mode: mode)
    }

    // MARK: Opening

    /// Opens a directory below this one.
    package func directory(_ name: String) throws(DiskError) -> Directory {
        Directory(adopting: try openBeneath(name, flags: O_RDONLY | O_DIRECTORY, to: "open"), path: path + "/" + name)
    }

    /// Opens a directory below this one, or returns nil if there is none with that name.
    package func directory(ifPresent name: String) throws(DiskError) -> Directory? {
        do {
            return try directory(name)
        } catch  where error.kind == .missing || error.kind == .unsuitable {
            return nil
        }
    }

    /// Opens a subdirectory, and creates it if it is missing.
    package func directory(creating name: String, mode: UInt32 = 0o755) throws(DiskError) -> Directory {
        try requireComponent(name, to: "create")
        if mkdirat(descriptor, name, mode) < 0 && errno != EEXIST {
            throw DiskError("create", at: display(name), code: errno)
        }
        return try directory(name)
    }

    /// Creates a subdirectory, which must not exist.
    package func makeDirectory(_ name: String, mode: UInt32 = 0o755) throws(DiskError) {
        try requireComponent(name, to: "create")
        _ = try checked(mkdirat(descriptor, name, mode), to: "create", at: display(name))
    }

    /// Opens a regular file for reading.
    package func file(_ name: String) throws(DiskError) -> File {
        let file = File(
            adopting: try openBeneath(name, flags: O_RDONLY | O_NONBLOCK, to: "open"), path: display(name))
        try file.requireRegular()
        return file
    }

    /// Opens a regular file for reading, or returns nil if there is none with that name.
    package func file(ifPresent name: String) throws(DiskError) -> File? {
        do {
            return try file(name)
        } catch  where error.kind == .missing || error.kind == .unsuitable {
            return nil
        }
    }

    /// Creates a file, which must not exist, for reading and writing.
    package func file(creating name: String, mode: UInt32 = 0o644) throws(DiskError) -> File {
        File(
            adopting: try openBeneath(name, flags: O_RDWR | O_CREAT | O_EXCL, to: "create", mode: mode),
            path: display(name))
    }

    /// Opens a file for reading and writing, and creates it if it is missing.
    package func file(appending name: String, mode: UInt32 = 0o600) throws(DiskError) -> File {
        let file = File(
            adopting: try openBeneath(name, flags: O_RDWR | O_CREAT, to: "open", mode: mode), path: display(name))
        try file.requireRegular()
        return file
    }

    func openBeneath(
        _ name: String, flags: Int32, to operation: String, mode: UInt32 = 0
    ) throws(DiskError) -> Int32 {
        try checkedNegative(clinux_open_beneath(descriptor, name, flags, mode), to: operation, at: display(name))
    }

    // MARK: Names

    /// Renames an entry and replaces a file at `target`.
    package func rename(_ name: String, to target: String) throws(DiskError) {
        try rename(name, to: self, as: target)
    }

    /// Renames an entry into another directory and replaces a file at `target`.
    package func rename(_ name: String, to other: Directory, as target: String) throws(DiskError) {
        try requireComponent(name, to: "rename")
        try requireComponent(target, to: "rename")
        _ = try checked(renameat(descriptor, name, other.descriptor, target), to: "rename", at: display(name))
    }

    /// Renames an entry into another directory. Throws if `target` exists.
    package func move(_ name: String, to other: Directory, as target: String) throws(DiskError) {
        try requireComponent(name, to: "rename")
        try requireComponent(target, to: "rename")
        _ = try checkedNegative(
            clinux_rename_noreplace(descriptor, name, other.descriptor, target), to: "rename", at: display(name))
    }

    /// Creates a hard link in another directory of the same file system.
    package func link(_ name: String, to other: Directory, as target: String) throws(DiskError) {
        try requireComponent(name, to: "link")
        try requireComponent(target, to: "link")
        // Avoids two string copies for each of the thousands of names of a client.
        let result = name.withCString { name in
            target.withCString { linkat(descriptor, name, other.descriptor, $0, 0) }
        }
        // File systems without hard links report different errors.
        if result < 0 && [EOPNOTSUPP, ENOSYS].contains(errno) { errno = EPERM }
        _ = try checked(result, to: "link", at: display(name))
    }

    /// Removes a file, if it exists.
    package func removeFile(_ name: String) throws(DiskError) {
        try requireComponent(name, to: "remove")
        if unlinkat(descriptor, name, 0) < 0 && errno != ENOENT {
            throw DiskError("remove", at: display(name), code: errno)
        }
    }

    /// Removes an entry and everything below it, if it exists. It does not follow links. Throws the first failure after everything
    /// else is removed.
    package func removeTree(_ name: String) throws(DiskError) {
        try requireComponent(name, to: "remove")
        try name.withCString { bytes in
            Result { () throws(DiskError) in try removeTree(bytes) }
        }.get()
    }

    private func removeTree(_ name: UnsafePointer<CChar>) throws(DiskError) {
        if unlinkat(descriptor, name, 0) == 0 || errno == ENOENT { return }
        let code = errno
        let shown = String(cString: name)
        guard code == EISDIR || code == EPERM else { throw DiskError("remove", at: display(shown), code: code) }
        let opened = clinux_open_beneath(descriptor, name, O_RDONLY | O_DIRECTORY, 0)
        // EPERM is also the error of an immutable file.
        if opened == -ENOTDIR { throw DiskError("remove", at: display(shown), code: code) }
        do throws(DiskError) {
            let below = Directory(
                adopting: try checkedNegative(opened, to: "open", at: display(shown)), path: display(shown))
            var obstacle: DiskError?
            for entry in try below.rawNames() {
                do throws(DiskError) { try below.removeTree(entry) } catch { obstacle = obstacle ?? error }
            }
            if let obstacle { throw obstacle }
        } catch  where error.kind == .missing {
            // Another process removes the same tree.
            return
        }
        if unlinkat(descriptor, name, AT_REMOVEDIR) < 0 && errno != ENOENT {
            throw DiskError("remove", at: display(shown), code: errno)
        }
    }

    package enum EntryKind: Sendable { case file(size: Int), directory, symbolicLink, other }

    /// Returns the kind of an entry without following links, or nil if it does not exist.
    package func kind(of name: String) throws(DiskError) -> EntryKind? {
        try requireComponent(name, to: "examine")
        var status = stat()
        if fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) < 0 {
            if errno == ENOENT { return nil }
            throw DiskError("examine", at: display(name), code: errno)
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: return .file(size: Int(status.st_size))
        case S_IFDIR: return .directory
        case S_IFLNK: return .symbolicLink
        default: return .other
        }
    }

    // MARK: Durability

    /// Syncs the entries of this directory.
    package func sync() throws(DiskError) {
        _ = try checked(fsync(descriptor), to: "sync", at: path)
    }

    /// Syncs the whole file system, which is faster than one sync for each file.
    package func syncFileSystem() throws(DiskError) {
        _ = try checkedNegative(clinux_sync_file_system(descriptor), to: "sync", at: path)
    }

    func display(_ name: String) -> String { path + "/" + name }

    /// These calls resolve paths without a limit to this directory, so they accept one component only.
    private func requireComponent(_ name: String, to operation: String) throws(DiskError) {
        if name.utf8.contains(UInt8(ascii: "/")) || name == "." || name == ".." {
            throw DiskError(operation, at: display(name), code: EXDEV)
        }
    }
}
