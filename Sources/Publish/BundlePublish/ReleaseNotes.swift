package import ArchiveSource
import BundleSigning
import BundleValues

/// The notes of a release: a text file beside it, so that the channel document, which every device downloads, has only its digest.
package enum ReleaseNotes {
    static let fileName = "notes.txt"
    /// The longest notes, in bytes.
    package static let maximumBytes = 64 << 10

    /// The notes of `manifest` in the feed `place`; nil if there are none, or if their digest is another.
    package static func text(of manifest: Manifest, in place: any FeedPlace) throws -> String? {
        guard let digest = manifest.notesSha256 else { return nil }
        let name = "\(ReleaseFeed.releasesName)/\(manifest.version.folderName)/\(fileName)"
        guard let bytes = try? place.read(name, maximumBytes: maximumBytes)?.bytes,
            try SHA256Digest.of(bytes) == digest
        else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}
