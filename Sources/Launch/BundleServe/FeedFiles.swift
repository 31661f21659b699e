import BundleDisk
import Synchronization

/// The files of a feed as they are at each request. What is open or in memory stays so while it is the same file.
final class FeedFiles: Sendable {
    private let root: Directory
    /// Whether not everybody may have them.
    private let isPrivate: Bool
    private let shelf = Mutex(FileShelf())

    init(_ root: Directory, isPrivate: Bool) {
        self.root = root
        self.isPrivate = isPrivate
    }

    /// The file as it is now, or nil where there is none. Throws `DiskError` for one that cannot be read.
    func find(_ file: FeedFile) throws -> SiteFile? {
        let path = FilePath(bytes: file.path.bytes)
        do {
            let open = try root.file(String(decoding: path.bytes, as: UTF8.self))
            let facts = try FileFacts(of: open)
            if let kept = shelf.withLock({ $0.files[path] }), kept.tag == facts.tag { return kept }
            let fresh = try SiteFile(
                open, facts, type: MediaType.of(path.bytes),
                FileDescription(tag: facts.tag, caching: caching(of: file)))
            shelf.withLock { shelf in
                shelf.drop(path)
                shelf.put(fresh, path)
            }
            return fresh
        } catch let error as DiskError where error.kind == .missing || error.kind == .unsuitable {
            return nil
        }
    }

    private func caching(of file: FeedFile) -> String {
        switch file {
        case .mutable: isPrivate ? Caching.privateRevalidated : Caching.revalidated
        case .lasting: isPrivate ? Caching.privateImmutable : Caching.immutable
        }
    }
}
