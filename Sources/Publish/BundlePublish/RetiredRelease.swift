import BundleFormats
import BundleSigning
import BundleValues

/// The signed manifest of a release that `feed prune` removed, kept so that its version never gets other content.
enum RetiredRelease {
    static let folder = "retired"

    private static func path(of version: SemanticVersion) -> String { "\(folder)/\(version.folderName).json" }

    /// Stores the manifest of the release `name` before its files are removed.
    static func retire(_ name: String, in location: any FeedLocation) throws {
        let manifest = "\(ReleaseFeed.releasesName)/\(name)/\(ReleaseFeed.manifestName)"
        guard let record = try location.read(manifest, maximumBytes: ManifestFormat.maximumBytes) else { return }
        _ = try location.create("\(folder)/\(name).json", with: .bytes(record.bytes))
    }

    /// Returns the manifest of a removed release; nil if there is none.
    static func manifest(of version: SemanticVersion, in location: any FeedLocation) throws -> UnverifiedManifest? {
        let name = path(of: version)
        guard let record = try location.read(name, maximumBytes: ManifestFormat.maximumBytes) else { return nil }
        do {
            return try ManifestFormat.parse(record.bytes)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: "\(location.address)/\(name)",
                "The feed's \(name), which records the removed release \(version), is not a manifest: \(error). Restore it, or choose a higher version."
            )
        }
    }
}
