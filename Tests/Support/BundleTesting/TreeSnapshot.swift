import BundleValues
import Glibc

/// The kind, mode, size and content of every path in a folder at one time.
package struct TreeSnapshot: Equatable, Sendable {
    package struct Entry: Equatable, Sendable {
        /// The kind and permissions, as in `st_mode`.
        package let mode: UInt32
        /// The bytes of a regular file, or the target of a symbolic link; empty for other kinds.
        package let content: [UInt8]

        package var isFile: Bool { mode & UInt32(S_IFMT) == UInt32(S_IFREG) }
    }

    /// The entries by relative path. Invalid names are shown with replacement characters.
    package let entries: [String: Entry]

    /// Reads the folder at `path` without the paths in `omitted`. A missing folder is empty.
    package init(of path: String, without omitted: Set<String> = []) throws {
        var found: [String: Entry] = [:]
        try Self.read(path, prefix: "", omitted: omitted, into: &found)
        entries = found
    }

    /// The contents of the regular files.
    package var files: [String: [UInt8]] { entries.filter(\.value.isFile).mapValues(\.content) }

    package var paths: [String] { entries.keys.sorted() }

    /// Returns the differences from an earlier snapshot, one line per path.
    package func changes(since before: TreeSnapshot) -> [String] {
        Set(entries.keys).union(before.entries.keys).sorted().compactMap { path in
            switch (before.entries[path], entries[path]) {
            case (let old?, let new?) where old == new: nil
            case (let old?, let new?):
                "\(path): mode \(String(old.mode, radix: 8)) to \(String(new.mode, radix: 8)), "
                    + "\(old.content.count) to \(new.content.count) bytes"
            case (nil, _): "\(path) is new"
            case (_, nil): "\(path) is gone"
            }
        }
    }

    /// The snapshot of a store without the versions that its ledger misses. A failed update adds to them, and changes nothing else.
    package var withoutWanted: TreeSnapshot {
        var entries = entries
        entries["ledger.before.json"] = nil
        if let entry = entries["ledger.json"],
            var ledger = (try? JSONScanner.parse(entry.content, maximumBytes: 1 << 20))?.objectValue
        {
            ledger["wanted"] = nil
            ledger["checksum"] = nil
            entries["ledger.json"] = Entry(mode: entry.mode, content: JSONWriter.bytes(of: .object(ledger)))
        }
        return TreeSnapshot(entries)
    }

    private init(_ entries: [String: Entry]) { self.entries = entries }

    private static func read(
        _ path: String, prefix: String, omitted: Set<String>, into found: inout [String: Entry]
    ) throws {
        guard let folder = opendir(path) else {
            if prefix.isEmpty && errno == ENOENT { return }
            throw SystemCallError("opendir \(path)")
        }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name == "." || name == ".." || omitted.contains(prefix + name) { continue }
            let whole = "\(path)/\(name)"
            var status = stat()
            guard lstat(whole, &status) == 0 else { throw SystemCallError("lstat \(whole)") }
            let kind = status.st_mode & UInt32(S_IFMT)
            let content =
                kind == UInt32(S_IFREG) ? try contents(ofFile: whole) : kind == UInt32(S_IFLNK) ? target(whole) : []
            found[prefix + name] = Entry(mode: status.st_mode, content: content)
            if kind == UInt32(S_IFDIR) {
                try read(whole, prefix: "\(prefix)\(name)/", omitted: omitted, into: &found)
            }
        }
    }

    private static func target(_ path: String) -> [UInt8] {
        var bytes = [CChar](repeating: 0, count: 4096)
        let count = readlink(path, &bytes, bytes.count)
        return bytes.prefix(max(0, count)).map { UInt8(bitPattern: $0) }
    }
}

/// Returns the bytes of a file.
package func contents(ofFile path: String) throws -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemCallError("open \(path)") }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw SystemCallError("fstat \(path)") }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Int(status.st_size))
    var chunk = [UInt8](repeating: 0, count: 65536)
    while true {
        let count = read(descriptor, &chunk, chunk.count)
        guard count >= 0 else { throw SystemCallError("read \(path)") }
        if count == 0 { return bytes }
        bytes += chunk[..<count]
    }
}
