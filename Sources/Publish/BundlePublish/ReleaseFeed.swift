import ArchiveSource
import BundleValues
import BundleDisk
import BundleSigning
import Glibc

/// A feed as a folder: releases are write-once, `manifest.json` is replaced by rename and written last.
///
/// A stop at any point leaves a feed that devices can use; publishing again completes it.
enum ReleaseFeed {
    static let manifestName = "manifest.json"
    fileprivate static let releasesName = "releases"

    /// The feed's folder as it is; nil where there is none.
    static func folder(at path: String) throws -> Directory? {
        File.exists(path) ? try Directory.open(path) : nil
    }

    /// The manifest of a version published before; nil where it is new.
    static func published(_ version: SemanticVersion, at path: String) throws -> UnverifiedManifest? {
        guard let root = try? Directory.open(path) else { return nil }
        return try published(version, in: root)
    }

    /// The same of an open feed. A folder without its manifest is refused: no release can take its name.
    static func published(_ version: SemanticVersion, in root: Directory) throws -> UnverifiedManifest? {
        let name = "\(releasesName)/\(version.folderName)"
        if let manifest = try read(root, "\(name)/\(manifestName)") { return manifest }
        guard case .directory? = try root.kind(of: releasesName),
            try root.directory(releasesName).kind(of: version.folderName) != nil
        else { return nil }
        throw UpdateFailure(
            .configInvalid, subject: "\(root.path)/\(name)",
            "The feed's \(name) is no complete release, it has no \(manifestName): restore it, or remove \(name), then publish "
                + "again.")
    }

    /// The manifest that devices see now.
    static func newest(at path: String) throws -> UnverifiedManifest? {
        guard let root = try? Directory.open(path) else { return nil }
        return try newest(in: root)
    }

    static func newest(in root: Directory) throws -> UnverifiedManifest? { try read(root, manifestName) }

    /// The same as it stands there.
    static func newestBytes(in root: Directory) throws -> [UInt8]? {
        try root.contents(manifestName, maximumBytes: ManifestFormat.maximumBytes)
    }

    private static func read(_ root: Directory, _ name: String) throws -> UnverifiedManifest? {
        guard let bytes = try root.contents(name, maximumBytes: ManifestFormat.maximumBytes) else { return nil }
        do {
            return try ManifestFormat.parse(bytes)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: "\(root.path)/\(name)",
                "The feed's \(name) is not a manifest (\(error)): repair or remove it, then publish again.")
        }
    }

    /// The versions that the feed at `path` has, in no order.
    static func versions(at path: String) throws -> [SemanticVersion] {
        guard let root = try folder(at: path), case .directory? = try root.kind(of: releasesName) else { return [] }
        return try root.directory(releasesName).list().compactMap { try? SemanticVersion(parsingFolderName: $0) }
    }

    /// The files of a published release, in the empty folder `scratch`.
    static func unpack(
        _ release: Manifest, at path: String, _ limits: ArchiveLimits, into scratch: Directory
    ) throws -> CanonicalTree {
        let version = release.version
        guard try archiveDigest(of: version, named: release.url, at: path) == release.sha256 else {
            throw UpdateFailure(
                .digestMismatch, subject: release.url,
                "The archive of \(version) in the feed is missing or is not the one that was signed: restore it.")
        }
        let file = try Directory.open(path).directory("\(releasesName)/\(version.folderName)").file(release.url)
        return try CanonicalTree(ArchiveVerifier.unpack(file, of: release, limits: limits, into: scratch))
    }

    /// The list of deltas of a published release as it stands there; nil where it has none.
    static func deltas(of version: SemanticVersion, in root: Directory?) throws -> [UInt8]? {
        try root?.contents(
            "\(releasesName)/\(version.folderName)/\(DeltaListFormat.fileName)",
            maximumBytes: DeltaListFormat.maximumBytes)
    }

    /// SHA-256 of a published archive; nil where it is not there.
    static func archiveDigest(of version: SemanticVersion, named name: String, at path: String) throws -> SHA256Digest?
    {
        // Beside its manifest, or nowhere.
        if name.contains("/") { return nil }
        let folder = try Directory.open(path).directory("\(releasesName)/\(version.folderName)")
        guard case .file? = try folder.kind(of: name) else { return nil }
        var hasher = try SHA256Hasher()
        _ = try folder.file(name).forEachBlock { try hasher.update($0) }
        return try hasher.finish()
    }

    /// The name of the archive in its release's folder.
    static func archiveName(_ version: SemanticVersion, _ suffix: String) -> String {
        "client-\(version.folderName).\(suffix)"
    }

    /// Makes the names in the feed durable: of what this publisher wrote, or one that was stopped before it got there.
    static func sync(_ root: Directory) throws {
        if case .directory? = try root.kind(of: releasesName) { try root.directory(releasesName).sync() }
        try root.sync()
    }

    /// Shows devices `manifest`, last of all.
    static func setNewest(_ manifest: [UInt8], in root: Directory) throws {
        if try newestBytes(in: root) == manifest { return try root.sync() }
        try root.replaceFile(manifestName, with: manifest)
    }
}

/// A release under construction: in the feed, but under no name that anybody asks for. Gone with this value unless it was given its
/// name, and with the next publisher where this one was stopped.
final class ReleaseDraft {
    private static let prefix = ".publish-"

    let folder: Directory
    private let releases: Directory
    private let name: String
    /// Says that somebody is at work on it.
    private let lock: FileLock
    private var isNamed = false

    /// Makes one in the feed at `path`, which is created where it is missing.
    init(inFeed path: String, _ wait: FeedWait) throws {
        try Directory.createAll(path)
        let feed = try FeedFolder(at: path, wait)
        releases = try feed.root.directory(creating: ReleaseFeed.releasesName)
        for name in try releases.list() where name.hasPrefix(Self.prefix) { try Self.removeAbandoned(name, releases) }
        name = randomName(Self.prefix)
        try releases.makeDirectory(name)
        folder = try releases.directory(name)
        guard let lock = try FileLock.take(folder) else { throw DiskError("lock", folder.path, code: EWOULDBLOCK) }
        self.lock = lock
        withExtendedLifetime(feed) {}
    }

    deinit {
        if !isNamed { try? releases.removeTree(name) }
    }

    private static func removeAbandoned(_ name: String, _ releases: Directory) throws {
        guard case .directory? = try releases.kind(of: name) else { return try releases.removeTree(name) }
        guard let lock = try FileLock.take(releases.directory(name)) else { return }
        try withExtendedLifetime(lock) { try releases.removeTree(name) }
    }

    /// Gives it its name, durably. The feed is locked.
    func commit(_ version: SemanticVersion, manifest: [UInt8]) throws {
        try folder.replaceFile(ReleaseFeed.manifestName, with: manifest)
        try releases.move(name, to: releases, as: version.folderName)
        isNamed = true
        try releases.sync()
    }
}
