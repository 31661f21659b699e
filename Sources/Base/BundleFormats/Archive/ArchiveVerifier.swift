package import BundleArchive
import BundleValues
package import BundleDisk
package import BundleSigning

/// Checks an archive as an installation does, without installing it.
package enum ArchiveVerifier {
    /// The content of a checked archive.
    package struct Content: Sendable {
        /// The SHA-256 of the canonical tar of its tree.
        package let sha256: SHA256Digest
        /// The origins that its `index.html` declares.
        package let origins: ReleaseOrigins
    }

    /// Checks the archive and every number in `manifest`.
    ///
    /// The caller has checked the digest of the archive itself. An archive with entries out of order is unpacked into
    /// `scratch`, because its content digest needs the whole tree.
    package static func check(
        _ file: File, size: Int, of manifest: Manifest, limits: ArchiveLimits, scratch: Directory
    ) throws -> Content {
        let (summary, sink) = try ArchiveContents.walk(
            file, size: size, expectedFiles: manifest.fileCount, requiring: manifest.requiredFiles,
            limits: limits.lowered(by: manifest),
            into: ReadingSink())
        let content = try summary.contentSha256 ?? unpacked(file, of: manifest, limits: limits, scratch: scratch)
        try ArchiveContents.require(summary, of: manifest)
        try ArchiveContents.require(content, in: file, of: manifest)
        return Content(sha256: content, origins: sink.origins)
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

    /// Checks the archive by the rules of an installation, without a manifest. Returns the origins that it declares.
    @discardableResult
    static func walk(_ file: File, limits: ArchiveLimits) throws -> ReleaseOrigins {
        try ArchiveContents.walk(
            file, size: try file.size(), expectedFiles: nil, limits: limits, into: ReadingSink()
        ).1.origins
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
            file, size: try file.size(), expectedFiles: manifest.fileCount, requiring: manifest.requiredFiles,
            limits: limits.lowered(by: manifest),
            into: ScratchSink(root: tree))
        return tree
    }
}

/// Keeps only the page that devices show first.
private struct ReadingSink: EntrySink {
    /// A larger page declares origins in its first part.
    private static let mostPage = 16 << 20
    private var page: [UInt8] = []
    private var isPage = false

    var origins: ReleaseOrigins { ReleaseOrigins(page: page) }

    mutating func addDirectory(_ path: BundlePath) {}
    mutating func beginFile(_ path: BundlePath, size: Int) { isPage = path == BundlePath.index }
    mutating func append(_ bytes: UnsafeRawBufferPointer) { if isPage, page.count < Self.mostPage { page += bytes } }
    mutating func endFile() { isPage = false }
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
