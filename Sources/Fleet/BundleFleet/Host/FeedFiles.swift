import BundleDisk
import BundleServe
import BundleValues
import Synchronization

/// A file of a feed, by its path alone. Only paths that a feed has are opened.
///
/// Other files in the folder, such as a publisher's unfinished work, are not served.
enum FeedFile: Equatable {
    /// Replaced by a rename when it changes.
    case mutable(RequestPath)
    /// Written once.
    case lasting(RequestPath)

    private static let documents = ["manifest.json", "trust.json"].map { Array($0.utf8) }
    private static let folders = ["channels", "trust"].map { Array($0.utf8) }
    private static let releases = Array("releases".utf8)
    /// The only mutable file of a release.
    private static let deltas = Array("deltas.json".utf8)
    private static let unfinished = Array(".new".utf8)
    private static let document = Array(".json".utf8)

    init?(_ path: RequestPath) {
        let parts = path.bytes.split(separator: HTTPBytes.slash, omittingEmptySubsequences: false)
        guard parts.allSatisfy(Self.isShown), let first = parts.first else { return nil }
        switch parts.count {
        case 1 where Self.documents.contains(Array(first)): self = .mutable(path)
        case 2 where Self.folders.contains(Array(first)) && parts[1].suffix(5).elementsEqual(Self.document):
            self = .mutable(path)
        case 3 where first.elementsEqual(Self.releases):
            self = parts[2].elementsEqual(Self.deltas) ? .mutable(path) : .lasting(path)
        default: return nil
        }
    }

    /// Returns false for names with a leading dot, which are hidden or a publisher's, and for unfinished files.
    private static func isShown(_ name: ArraySlice<UInt8>) -> Bool {
        guard let first = name.first, first != UInt8(ascii: ".") else { return false }
        return !name.suffix(unfinished.count).elementsEqual(unfinished)
    }

    var path: RequestPath {
        switch self {
        case .mutable(let path), .lasting(let path): path
        }
    }
}

/// The files of a feed. A file stays open or in memory while it is unchanged.
final class FeedFiles: Sendable {
    private static let largestDocument = 1 << 20

    let root: Directory
    /// Whether the files require a token.
    private let isPrivate: Bool
    private let cache = Mutex(FileCache())

    init(_ root: Directory, isPrivate: Bool) {
        self.root = root
        self.isPrivate = isPrivate
    }

    /// Returns the present file, or nil if there is none. Throws `DiskError` for an unreadable file.
    func find(_ file: FeedFile) throws -> SiteFile? {
        let path = FilePath(bytes: file.path.bytes)
        do {
            let open = try root.file(String(decoding: path.bytes, as: UTF8.self))
            let facts = try FileFacts(of: open)
            if let kept = cache.withLock({ $0.files[path] }), kept.origin == facts.tag { return kept }
            let fresh = try SiteFile(
                open, facts, type: MediaType.of(path.bytes),
                FileDescription(tag: try Self.tag(of: open, facts), caching: caching(of: file)))
            cache.withLock { cache in
                cache.drop(path)
                cache.put(fresh, path)
            }
            return fresh
        } catch let error as DiskError where error.kind == .missing || error.kind == .unsuitable {
            return nil
        }
    }

    /// Returns an entity tag that is equal on all mirrors, so a download can be resumed at another one. The tag of a
    /// document is computed from its content, because two documents of one size may be written within one tick of the
    /// clock. An archive is written once and copied with its modification time.
    private static func tag(of file: File, _ facts: FileFacts) throws -> [UInt8] {
        guard facts.size <= largestDocument else { return facts.portableTag }
        return try Site.tag(of: [try file.readAll(maximumBytes: largestDocument)])
    }

    private func caching(of file: FeedFile) -> String {
        switch file {
        case .mutable: isPrivate ? Caching.privateRevalidated : Caching.revalidated
        case .lasting: isPrivate ? Caching.privateImmutable : Caching.immutable
        }
    }
}
