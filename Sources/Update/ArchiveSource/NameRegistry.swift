import BundleValues

/// Every path of one archive once, as a file or as a folder, also for disks that ignore case or normalisation.
///
/// Keeps 12 bytes a name: a 64-bit hash of the folded name, and 31 bits that tell spellings apart.
struct NameRegistry {
    private var names: NameTable
    private var lastParent: ArraySlice<UInt8> = []

    private static let directoryBit: UInt32 = 1 << 31

    init(expectedNames: Int) {
        names = NameTable(expected: expectedNames)
    }

    /// Takes a file's path, and its folders; refuses one that is taken.
    mutating func addFile(_ path: BundlePath) throws(ArchiveRejection) {
        try addParents(of: path)
        let key = Self.key(path.bytes[...])
        let tag = Self.tag(path.bytes[...])
        guard let taken = names.update(key, to: tag) else { return }
        if taken == tag { throw ArchiveRejection("duplicate-entry", entry: path.string, "the path comes twice") }
        if taken == tag | Self.directoryBit {
            throw ArchiveRejection("path-conflict", entry: path.string, "it is a file and a folder")
        }
        throw Self.collision(path.string)
    }

    /// Takes a folder's path; the same folder may come again.
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
        guard let taken = names.update(key, to: tag | Self.directoryBit) else { return }
        if taken == tag | Self.directoryBit { return }
        let name = String(decoding: bytes, as: UTF8.self)
        if taken == tag { throw ArchiveRejection("path-conflict", entry: name, "it is a file and a folder") }
        throw Self.collision(name)
    }

    private static func collision(_ name: String) -> ArchiveRejection {
        ArchiveRejection("case-collision", entry: name, "another path differs from it only in case or normalisation")
    }

    private static func key(_ bytes: ArraySlice<UInt8>) -> UInt64 { FoldedName.hash(of: bytes) }

    /// FNV-1a, which is enough to tell spellings of one folded name apart.
    private static func tag(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        var hash: UInt32 = 2_166_136_261
        for byte in bytes { hash = (hash ^ UInt32(byte)) &* 16_777_619 }
        return hash & ~directoryBit
    }
}
