package import BundleArchive
import BundleValues
package import BundleDisk
package import BundleSigning

/// Checks an archive as an installation does, without installing it.
package enum ArchiveVerifier {
    /// Checks the archive and every number in `manifest`, and returns the SHA-256 of the canonical tar of its tree.
    ///
    /// The caller has checked the digest of the archive itself. An archive with entries out of order is unpacked into
    /// `scratch`, because its content digest needs the whole tree.
    @discardableResult
    package static func check(
        _ file: File, size: Int, of manifest: Manifest, limits: ArchiveLimits, scratch: Directory
    ) throws -> SHA256Digest {
        let (summary, _) = try ArchiveContents.walk(
            file, size: size, expectedFiles: manifest.fileCount, limits: limits.lowered(by: manifest),
            into: ReadingSink())
        let content = try summary.contentSha256 ?? unpacked(file, of: manifest, limits: limits, scratch: scratch)
        try ArchiveContents.require(summary, of: manifest)
        try ArchiveContents.require(content, in: file, of: manifest)
        return content
    }

    /// Applies `delta`, whose bytes are in `file`, to `base` as a device does. Throws if the result is not the release
    /// of `manifest`.
    package static func check(
        _ file: File, _ delta: DeltaList.Delta, on base: DeltaTree, of manifest: Manifest, limits: ArchiveLimits
    ) throws {
        let (summary, _) = try DeltaContents.walk(
            file, applying: delta, on: base, of: manifest, limits: limits, into: ReadingSink())
        _ = try DeltaContents.require(summary, on: base, of: manifest)
    }

    /// Checks the archive by the rules of an installation, without a manifest.
    static func walk(_ file: File, limits: ArchiveLimits) throws {
        _ = try ArchiveContents.walk(
            file, size: try file.size(), expectedFiles: nil, limits: limits, into: ReadingSink())
    }

    private static func unpacked(
        _ file: File, of manifest: Manifest, limits: ArchiveLimits, scratch: Directory
    ) throws -> SHA256Digest {
        let tree = try scratch.directory(creating: "tree")
        return try CanonicalTree(unpack(file, of: manifest, limits: limits, into: tree)).digest()
    }

    /// Unpacks the archive into the empty folder `tree`, and returns it.
    package static func unpack(
        _ file: File, of manifest: Manifest, limits: ArchiveLimits, into tree: Directory
    ) throws -> Directory {
        _ = try ArchiveContents.walk(
            file, size: try file.size(), expectedFiles: manifest.fileCount, limits: limits.lowered(by: manifest),
            into: ScratchSink(root: tree))
        return tree
    }
}

private struct ReadingSink: EntrySink {
    mutating func addDirectory(_ path: BundlePath) {}
    mutating func beginFile(_ path: BundlePath, size: Int) {}
    mutating func append(_ bytes: UnsafeRawBufferPointer) {}
    mutating func endFile() {}
    func abandon() {}
}

private struct ScratchSink: EntrySink {
    let root: Directory
    private var file: File?

    init(root: Directory) { self.root = root }

    mutating func addDirectory(_ path: BundlePath) throws { try makeParents(path.components[...]) }

    mutating func beginFile(_ path: BundlePath, size: Int) throws {
        try makeParents(path.components.dropLast())
        file = try root.file(creating: path.string)
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) throws { try file?.write(bytes) }
    mutating func endFile() { file = nil }
    func abandon() {}

    private func makeParents(_ components: ArraySlice<ArraySlice<UInt8>>) throws {
        var folder = root
        for component in components {
            folder = try folder.directory(creating: String(decoding: component, as: UTF8.self))
        }
    }
}
