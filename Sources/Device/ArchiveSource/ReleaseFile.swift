package import BundleCore
package import BundleDisk
package import BundleSigning
package import BundleValues

/// An archive or a delta that documents of a feed name. Their signatures are not checked, so this is for caches only.
package struct ReleaseFile: Sendable {
    private let url: FetchURL
    package let sha256: SHA256Digest
    /// The size in bytes, if the document has it.
    package let size: Int?

    /// Returns the archives of the releases in a channel file or a manifest.
    package static func offered(in address: FeedAddress, with fetcher: any Fetcher) async throws -> [ReleaseFile] {
        let manifests: [Manifest]
        switch address {
        case .manifest(let url):
            manifests = [try ManifestFormat.parse(try await ManifestRequest.fetch(url, with: fetcher)).claims]
        case .channel(let url):
            let bytes = try await ManifestRequest.fetchChannel(url, with: fetcher)
            let document = try ChannelFormat.parse(try ChannelFormat.envelope(parsing: bytes)).claims
            manifests = document.releases.map(\.manifest.claims)
        }
        return manifests.compactMap { manifest in
            (try? ManifestRequest.archiveURL(of: manifest, at: address.url)).map {
                ReleaseFile(url: $0, sha256: manifest.sha256, size: manifest.size)
            }
        }
    }

    /// Returns the deltas in the list at `url`; none if there is no list.
    package static func deltas(at url: FetchURL, with fetcher: any Fetcher) async throws -> [ReleaseFile] {
        let bytes: [UInt8]
        do {
            bytes = try await fetcher.fetchDocument(url, maximumBytes: DeltaListFormat.maximumBytes)
        } catch let error as FetchError where error.isAbsence {
            return []
        }
        return try DeltaListFormat.parse(try DeltaListFormat.envelope(parsing: bytes)).deltas.compactMap { delta in
            guard let found = try? url.file(delta.url), url.mayLead(to: found) else { return nil }
            return ReleaseFile(url: found, sha256: delta.sha256, size: delta.size)
        }
    }

    /// Returns the path below the feed at `root`, such as `releases/v1.5.0/client.tar.zst`; nil for a file elsewhere.
    package func path(below root: FetchURL) -> String? {
        let (address, root) = (url.withoutQuery, root.withoutQuery)
        let path = address.hasPrefix(root) ? address.dropFirst(root.utf8.count) : ""
        return path.hasPrefix("releases/") ? String(path) : nil
    }

    /// The name of the download in its folder.
    package var partName: String { sha256.hex + ArchiveSpool.partSuffix }

    /// Downloads the file of at most `limit` bytes to `folder`, under the name `partName`, and compares its digest. Returns its size.
    /// Continues an earlier download.
    package func download(with fetcher: any Fetcher, into folder: Directory, atMost limit: Int) async throws -> Int {
        let download = ArchiveDownload(
            SignedFile(name: "file", sha256: sha256, size: size), at: url,
            maximumBytes: min(limit, ArchiveLimits().archiveBytes),
            fetcher: fetcher, into: folder, report: UpdateObserver())
        return try await download.run().size
    }
}
