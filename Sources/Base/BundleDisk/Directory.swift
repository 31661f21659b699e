import CLibrary
import CLinux

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

    private func openBeneath(
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

    package func display(_ name: String) -> String { path + "/" + name }

    /// These calls resolve paths without a limit to this directory, so they accept one component only.
    private func requireComponent(_ name: String, to operation: String) throws(DiskError) {
        if name.utf8.contains(UInt8(ascii: "/")) || name == "." || name == ".." {
            throw DiskError(operation, at: display(name), code: EXDEV)
        }
    }
}

/// Whole files.
extension Directory {
    /// Creates a file with these bytes. It does not sync the file.
    package func createFile(_ name: String, with bytes: UnsafeRawBufferPointer) throws(DiskError) {
        let file = try openBeneath(name, flags: O_WRONLY | O_CREAT | O_EXCL, to: "create", mode: 0o644)
        defer { close(file) }
        try writeAll(bytes, to: file, at: display(name))
    }

    /// Returns the bytes of a file, or nil if it does not exist. Throws if the file has more than `maximumBytes` bytes.
    package func contents(_ name: String, maximumBytes: Int) throws(DiskError) -> [UInt8]? {
        do {
            return try file(name).readAll(maximumBytes: maximumBytes)
        } catch  where error.kind == .missing {
            return nil
        }
    }

    /// Replaces a file atomically and durably: writes another file, syncs it, renames it and syncs the directory.
    ///
    /// After an interruption at any point, the file has the old or the new bytes.
    package func replaceFile(_ name: String, with bytes: [UInt8], mode: UInt32 = 0o644) throws(DiskError) {
        try writeAside(name, with: bytes, mode: mode) { aside throws(DiskError) in try rename(aside, to: name) }
    }

    /// Creates a file atomically and durably. Throws if it exists.
    ///
    /// After an interruption at any point, the file is complete or does not exist.
    package func createFileAtomically(_ name: String, with bytes: [UInt8], mode: UInt32) throws(DiskError) {
        try writeAside(name, with: bytes, mode: mode) { aside throws(DiskError) in try move(aside, to: self, as: name) }
    }

    /// Writes and syncs the file `name.new`, and syncs the directory after `publish` has renamed it.
    private func writeAside(
        _ name: String, with bytes: [UInt8], mode: UInt32, publish: (String) throws(DiskError) -> Void
    ) throws(DiskError) {
        let aside = name + ".new"
        try removeFile(aside)
        do throws(DiskError) {
            try createDurableFile(aside, with: bytes, mode: mode)
            try publish(aside)
        } catch {
            // If the removal fails too, the next call removes the file.
            try? removeFile(aside)
            throw error
        }
        try sync()
    }

    /// Replaces a file atomically without a sync, with exactly this mode. Readers see the old or the new file, but a
    /// power failure can lose it. It saves disk writes.
    package func replaceFileWithoutSync(_ name: String, with bytes: [UInt8], mode: UInt32) throws(DiskError) {
        let aside = name + ".new"
        try removeFile(aside)
        let file = try file(creating: aside, mode: mode)
        try file.write(bytes)
        _ = try checked(fchmod(file.descriptor, mode), to: "change", at: file.path)
        try rename(aside, to: name)
    }

    /// Creates a file with these bytes and syncs it. It does not sync the directory.
    package func createDurableFile(_ name: String, with bytes: [UInt8], mode: UInt32 = 0o644) throws(DiskError) {
        let file = try file(creating: name, mode: mode)
        try file.write(bytes)
        try file.sync()
    }

    /// Whether `name` is a file with exactly these bytes. `scratch` must be at least as long as `bytes`.
    package func holds(
        _ name: String, content bytes: UnsafeRawBufferPointer, scratch: UnsafeMutableRawBufferPointer
    ) throws(DiskError) -> Bool {
        let file = clinux_open_beneath(descriptor, name, O_RDONLY | O_NONBLOCK, 0)
        if file < 0 { return false }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size == bytes.count else {
            return false
        }
        guard let wanted = bytes.baseAddress, let found = scratch.baseAddress, bytes.count > 0 else { return true }
        guard read(file, found, bytes.count) == bytes.count else { return false }
        return memcmp(found, wanted, bytes.count) == 0
    }
}

extension Directory {
    package struct DirectoryEntry: Sendable, Equatable {
        /// The name in the bytes of the kernel.
        package let name: [UInt8]
        /// The kind of the entry itself; links are not followed.
        package let kind: Kind

        package enum Kind: Sendable { case file, directory, symbolicLink, other }
    }

    /// Returns the entries in no particular order, without `.` and `..`.
    package func entries() throws(DiskError) -> [DirectoryEntry] {
        var entries: [DirectoryEntry] = []
        try forEachName { name, type throws(DiskError) in
            let kind = try kind(ofType: type, name)
            let bytes = name.withUnsafeBytes { [UInt8]($0.dropLast()) }
            entries.append(DirectoryEntry(name: bytes, kind: kind))
        }
        return entries
    }

    /// Returns the names in the bytes of the kernel, in no particular order, without `.` and `..`.
    package func names() throws(DiskError) -> [[UInt8]] {
        try rawNames().map { $0.dropLast().map(UInt8.init(bitPattern:)) }
    }

    /// Returns the names that are UTF-8, in no particular order. A store has no others.
    package func list() throws(DiskError) -> [String] {
        try names().compactMap { String(validating: $0, as: UTF8.self) }
    }

    /// Returns the names with their terminating zeros.
    private func rawNames() throws(DiskError) -> [[CChar]] {
        var names: [[CChar]] = []
        try forEachName { name, _ in names.append(Array(name)) }
        return names
    }

    /// Some file systems list names without their kinds (`DT_UNKNOWN`); these need an fstatat each.
    func kind(ofType type: UInt8, _ name: ArraySlice<CChar>) throws(DiskError) -> DirectoryEntry.Kind {
        switch Int(type == UInt8(DT_UNKNOWN) ? try examinedType(name) : type) {
        case Int(DT_REG): .file
        case Int(DT_DIR): .directory
        case Int(DT_LNK): .symbolicLink
        default: .other
        }
    }

    private func examinedType(_ name: ArraySlice<CChar>) throws(DiskError) -> UInt8 {
        var status = stat()
        let result = name.withUnsafeBufferPointer { bytes in
            bytes.baseAddress.map { fstatat(descriptor, $0, &status, AT_SYMLINK_NOFOLLOW) } ?? -1
        }
        _ = try checked(result, to: "examine", at: path)
        return UInt8(truncatingIfNeeded: (status.st_mode & S_IFMT) >> 12)
    }

    /// Calls `body` with each name, including its terminating zero, and its `d_type`.
    private func forEachName(_ body: (ArraySlice<CChar>, UInt8) throws(DiskError) -> Void) throws(DiskError) {
        var failure: Int32 = 0
        guard let stream = clinux_open_stream(descriptor, &failure) else {
            throw DiskError("list", at: path, code: failure)
        }
        defer { clinux_close_stream(stream) }
        var name = [CChar](repeating: 0, count: 256)
        var type: UInt8 = 0
        while true {
            let length = Int(
                try checkedNegative(clinux_read_entry(stream, &name, name.count, &type), to: "list", at: path))
            if length == 0 { return }
            try body(name[...length], type)
        }
    }
    /// Returns the paths of all regular files below this directory, in the bytes of the kernel and in no particular
    /// order. It lists each directory once and does not open files.
    package func filePaths() throws(DiskError) -> [[UInt8]] {
        var paths: [[UInt8]] = []
        var directories: [[UInt8]] = [[]]
        while let prefix = directories.popLast() {
            // No client requests names that are not UTF-8.
            guard let name = String(validating: prefix.dropLast(), as: UTF8.self) else { continue }
            for entry in try (prefix.isEmpty ? self : directory(name)).entries() {
                switch entry.kind {
                case .file: paths.append(prefix + entry.name)
                case .directory: directories.append(prefix + entry.name + [UInt8(ascii: "/")])
                case .symbolicLink, .other: break
                }
            }
        }
        return paths
    }
}
