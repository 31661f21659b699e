import Glibc

/// The content of a folder at one time, to detect changes.
package struct FolderSnapshot: Equatable, Sendable {
    /// An entry of the folder, or the folder itself.
    package struct Entry: Equatable, Sendable {
        /// The kind and permission bits.
        package let mode: UInt32
        /// The bytes of a regular file; nil for other kinds.
        package let content: [UInt8]?
        /// The modification time in nanoseconds since 1970; nil in a snapshot without times.
        package let modified: Int?
    }

    /// The entries by path; the folder itself is `.`.
    package let entries: [String: Entry]

    /// Reads the folder at `path`. A missing folder has no entries.
    package init(of path: String) throws {
        var entries: [String: Entry] = [:]
        try Self.collect(path, as: ".", into: &entries)
        self.entries = entries
    }

    private init(_ entries: [String: Entry]) { self.entries = entries }

    /// A copy without times.
    package var withoutTimes: FolderSnapshot {
        FolderSnapshot(entries.mapValues { Entry(mode: $0.mode, content: $0.content, modified: nil) })
    }

    /// The paths in the folder, sorted.
    package var paths: [String] { entries.keys.filter { $0 != "." }.sorted() }

    private static func collect(_ path: String, as name: String, into entries: inout [String: Entry]) throws {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return }
            throw SystemCallError("lstat")
        }
        let kind = status.st_mode & S_IFMT
        entries[name] = Entry(
            mode: status.st_mode, content: kind == S_IFREG ? try bytes(of: path, count: Int(status.st_size)) : nil,
            modified: status.st_mtim.tv_sec * 1_000_000_000 + status.st_mtim.tv_nsec)
        guard kind == S_IFDIR else { return }
        for below in try names(in: path) {
            try collect("\(path)/\(below)", as: name == "." ? below : "\(name)/\(below)", into: &entries)
        }
    }

    package static func names(in path: String) throws -> [String] {
        guard let folder = opendir(path) else { throw SystemCallError("opendir") }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names
    }

    private static func bytes(of path: String, count: Int) throws -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemCallError("open") }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: count)
        guard read(descriptor, &bytes, count) == count else { throw SystemCallError("read") }
        return bytes
    }
}
