package import BundleFormats
import BundleSigning
import BundleValues

/// The notes of a release: a text file beside its manifest. The channel file, which every device downloads, has only
/// its digest.
package enum ReleaseNotes {
    static let fileName = NotesRequest.fileName
    /// The maximum size of notes, in bytes.
    package static let maximumBytes = NotesRequest.maximumBytes

    /// Returns the notes of `manifest` in the feed at `location`; nil if there are none, or if their digest differs.
    package static func text(of manifest: Manifest, in location: any FeedLocation) throws -> String? {
        guard let digest = manifest.notesSha256 else { return nil }
        let name = "\(ReleaseFeed.releasesName)/\(manifest.version.folderName)/\(fileName)"
        guard let bytes = try? location.read(name, maximumBytes: maximumBytes)?.bytes,
            try SHA256Digest.of(bytes) == digest
        else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}
