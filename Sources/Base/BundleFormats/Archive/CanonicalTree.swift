package import BundleArchive
package import BundleValues
package import BundleDisk
package import BundleSigning

/// The regular files of a folder in canonical order. A folder with entries that a client cannot have is refused.
package struct CanonicalTree: Sendable {
    package struct CanonicalFile: Sendable, Hashable {
        package let path: BundlePath
        /// The size in bytes when the tree was read.
        package let size: Int
        /// Distinguishes states of the file.
        let stamp: FileStamp
    }

    package let folder: Directory
    /// The files, sorted by the bytes of their paths.
    package let entries: [CanonicalFile]
    /// The patterns that matched no file.
    package let unmatched: [PathPattern]
    private let excluded: [PathPattern]
    private let leftOut: Set<BundlePath>

    /// Lists the files below `folder` except those that `excluded` matches. Throws for symbolic links, devices and
    /// names that an installer refuses.
    package init(_ folder: Directory, excluding excluded: [PathPattern] = []) throws {
        self.folder = folder
        self.excluded = excluded
        leftOut = []
        var found: [CanonicalFile] = []
        var matched: Set<Int> = []
        try Self.list(folder, prefix: [], excluding: excluded, into: &found, matched: &matched)
        unmatched = excluded.indices.filter { !matched.contains($0) }.map { excluded[$0] }
        entries = found.sorted { $0.path < $1.path }
    }

    /// Returns the tree without the files at `paths`.
    package func leavingOut(_ paths: Set<BundlePath>) -> CanonicalTree {
        CanonicalTree(
            folder, entries: entries.filter { !paths.contains($0.path) }, excluded: excluded, unmatched: unmatched,
            leftOut: leftOut.union(paths))
    }

    private init(
        _ folder: Directory, entries: [CanonicalFile], excluded: [PathPattern], unmatched: [PathPattern],
        leftOut: Set<BundlePath>
    ) {
        self.unmatched = unmatched
        self.folder = folder
        self.entries = entries
        self.excluded = excluded
        self.leftOut = leftOut
    }

    private static func list(
        _ folder: Directory, prefix: [UInt8], excluding excluded: [PathPattern], into found: inout [CanonicalFile],
        matched: inout Set<Int>
    ) throws {
        for name in try folder.names() {
            let bytes = prefix + name
            let fitting = excluded.indices.filter { excluded[$0].matches(bytes) }
            matched.formUnion(fitting)
            if !fitting.isEmpty { continue }
            let path: BundlePath
            do { path = try BundlePath(parsing: bytes) } catch { throw ArchiveRejection(error) }
            switch try folder.kind(of: String(decoding: name, as: UTF8.self)) {
            case .file?:
                guard let stamp = try folder.stamp(of: String(decoding: name, as: UTF8.self)) else { continue }
                found.append(CanonicalFile(path: path, size: stamp.size, stamp: stamp))
            case .directory?:
                try list(
                    folder.directory(String(decoding: name, as: UTF8.self)), prefix: bytes + [UInt8(ascii: "/")],
                    excluding: excluded, into: &found, matched: &matched)
            case .symbolicLink?:
                throw ArchiveRejection("type-symlink", entry: path.string, "it is a symbolic link")
            case .other?:
                throw ArchiveRejection("type-special", entry: path.string, "it is neither a file nor a folder")
            case nil: continue
            }
        }
    }

    /// A part of the canonical tar.
    package enum Piece {
        /// The header of a file.
        case header(CanonicalFile, UnsafeRawBufferPointer)
        /// Data of a file. An empty file does not have any.
        case data(CanonicalFile, UnsafeRawBufferPointer)
        /// Zeros after the data of a file and at the end.
        case padding(UnsafeRawBufferPointer)

        /// The bytes. All pieces in order are the canonical tar.
        package var bytes: UnsafeRawBufferPointer {
            switch self {
            case .header(_, let bytes), .data(_, let bytes), .padding(let bytes): bytes
            }
        }
    }

    /// Passes the canonical tar to `body`, piece by piece.
    ///
    /// Throws if the tree changes during the call, because its content is then ambiguous.
    package func stream(_ body: (Piece) throws -> Void) throws {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 4096)
        defer { buffer.deallocate() }
        var header: [UInt8] = []
        for entry in entries {
            header.removeAll(keepingCapacity: true)
            CanonicalTar.appendHeader(path: entry.path.bytes, size: entry.size, to: &header)
            try header.withUnsafeBytes { try body(.header(entry, $0)) }
            try streamData(of: entry, through: buffer, body)
            try CanonicalTar.end.withUnsafeBytes { zeros in
                let padding = CanonicalTar.padding(after: entry.size)
                if padding > 0 { try body(.padding(UnsafeRawBufferPointer(rebasing: zeros[..<padding]))) }
            }
        }
        try CanonicalTar.end.withUnsafeBytes { try body(.padding($0)) }
        try requireUnchanged()
    }

    /// Throws if a name or a stamp differs from the listing. Without this, halves of two versions of a file could pass
    /// as one file.
    private func requireUnchanged() throws {
        let now = try CanonicalTree(folder, excluding: excluded).leavingOut(leftOut).entries
        if now == entries { return }
        let before = Set(entries), after = Set(now)
        let changed = before.symmetricDifference(after).map(\.path).min()
        throw Self.changed(changed?.string ?? folder.path)
    }

    private static func changed(_ path: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: path, "\(path) changed while it was read: let the build finish, then run it again."
        )
    }

    private func streamData(
        of entry: CanonicalFile, through buffer: UnsafeMutableRawBufferPointer, _ body: (Piece) throws -> Void
    ) throws {
        let source: File
        do throws(DiskError) {
            source = try folder.file(entry.path.string)
        } catch {
            if error.kind == .missing { throw Self.changed(entry.path.string) }
            throw error
        }
        var offset = 0
        while offset <= entry.size {
            let count = try source.read(into: buffer, at: offset)
            if count == 0 { break }
            offset += count
            if offset <= entry.size { try body(.data(entry, UnsafeRawBufferPointer(rebasing: buffer[..<count]))) }
        }
        if offset != entry.size {
            throw Self.changed(entry.path.string)
        }
    }

    /// The sum of the file sizes in bytes.
    package var totalBytes: Int { entries.reduce(0) { $0 + $1.size } }

    /// The size of the canonical tar in bytes.
    package var tarBytes: Int {
        var header: [UInt8] = []
        return entries.reduce(CanonicalTar.end.count) { sum, entry in
            header.removeAll(keepingCapacity: true)
            CanonicalTar.appendHeader(path: entry.path.bytes, size: entry.size, to: &header)
            return sum + header.count + entry.size + CanonicalTar.padding(after: entry.size)
        }
    }

    /// Throws for a tree that an installer with `limits` refuses, before anything is packed.
    package func requireInstallable(_ limits: ArchiveLimits, program: ReleaseProgram? = nil) throws {
        let raise = { (flag: String) in "leave some out, or raise \(flag) here and on every device." }
        if let program {
            if let path = program.files.first(where: { path in !entries.contains { $0.path == path } }) {
                throw refusal("no-program: \(path)", "has no file \(path). --program takes a path in that folder.")
            }
        } else if entries.first(where: { $0.path.string == "index.html" }) == nil {
            let other = entries.first { $0.path.string.lowercased().hasPrefix("index.htm") }?.path.string
            throw refusal(
                "no-index",
                "has no index.html at its top: name the folder that contains it."
                    + (other.map { " (It has \($0): rename it.)" } ?? ""))
        }
        if entries.count > limits.entries {
            throw refusal(
                "too-many-entries",
                "has \(counted(entries.count, "file")), but devices accept \(limits.entries): \(raise("--max-files"))")
        }
        if let twins = twins() {
            throw refusal(
                "case-collision: \(twins.paths[0])",
                "has files or folders whose names differ only in \(twins.difference): \(twins.paths.joined(separator: ", ")). "
                    + "Some devices cannot tell them apart. \(twins.paths.count == 2 ? "Rename one." : "Rename all but one of each.")"
            )
        }
        var registry = NameRegistry(expectedNames: entries.count)
        for entry in entries { try registry.addFile(entry.path) }
        if registry.folders > limits.entries {
            throw refusal(
                "too-many-entries",
                "has \(counted(registry.folders, "folder")), but devices accept \(limits.entries): \(raise("--max-files"))"
            )
        }
        if let large = entries.first(where: { $0.size > limits.fileBytes }) {
            throw refusal(
                "file-too-large: \(large.path)",
                "has \(large.path) with \(ByteCount(bytes: large.size)), and devices accept at most "
                    + "\(ByteCount(bytes: limits.fileBytes)) per file: \(raise("--max-file-size"))")
        }
        if totalBytes > limits.installedBytes {
            throw refusal(
                "unpacked-too-large",
                "has \(ByteCount(bytes: totalBytes)) in total, but devices accept \(ByteCount(bytes: limits.installedBytes)): "
                    + raise("--max-installed-size"))
        }
    }

    private func refusal(_ subject: String, _ problem: String) -> UpdateFailure {
        UpdateFailure(.archiveRejected, subject: subject, "\(folder.path) \(problem)")
    }

    /// Returns all paths that differ from another path only in case or Unicode form; nil if there are none.
    private func twins() -> (paths: [String], difference: String)? {
        var spellings: [FoldedName: [BundlePath]] = [:]
        for entry in entries {
            var path: BundlePath? = entry.path
            while let name = path {
                let same = spellings[FoldedName(name.bytes), default: []]
                if same.contains(name) { break }
                spellings[FoldedName(name.bytes)] = same + [name]
                path = name.parent
            }
        }
        let groups = spellings.values.filter { $0.count > 1 }
        if groups.isEmpty { return nil }
        let isOnlyCase = groups.allSatisfy { Set($0.map { Array($0.string.lowercased().utf8) }).count == 1 }
        return (groups.flatMap { $0 }.sorted().map(\.string), isOnlyCase ? "case" : "case or Unicode form")
    }

    /// Returns the SHA-256 of the canonical tar.
    package func digest() throws -> SHA256Digest {
        var hasher = try SHA256Hasher()
        try stream { try hasher.update($0.bytes) }
        return try hasher.finish()
    }
}

extension DeltaTree {
    /// Creates the base or target of a delta. Reads every byte of the tree if `contentSha256` is nil.
    package init(_ tree: CanonicalTree, contentSha256: SHA256Digest? = nil) throws {
        self.init(
            tree: tree.folder, files: tree.entries.map { TreeFile(path: $0.path, size: $0.size) },
            contentSha256: try contentSha256 ?? tree.digest())
    }
}
