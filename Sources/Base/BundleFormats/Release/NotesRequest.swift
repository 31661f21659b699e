import BundleSigning
package import BundleValues

/// The release notes, which pages may show.
package enum NotesRequest {
    /// The name of the file beside the archive.
    package static let fileName = "notes.txt"
    /// The maximum size of the file, in bytes.
    package static let maximumBytes = 64 << 10
    /// The number of characters that a device keeps.
    package static let keptCharacters = 2000

    /// Returns the beginning of the notes that `manifest` names by their digest. Returns nil if it names none, and for notes that
    /// cannot be downloaded or have another digest: they do not delay a release.
    package static func text(of manifest: Manifest, beside archive: FetchURL, with fetcher: any Fetcher) async
        -> String?
    {
        guard let digest = manifest.notesSha256, let url = try? archive.file(fileName),
            let bytes = try? await fetcher.fetchBytes(url, maximumBytes: maximumBytes),
            (try? SHA256Digest.of(bytes)) == digest
        else { return nil }
        return String(validating: bytes, as: UTF8.self).map { String($0.prefix(keptCharacters)) }
    }
}
