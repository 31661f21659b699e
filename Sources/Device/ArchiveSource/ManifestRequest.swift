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
            return try document(try await fetcher.fetchBytes(url, maximumBytes: ManifestFormat.maximumBytes), of: url)
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
            let fetched = try await fetcher.fetchBytes(
                url, maximumBytes: ChannelFormat.maximumBytes, unless: known?.tag)
            if let fetched {
                return LastDocument.StoredDocument(bytes: try document(fetched.bytes, of: url), tag: fetched.tag)
            }
            guard let known else {
                throw FetchError.invalidResponse(url, reason: "it reports an unchanged document, but none is stored")
            }
            return known
        } catch FetchError.tooLarge {
            throw DocumentRefusal("channel document", problem: "is longer than \(ChannelFormat.maximumBytes) bytes")
        }
    }

    /// Returns `bytes`, or throws `manifestMalformed` if they are a web page, which the feed itself does not send.
    static func document(_ bytes: [UInt8], of url: FetchURL) throws -> [UInt8] {
        let first = bytes.first { ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        if url.isFile || first != UInt8(ascii: "<") { return bytes }
        throw UpdateFailure(
            .manifestMalformed, subject: url.display,
            "\(url.display) returned a web page instead of a document. If the network has a login page (a captive portal), log "
                + "in with a browser; if not, correct the address of the feed.")
    }

    /// Returns the URL of the archive. A manifest from the network must not lead a device to its own files.
    static func archiveURL(of manifest: Manifest, at manifestURL: FetchURL) throws -> FetchURL {
        let url: FetchURL
        do {
            url = try manifestURL.resolve(relative: manifest.url)
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
