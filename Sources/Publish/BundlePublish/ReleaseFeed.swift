package import BundleFormats
import BundleDisk
import BundleSigning
package import BundleValues

/// The file names of a feed, and access to its releases and `manifest.json`. A release is written once;
/// `manifest.json` is replaced, after everything else.
package enum ReleaseFeed {
    static let manifestName = "manifest.json"
    /// The folder of the releases in a feed.
    package static let releasesName = "releases"

    /// Returns the manifest of a published version; nil if the version is new. Throws for a folder without a
    /// manifest.
    static func published(_ version: SemanticVersion, in location: any FeedLocation) throws -> UnverifiedManifest? {
        let name = "\(releasesName)/\(version.folderName)"
        if let manifest = try read(from: location, "\(name)/\(manifestName)")?.manifest { return manifest }
        // In a folder, a release appears with all its files. In other locations its manifest is the last file.
        guard let folder = location.address.folder, File.exists("\(folder)/\(name)") else { return nil }
        throw UpdateFailure(
            .configInvalid, subject: "\(location.address)/\(name)",
            "The feed's \(name) is not a complete release: it has no \(manifestName). Restore it, or remove \(name), then publish "
                + "again.")
    }

    /// Returns the manifest that devices see now.
    package static func newest(in location: any FeedLocation) throws -> UnverifiedManifest? {
        try read(from: location, manifestName)?.manifest
    }

    /// Returns the manifest with its record.
    static func newestRecord(in location: any FeedLocation) throws -> (
        manifest: UnverifiedManifest, record: FeedRecord
    )? {
        try read(from: location, manifestName)
    }

    private static func read(
        from location: any FeedLocation, _ name: String
    ) throws -> (manifest: UnverifiedManifest, record: FeedRecord)? {
        guard let record = try location.read(name, maximumBytes: ManifestFormat.maximumBytes) else { return nil }
        do {
            return (try ManifestFormat.parse(record.bytes), record)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: "\(location.address)/\(name)",
                "The feed's \(name) is not a manifest (\(error)). Repair or remove it, then publish again.")
        }
    }

    /// Returns the versions in the feed, in no order.
    static func versions(in location: any FeedLocation) throws -> [SemanticVersion] {
        try location.list(releasesName).compactMap { entry in
            let parts = entry.name.split(separator: "/")
            guard parts.count == 3, parts[2] == manifestName else { return nil }
            return try? SemanticVersion(parsingFolderName: String(parts[1]))
        }
    }

    /// Unpacks a published release into the empty folder `scratch`.
    static func unpack(
        _ release: Manifest, in location: any FeedLocation, limits: ArchiveLimits, into scratch: Directory
    ) throws -> CanonicalTree {
        let archive = try scratch.file(creating: "archive")
        var hasher = try SHA256Hasher()
        let name = "\(releasesName)/\(release.version.folderName)/\(release.url)"
        let isThere = try location.stream(name, maximumBytes: release.size ?? limits.archiveBytes) {
            try hasher.update($0)
            try archive.write($0)
        }
        // An archive is only valid beside its manifest.
        guard isThere, !release.url.contains("/"), try hasher.finish() == release.sha256 else {
            throw UpdateFailure(
                .digestMismatch, subject: release.url,
                "The archive of \(release.version) in the feed is missing or is not the signed one. Restore it.")
        }
        let tree = try scratch.directory(creating: "tree")
        return try CanonicalTree(ArchiveVerifier.unpack(archive, of: release, limits: limits, into: tree))
    }

    /// Returns the list of deltas of a published release; nil if it has none.
    package static func deltas(of version: SemanticVersion, in location: any FeedLocation) throws -> FeedRecord? {
        try location.read(
            "\(releasesName)/\(version.folderName)/\(DeltaListFormat.fileName)",
            maximumBytes: DeltaListFormat.maximumBytes)
    }

    /// Returns whether the feed has the archive that the manifest of a published release names.
    static func hasArchive(of release: Manifest, in location: any FeedLocation) throws -> Bool {
        // An archive is only valid beside its manifest.
        if release.url.contains("/") { return false }
        return try location.holds(
            "\(releasesName)/\(release.version.folderName)/\(release.url)", digest: release.sha256,
            size: release.size ?? .max)
            == true
    }

    /// Returns the name of the archive in its release's folder.
    static func archiveName(of version: SemanticVersion, suffix: String) -> String {
        "client-\(version.folderName).\(suffix)"
    }

    /// Replaces `present` with `manifest` as the last step of a publication. Throws if a channel recalls its release.
    static func setNewest(_ manifest: [UInt8], in location: any FeedLocation, after present: FeedRecord?) throws {
        if present?.bytes == manifest { return }
        try FeedRecalls(in: location).requireManifest(try ManifestFormat.parse(manifest).claims.version)
        try location.replace(manifestName, with: manifest, version: present?.version)
    }
}
