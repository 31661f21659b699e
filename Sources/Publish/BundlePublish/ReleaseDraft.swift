package import BundleDisk
import BundleValues

/// A release that is being written.
package protocol ReleaseDraft: AnyObject {
    /// The folder for the archive.
    var scratch: Directory { get }
    /// Whether the feed has the release.
    var isCommitted: Bool { get }
    /// Publishes the release `name`: the file `archive` of `scratch`, then `others` in order, then `manifest`, which
    /// completes the release.
    func commit(_ name: String, archive: String, besides others: [String], manifest: [UInt8]) throws
}

/// A draft in a local folder. A commit writes the archive first and the manifest, which completes the release, last.
final class UploadDraft: ReleaseDraft {
    var scratch: Directory { temporary.directory }
    private(set) var isCommitted = false
    private let temporary: TemporaryDirectory
    private let location: any FeedLocation

    init(to location: any FeedLocation) throws {
        self.location = location
        temporary = try TemporaryDirectory()
    }

    func commit(_ name: String, archive: String, besides others: [String], manifest: [UInt8]) throws {
        let folder = "\(ReleaseFeed.releasesName)/\(name)"
        let content = FeedContent.file(try scratch.file(archive))
        if try !location.create("\(folder)/\(archive)", with: content),
            try location.holds("\(folder)/\(archive)", digest: content.sha256(), size: content.size()) != true
        {
            throw UpdateFailure(
                .versionExists, subject: name,
                "The feed has another archive of \(name) and no manifest: another publisher is writing it, or was stopped. Publish the same content "
                    + "again, or choose a higher version.")
        }
        for other in others {
            // Files without a manifest were left by a stopped publisher.
            let (path, content) = ("\(folder)/\(other)", FeedContent.file(try scratch.file(other)))
            if try !location.create(path, with: content),
                try location.holds(path, digest: content.sha256(), size: content.size()) != true
            {
                try location.remove(path)
                _ = try location.create(path, with: content)
            }
        }
        // Another publisher committed it; the caller compares the releases.
        guard try location.create("\(folder)/\(ReleaseFeed.manifestName)", with: .bytes(manifest)) else {
            throw FeedConflict("\(folder)/\(ReleaseFeed.manifestName)", in: location)
        }
        isCommitted = true
    }
}
