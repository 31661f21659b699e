import BundleCore
package import BundleValues
import Synchronization

/// The last accepted channel document, in memory, so that a server need not send it twice. Its signatures and expiry
/// are checked each time.
final class LastDocument: Sendable {
    struct StoredDocument {
        let bytes: [UInt8]
        let tag: String?
    }

    private let kept = Mutex<StoredDocument?>(nil)

    var document: StoredDocument? { kept.withLock { $0 } }

    func keep(_ document: StoredDocument) { kept.withLock { $0 = document.tag == nil ? nil : document } }
}

/// The requests for manifests, channel documents and archives.
package enum ManifestRequest {
    static func fetch(_ url: FetchURL, with fetcher: any Fetcher) async throws -> [UInt8] {
        do {
            return try await fetcher.fetchDocument(url, maximumBytes: ManifestFormat.maximumBytes)
        } catch FetchError.tooLarge {
            throw ManifestRefusal(member: "manifest", problem: "is longer than \(ManifestFormat.maximumBytes) bytes")
        }
    }

    /// Returns the unverified bytes of a channel document.
    package static func fetchChannel(_ url: FetchURL, with fetcher: any Fetcher) async throws -> [UInt8] {
        try await fetchChannel(url, with: fetcher, knowing: nil).bytes
    }

    /// Returns the channel document, or `known` if the server confirms that it is current.
    static func fetchChannel(
        _ url: FetchURL, with fetcher: any Fetcher, knowing known: LastDocument.StoredDocument?
    ) async throws -> LastDocument.StoredDocument {
        do {
            let fetched = try await fetcher.fetchDocument(
                url, maximumBytes: ChannelFormat.maximumBytes, unless: known?.tag)
            if let fetched {
                return LastDocument.StoredDocument(bytes: fetched.bytes, tag: fetched.tag)
            }
            guard let known else {
                throw FetchError.invalidResponse(url, reason: "it reports an unchanged document, but none is stored")
            }
            return known
        } catch FetchError.tooLarge {
            throw DocumentRefusal("channel document", problem: "is longer than \(ChannelFormat.maximumBytes) bytes")
        }
    }

    /// Returns the URL of the archive. A manifest from the network must not lead a device to its own files.
    static func archiveURL(of manifest: Manifest, at manifestURL: FetchURL) throws -> FetchURL {
        let url: FetchURL
        do {
            url = try manifestURL.file(manifest.url)
        } catch {
            throw ManifestRefusal(member: "manifest.url", problem: "cannot be fetched: \(error)")
        }
        if !manifestURL.isFile, !manifestURL.mayLead(to: url) {
            throw ManifestRefusal(
                member: "manifest.url",
                problem: "leads from \(manifestURL.scheme.rawValue) to \(url.scheme.rawValue), which is less protected")
        }
        return url
    }
}

extension FeedAddress {
    /// The folder of the trust roots, relative to the URL of the document.
    var trustFolder: String {
        switch self {
        case .manifest: "trust"
        case .channel: "../trust"
        }
    }
}
