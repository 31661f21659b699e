import BundleArchive
package import BundleSigning
package import BundleValues

/// Reads an archive, or a delta with its base, applies the rules to each entry, and passes the allowed ones to a sink.
///
/// The rules are those of SECURITY section 3: only files and folders, every path once, canonical names, an `index.html`
/// at the top, and limits that are counted while reading. Any other entry refuses the whole archive.
package struct ArchiveWalk<Sink: EntrySink>: ~Copyable {
    /// The counts and the digest of the entries of an archive.
    package struct Summary: Equatable {
        package let fileCount: Int
        package let installedSize: Int
        /// The SHA-256 of the canonical tar; nil if the entries are not in its order.
        package let contentSha256: SHA256Digest?
    }

    private let reader: any EntryReader
    private let limits: ArchiveLimits
    private var sink: Sink
    private var registry: NameRegistry
    private var hasher: SHA256Hasher
    private var header: [UInt8] = []
    private var lastPath: BundlePath?
    private var isSorted = true
    private var missing: [BundlePath]
    private var entries = 0
    private var fileCount = 0
    private var installedSize = 0

    /// Reads the archive to its end.
    consuming func run() throws -> (Summary, Sink) {
        while let entry = try nextEntry() { try accept(entry) }
        if let path = missing.first {
            throw path == .index
                ? ArchiveRejection("no-index", "index.html is missing at its top")
                : ArchiveRejection("no-program", entry: path.string, "the program is missing")
        }
        try CanonicalTar.end.withUnsafeBytes { try hasher.update($0) }
        let digest = try hasher.finish()
        let summary = Summary(
            fileCount: fileCount, installedSize: installedSize, contentSha256: isSorted ? digest : nil)
        return (summary, sink)
    }

    private func nextEntry() throws -> ArchiveEntry? {
        do throws(ArchiveFailure) { return try reader.nextEntry() } catch { throw error.refusal() }
    }

    private mutating func accept(_ entry: ArchiveEntry) throws {
        entries += 1
        guard let name = entry.name else { throw ArchiveRejection("name-not-utf8", "an entry's name is not UTF-8") }
        if entries > limits.entries {
            throw ArchiveRejection(
                "too-many-entries", entry: UntrustedName.display(name), "more than \(limits.entries) entries")
        }
        try requireAllowedKind(of: entry, named: name)
        if entry.kind == .directory {
            if BundlePath.isArchiveRoot(entryName: name) { return }
            let path = try Self.path(name, isDirectory: true)
            if let size = entry.size, size > 0 {
                throw ArchiveRejection("corrupt", entry: path.string, "it is a folder with data")
            }
            try registry.addDirectory(path)
            try requireFewFolders(at: path)
            try sink.addDirectory(path)
        } else {
            try acceptFile(entry, at: try Self.path(name, isDirectory: false))
        }
    }

    private static func path(_ name: [UInt8], isDirectory: Bool) throws(ArchiveRejection) -> BundlePath {
        do {
            return try BundlePath(archiveEntryName: name, isDirectory: isDirectory)
        } catch {
            throw ArchiveRejection(error)
        }
    }

    private func requireAllowedKind(of entry: ArchiveEntry, named name: [UInt8]) throws(ArchiveRejection) {
        let refusal: (rule: String, reason: String)? =
            switch entry.kind {
            case .symbolicLink: ("type-symlink", "it is a symbolic link")
            case .hardLink: ("type-hardlink", "it is a hard link")
            case .special: ("type-special", "it is neither a file nor a folder")
            case .file, .directory:
                if entry.isEncrypted {
                    ("encrypted", "it is encrypted")
                } else if entry.isSparse {
                    ("sparse", "it has holes")
                } else if !entry.isMethodSupported {
                    ("zip-method", "it is compressed by a method other than deflate")
                } else {
                    nil
                }
            }
        guard let refusal else { return }
        throw ArchiveRejection(refusal.rule, entry: UntrustedName.display(name), refusal.reason)
    }

    private mutating func acceptFile(_ entry: ArchiveEntry, at path: BundlePath) throws {
        guard let size = entry.size, size >= 0 else {
            throw ArchiveRejection("corrupt", entry: path.string, "its size is not stated")
        }
        try registry.addFile(path)
        try requireFewFolders(at: path)
        try require(size: size, of: path)
        if let lastPath, !(lastPath < path) { isSorted = false }
        lastPath = path
        if let index = missing.firstIndex(of: path) { missing.remove(at: index) }

        header.removeAll(keepingCapacity: true)
        CanonicalTar.appendHeader(path: path.bytes, size: size, to: &header)
        try hasher.update(header)
        try sink.beginFile(path, size: size)
        try acceptData(size: size, of: path)
        try sink.endFile()
        let padding = CanonicalTar.padding(after: size)
        if padding > 0 {
            try CanonicalTar.end.withUnsafeBytes { try hasher.update(UnsafeRawBufferPointer(rebasing: $0[..<padding])) }
        }
        fileCount += 1
        installedSize += size
    }

    /// Throws if the entries so far have or imply too many folders. An entry of a few bytes can imply some thirty.
    private func requireFewFolders(at path: BundlePath) throws(ArchiveRejection) {
        if registry.folders <= limits.entries { return }
        throw ArchiveRejection("too-many-entries", entry: path.string, "more than \(limits.entries) folders")
    }

    private func require(size: Int, of path: BundlePath) throws(ArchiveRejection) {
        if size > limits.fileBytes {
            throw ArchiveRejection(
                "file-too-large", entry: path.string, "it is larger than \(ByteCount(bytes: limits.fileBytes))")
        }
        if size > limits.installedBytes - installedSize {
            throw ArchiveRejection(
                "unpacked-too-large", entry: path.string,
                "the files have more than \(ByteCount(bytes: limits.installedBytes)) in all")
        }
    }

    private mutating func acceptData(size: Int, of path: BundlePath) throws {
        var received = 0
        while let block = try nextBlock(path) {
            received += block.count
            if received > size { throw ArchiveRejection("corrupt", entry: path.string, "it is longer than stated") }
            try hasher.update(block)
            try sink.append(block)
        }
        if received != size { throw ArchiveRejection("corrupt", entry: path.string, "it is shorter than stated") }
    }

    private func nextBlock(_ path: BundlePath) throws -> UnsafeRawBufferPointer? {
        do throws(ArchiveFailure) {
            return try reader.nextBlock()
        } catch {
            throw error.refusal(entry: path.string)
        }
    }
}

extension ArchiveWalk {
    /// Reads an archive that must have the files `required`.
    init(
        _ reader: any EntryReader, limits: ArchiveLimits, expectedFiles: Int?,
        requiring required: [BundlePath] = [.index],
        into sink: consuming Sink
    ) throws {
        try self.init(
            reader: reader, limits: limits, sink: sink,
            registry: NameRegistry(expectedNames: min(expectedFiles ?? 0, limits.entries)), hasher: SHA256Hasher(),
            missing: required)
    }
}

/// Receives the files of an archive in order. The unpacker writes them; a verification only reads them.
package protocol EntrySink {
    /// Adds a folder. Its parents were added before, or exist only as part of its path.
    mutating func addDirectory(_ path: BundlePath) throws
    /// Begins a file of `size` bytes.
    mutating func beginFile(_ path: BundlePath, size: Int) throws
    /// Adds the next bytes of the file. They are valid during the call.
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws
    mutating func endFile() throws
    /// Ends the sink after a refused archive. No call follows.
    func abandon()
}

/// Rejects a path that one archive has twice, also if only case or Unicode normalization differ.
///
/// Needs 12 bytes a name: a 64-bit hash of the folded name, a 31-bit hash of its spelling, and a bit for folders.
struct NameRegistry {
    private var names: NameTable
    /// The number of folders that were added, or are part of an added path.
    private(set) var folders = 0
    private var lastParent: ArraySlice<UInt8> = []

    private static let directoryBit: UInt32 = 1 << 31

    init(expectedNames: Int) {
        names = NameTable(expected: expectedNames)
    }

    /// Adds a file and its folders. Throws if the path is already present.
    mutating func addFile(_ path: BundlePath) throws(ArchiveRejection) {
        try addParents(of: path)
        let key = Self.key(path.bytes[...])
        let tag = Self.tag(path.bytes[...])
        guard let known = names.update(key, to: tag) else { return }
        if known == tag { throw ArchiveRejection("duplicate-entry", entry: path.string, "the path occurs twice") }
        if known == tag | Self.directoryBit {
            throw ArchiveRejection("path-conflict", entry: path.string, "it is a file and a folder")
        }
        throw Self.collision(path.string)
    }

    /// Adds a folder, which may be present already.
    mutating func addDirectory(_ path: BundlePath) throws(ArchiveRejection) {
        try addParents(of: path)
        try addDirectory(path.bytes[...])
    }

    private mutating func addParents(of path: BundlePath) throws(ArchiveRejection) {
        let parent = path.bytes.lastIndex(of: UInt8(ascii: "/")).map { path.bytes[..<$0] } ?? []
        if parent.elementsEqual(lastParent) { return }
        for index in parent.indices where parent[index] == UInt8(ascii: "/") { try addDirectory(parent[..<index]) }
        if !parent.isEmpty { try addDirectory(parent) }
        lastParent = parent
    }

    private mutating func addDirectory(_ bytes: ArraySlice<UInt8>) throws(ArchiveRejection) {
        let key = Self.key(bytes)
        let tag = Self.tag(bytes)
        guard let known = names.update(key, to: tag | Self.directoryBit) else {
            folders += 1
            return
        }
        if known == tag | Self.directoryBit { return }
        let name = String(decoding: bytes, as: UTF8.self)
        if known == tag { throw ArchiveRejection("path-conflict", entry: name, "it is a file and a folder") }
        throw Self.collision(name)
    }

    private static func collision(_ name: String) -> ArchiveRejection {
        ArchiveRejection("case-collision", entry: name, "another path differs from it only in case or normalization")
    }

    private static func key(_ bytes: ArraySlice<UInt8>) -> UInt64 { FoldedName.hash(of: bytes) }

    /// FNV-1a, which is sufficient to distinguish the spellings of one folded name.
    private static func tag(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        var hash: UInt32 = 2_166_136_261
        for byte in bytes { hash = (hash ^ UInt32(byte)) &* 16_777_619 }
        return hash & ~directoryBit
    }
}

/// An open-addressing table from 64-bit hashes to 32-bit tags. It needs half the memory of a dictionary; a client may
/// have a hundred thousand names.
struct NameTable {
    private var hashes: [UInt64]
    private var tags: [UInt32]
    private var count = 0

    /// Reserves memory for `expected` names.
    init(expected: Int) {
        var size = 1024
        while Self.isFull(expected, of: size) { size *= 2 }
        hashes = [UInt64](repeating: 0, count: size)
        tags = [UInt32](repeating: 0, count: size)
    }

    /// Up to nine tenths full, linear probing stays short.
    private static func isFull(_ count: Int, of size: Int) -> Bool { count >= size / 10 * 9 }

    /// Stores `tag` under `hash` and returns the previous tag.
    mutating func update(_ hash: UInt64, to tag: UInt32) -> UInt32? {
        if Self.isFull(count, of: hashes.count) { grow() }
        // 0 is a free slot.
        let hash = hash == 0 ? 1 : hash
        let index = slot(of: hash)
        defer {
            hashes[index] = hash
            tags[index] = tag
        }
        if hashes[index] == hash { return tags[index] }
        count += 1
        return nil
    }

    /// Returns the slot of `hash`, or the free slot for it.
    private func slot(of hash: UInt64) -> Int {
        let mask = hashes.count - 1
        var index = Int(truncatingIfNeeded: hash &* 0x9E37_79B9_7F4A_7C15 >> 24) & mask
        while hashes[index] != 0, hashes[index] != hash { index = (index + 1) & mask }
        return index
    }

    private mutating func grow() {
        let old = (hashes, tags)
        hashes = [UInt64](repeating: 0, count: old.0.count * 2)
        tags = [UInt32](repeating: 0, count: old.0.count * 2)
        for (hash, tag) in zip(old.0, old.1) where hash != 0 {
            let index = slot(of: hash)
            hashes[index] = hash
            tags[index] = tag
        }
    }
}
