import ArchiveSource
import BundleDisk
import BundleSigning
import BundleValues

/// What a feed's files are called, and how its releases and `manifest.json` are read and shown: releases are written once,
/// `manifest.json` is replaced, last of all.
enum ReleaseFeed {
    static let manifestName = "manifest.json"
    static let releasesName = "releases"

    /// The manifest of a version published before; nil where it is new. A folder without its manifest is refused: no release can take
    /// its name.
    static func published(_ version: SemanticVersion, in place: any FeedPlace) throws -> UnverifiedManifest? {
        let name = "\(releasesName)/\(version.folderName)"
        if let manifest = try read(place, "\(name)/\(manifestName)")?.manifest { return manifest }
        guard try place.isIncomplete(version.folderName) else { return nil }
        throw UpdateFailure(
            .configInvalid, subject: "\(place.address)/\(name)",
            "The feed's \(name) is no complete release, it has no \(manifestName): restore it, or remove \(name), then publish "
                + "again.")
    }

    /// The manifest that devices see now.
    static func newest(in place: any FeedPlace) throws -> UnverifiedManifest? {
        try read(place, manifestName)?.manifest
    }

    /// The same as it stands there.
    static func newestRecord(in place: any FeedPlace) throws -> (manifest: UnverifiedManifest, record: FeedRecord)? {
        try read(place, manifestName)
    }

    private static func read(
        _ place: any FeedPlace, _ name: String
    ) throws -> (manifest: UnverifiedManifest, record: FeedRecord)? {
        guard let record = try place.read(name, maximumBytes: ManifestFormat.maximumBytes) else { return nil }
        do {
            return (try ManifestFormat.parse(record.bytes), record)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: "\(place.address)/\(name)",
                "The feed's \(name) is not a manifest (\(error)): repair or remove it, then publish again.")
        }
    }

    /// The versions that the feed has, in no order.
    static func versions(in place: any FeedPlace) throws -> [SemanticVersion] {
        try place.list(releasesName).compactMap { entry in
            let parts = entry.name.split(separator: "/")
            guard parts.count == 3, parts[2] == manifestName else { return nil }
            return try? SemanticVersion(parsingFolderName: String(parts[1]))
        }
    }

    /// The files of a published release, in the empty folder `scratch`, with its archive beside them.
    static func unpack(
        _ release: Manifest, in place: any FeedPlace, _ limits: ArchiveLimits, into scratch: Directory
    ) throws -> CanonicalTree {
        let archive = try scratch.file(creating: "archive")
        var hasher = try SHA256Hasher()
        let name = "\(releasesName)/\(release.version.folderName)/\(release.url)"
        let isThere = try place.stream(name, maximumBytes: release.size ?? limits.archiveBytes) {
            try hasher.update($0)
            try archive.write($0)
        }
        // Beside its manifest, or nowhere.
        guard isThere, !release.url.contains("/"), try hasher.finish() == release.sha256 else {
            throw UpdateFailure(
                .digestMismatch, subject: release.url,
                "The archive of \(release.version) in the feed is missing or is not the one that was signed: restore it."
            )
        }
        let tree = try scratch.directory(creating: "tree")
        return try CanonicalTree(ArchiveVerifier.unpack(archive, of: release, limits: limits, into: tree))
    }

    /// The list of deltas of a published release as it stands there; nil where it has none.
    static func deltas(of version: SemanticVersion, in place: any FeedPlace) throws -> FeedRecord? {
        try place.read(
            "\(releasesName)/\(version.folderName)/\(DeltaListFormat.fileName)",
            maximumBytes: DeltaListFormat.maximumBytes)
    }

    /// Whether the archive of a published release is there and is the one that its manifest names.
    static func hasArchive(of release: Manifest, in place: any FeedPlace) throws -> Bool {
        // Beside its manifest, or nowhere.
        if release.url.contains("/") { return false }
        return try place.holds(
            "\(releasesName)/\(release.version.folderName)/\(release.url)", release.sha256, size: release.size ?? .max)
            == true
    }

    /// The name of the archive in its release's folder.
    static func archiveName(_ version: SemanticVersion, _ suffix: String) -> String {
        "client-\(version.folderName).\(suffix)"
    }

    /// Shows devices `manifest`, last of all, in the place of what was read. Refuses a release that a channel recalls.
    static func setNewest(_ manifest: [UInt8], in place: any FeedPlace, after present: FeedRecord?) throws {
        if present?.bytes == manifest { return try place.settle("") }
        try FeedRecalls(in: place).requireManifest(try ManifestFormat.parse(manifest).claims.version)
        try place.replace(manifestName, with: manifest, version: present?.version)
    }
}
