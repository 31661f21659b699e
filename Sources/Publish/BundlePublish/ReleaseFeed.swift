import ArchiveSource
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

    /// SHA-256 of a published archive; nil where it is not there.
    static func archiveDigest(
        of version: SemanticVersion, named name: String, in place: any FeedPlace
    ) throws -> SHA256Digest? {
        // Beside its manifest, or nowhere.
        if name.contains("/") { return nil }
        return try place.digest(of: "\(releasesName)/\(version.folderName)/\(name)")
    }

    /// The name of the archive in its release's folder.
    static func archiveName(_ version: SemanticVersion, _ suffix: String) -> String {
        "client-\(version.folderName).\(suffix)"
    }

    /// Shows devices `manifest`, last of all, in the place of what was read.
    static func setNewest(_ manifest: [UInt8], in place: any FeedPlace, after present: FeedRecord?) throws {
        if present?.bytes == manifest { return try place.settle("") }
        try place.replace(manifestName, with: manifest, version: present?.version)
    }
}
