import BundleDisk
import BundleSigning
import BundleValues

/// A write to a feed.
package struct FeedWrite: Sendable, Equatable {
    /// The kind of a write.
    package enum Kind: String, Sendable {
        /// A test of the store's conditional writes, which is written three times.
        case probe
        /// A file that the feed does not have.
        case create
        /// A replacement of a file.
        case replace
        /// The removal of a file.
        case remove
    }

    package let kind: Kind
    /// The path below the feed.
    package let name: String
    package let size: Int
    /// The headers for caches and readers, in order; none for a folder.
    package var headers: [(name: String, value: String)] = []

    package static func == (one: FeedWrite, other: FeedWrite) -> Bool {
        (one.kind, one.name, one.size) == (other.kind, other.name, other.size)
            && one.headers.elementsEqual(other.headers) { $0 == $1 }
    }
}

/// The location of a dry run. Writes stay in memory, and readers see them over the files of the feed.
final class DryRunLocation: FeedLocation {
    var address: LocationAddress { base.address }
    /// The writes, in order.
    private(set) var writes: [FeedWrite] = []
    private let base: any FeedLocation
    /// The written bytes; nil for a file too large to keep, which is not read again.
    private var written: [String: [UInt8]?] = [:]
    private var removed: Set<String> = []

    /// Reads from `base`, which is not changed.
    init(_ base: any FeedLocation) { self.base = base }

    func read(_ name: String, maximumBytes: Int) throws -> FeedRecord? {
        if removed.contains(name) { return nil }
        guard let bytes = written[name] ?? nil else { return try base.read(name, maximumBytes: maximumBytes) }
        return FeedRecord(bytes, version: try Self.version(of: bytes))
    }

    func stream(
        _ name: String, maximumBytes: Int, body: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) throws -> Bool {
        if removed.contains(name) { return false }
        guard let bytes = written[name] ?? nil else {
            return try base.stream(name, maximumBytes: maximumBytes, body: body)
        }
        try bytes.withUnsafeBytes(body)
        return true
    }

    func create(_ name: String, with content: FeedContent) throws -> Bool {
        let folder = name.split(separator: "/").dropLast().joined(separator: "/")
        if try written[name] != nil || base.list(folder).contains(where: { $0.name == name }) { return false }
        switch content {
        case .bytes(let bytes): note(.create, name: name, size: bytes.count, bytes: bytes)
        case .file(let file): note(.create, name: name, size: try file.size(), bytes: nil)
        }
        return true
    }

    func replace(_ name: String, with bytes: [UInt8], version: FeedVersion?) throws {
        guard try read(name, maximumBytes: 64 << 20)?.version == version else { throw FeedConflict(name, in: self) }
        note(version == nil ? .create : .replace, name: name, size: bytes.count, bytes: bytes)
    }

    private func note(_ kind: FeedWrite.Kind, name: String, size: Int, bytes: [UInt8]?) {
        writes += base.requests(of: FeedWrite(kind: kind, name: name, size: size), isFirst: writes.isEmpty)
        written[name] = .some(bytes)
        removed.remove(name)
    }

    private static func version(of bytes: [UInt8]) throws -> FeedVersion {
        FeedVersion("dry run \(try SHA256Digest.of(bytes).hex)")
    }

    func list(_ folder: String) throws -> [FeedEntry] {
        let own = written.filter { folder.isEmpty || $0.key.hasPrefix(folder + "/") }
        return try base.list(folder).filter { own[$0.name] == nil && !removed.contains($0.name) }
            + own.map { FeedEntry(name: $0.key, size: $0.value?.count ?? 0) }
    }

    func remove(_ name: String) throws {
        if name.hasSuffix("/") { return try removeFiles(below: name) }
        guard let size = try read(name, maximumBytes: 64 << 20)?.bytes.count else { return }
        writes += base.requests(of: FeedWrite(kind: .remove, name: name, size: size), isFirst: writes.isEmpty)
        written[name] = nil
        removed.insert(name)
    }
}
