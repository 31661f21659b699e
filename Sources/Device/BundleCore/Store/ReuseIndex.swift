package import BundleValues
package import BundleDisk
package import BundleSigning
import Synchronization

/// Finds content of installed clients by path or digest.
///
/// The index has 16 bytes per file and table; the paths stay in the receipts on the disk. The caller compares the
/// bytes before it links a candidate, since the file may have changed since its receipt was written.
package final class ReuseIndex: Sendable {
    private struct Place {
        var key: UInt64
        var bundle: UInt32
        var offset: UInt32
    }

    package struct ReuseSource: Sendable {
        package let identity: BundleIdentity
        /// The SHA-256 of the canonical tar; for a Meteor bundle, of the file list in its receipt.
        package let contentSha256: SHA256Digest
        package let tree: Directory
        let receipt: File

        /// Returns all files of the client by path.
        package func records() throws -> [BundlePath: Receipt.FileRecord] {
            var records: [BundlePath: Receipt.FileRecord] = [:]
            try Receipt.forEachLine(of: receipt) { line, _ in
                if let record = Receipt.record(line) { records[record.path] = record }
            }
            return records
        }
    }

    /// A file that may have the wanted content.
    package struct ReuseCandidate: Sendable {
        package let tree: Directory
        package let record: Receipt.FileRecord
    }

    private struct Tables: Sendable {
        let byDigest: [Place]
        let byPath: [Place]
        let sources: [ReuseSource]
    }

    private let bundles: [InstalledBundle]
    private let root: Directory
    private let tables = Mutex<Tables?>(nil)

    /// Covers the clients whose receipt and folder can be opened; the last one is preferred.
    ///
    /// The first query builds the tables.
    init(_ bundles: [InstalledBundle], in root: Directory) {
        self.bundles = bundles
        self.root = root
    }

    /// Returns the installed clients of `source`, the last one first.
    package func sources(of source: SourceName) -> [ReuseSource] {
        bundles.reversed().filter { $0.version.source == source }.compactMap { Self.open($0, in: root) }
    }

    /// Returns the files of the installed clients, except `versions`, whose size at installation was in `sizes`. The
    /// keys are sizes.
    package func candidates(
        ofSizes sizes: Set<Int>, besides versions: Set<ClientVersion> = []
    ) throws -> [Int: [ReuseCandidate]] {
        var found: [Int: [ReuseCandidate]] = [:]
        for bundle in bundles.reversed() where !versions.contains(bundle.version) {
            guard let source = Self.open(bundle, in: root) else { continue }
            try Receipt.forEachLine(of: source.receipt) { line, _ in
                guard let record = Receipt.record(line), sizes.contains(record.size) else { return }
                found[record.size, default: []].append(ReuseCandidate(tree: source.tree, record: record))
            }
        }
        return found
    }

    private func current() -> Tables {
        tables.withLock { tables in
            let made = tables ?? Self.tables(of: bundles, in: root)
            tables = made
            return made
        }
    }

    private static func tables(of bundles: [InstalledBundle], in root: Directory) -> Tables {
        var byDigest: [Place] = []
        var byPath: [Place] = []
        var sources: [ReuseSource] = []
        for bundle in bundles.reversed() {
            guard let source = Self.open(bundle, in: root) else { continue }
            let number = UInt32(sources.count)
            sources.append(source)
            // The ledger's count is only a hint, so it is bounded.
            let expected = min(bundle.entry.fileCount, 200_000)
            byDigest.reserveCapacity(byDigest.count + expected)
            if number == 0 { byPath.reserveCapacity(expected) }
            try? Receipt.forEachLine(of: source.receipt) { line, offset in
                guard let key = Self.key(line), let offset = UInt32(exactly: offset) else { return }
                byDigest.append(Place(key: key, bundle: number, offset: offset))
                // An update keeps most paths of the newest client, so only its paths are indexed.
                if number == 0, let path = Self.escapedPath(line) {
                    byPath.append(Place(key: Self.hash(path), bundle: number, offset: offset))
                }
            }
        }
        byDigest.sort { ($0.key, $0.bundle) < ($1.key, $1.bundle) }
        byPath.sort { $0.key < $1.key }
        return Tables(byDigest: byDigest, byPath: byPath, sources: sources)
    }

    private static func open(_ bundle: InstalledBundle, in root: Directory) -> ReuseSource? {
        let receipt = "\(StoreLayout.receipts)/\(StoreLayout.receipt(bundle.version))"
        guard let file = try? root.file(receipt),
            let tree = try? root.directory(StoreLayout.tree(bundle.version))
        else { return nil }
        return ReuseSource(
            identity: bundle.entry.identity, contentSha256: bundle.entry.contentSha256, tree: tree, receipt: file)
    }

    /// Returns the first 8 bytes of the digest at the end of a receipt's line.
    private static func key(_ line: ArraySlice<UInt8>) -> UInt64? {
        let end = line.last == UInt8(ascii: ",") ? line.endIndex - 1 : line.endIndex
        let start = end - Receipt.lineEnd.count - SHA256Digest.hexDigitCount
        guard start >= line.startIndex else { return nil }
        var key: UInt64 = 0
        for byte in line[start..<start + 16] {
            guard let digit = Character(UnicodeScalar(byte)).hexDigitValue else { return nil }
            key = key << 4 | UInt64(digit)
        }
        return key
    }

    private static func key(_ digest: SHA256Digest) -> UInt64 {
        digest.withUnsafeBytes { UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)) }
    }

    /// Returns the path in a receipt's line, with its escapes.
    private static func escapedPath(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let rest = line.dropFirst(Receipt.linePath.count - 1)
        let quote = UInt8(ascii: "\"")
        guard
            let end = rest.indices.first(where: {
                rest[$0] == quote && ($0 == rest.startIndex || rest[$0 - 1] != UInt8(ascii: "\\"))
            })
        else { return nil }
        return rest[..<end]
    }

    /// FNV-1a. Collisions are harmless, since the record is compared.
    private static func hash(_ bytes: some Collection<UInt8>) -> UInt64 {
        bytes.reduce(14_695_981_039_346_656_037) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
    }

    /// Returns the file of the newest client at `path` if it had `size` bytes.
    package func candidate(at path: BundlePath, size: Int) -> ReuseCandidate? {
        candidate(in: \.byPath, key: Self.hash(path.bytes)) { $0.path == path && $0.size == size }
    }

    /// Returns a file that had `size` bytes and `digest` when it was installed.
    package func candidate(_ digest: SHA256Digest, size: Int) -> ReuseCandidate? {
        candidate(in: \.byDigest, key: Self.key(digest)) { $0.digest == digest && $0.size == size }
    }

    private func candidate(
        in table: KeyPath<Tables, [Place]>, key: UInt64, where isWanted: (Receipt.FileRecord) -> Bool
    ) -> ReuseCandidate? {
        if bundles.isEmpty { return nil }
        let tables = current()
        let places = tables[keyPath: table]
        var low = 0
        var high = places.count
        while low < high {
            let middle = (low + high) / 2
            if places[middle].key < key { low = middle + 1 } else { high = middle }
        }
        while low < places.count && places[low].key == key {
            let source = tables.sources[Int(places[low].bundle)]
            if let record = record(in: source, at: Int(places[low].offset)), isWanted(record) {
                return ReuseCandidate(tree: source.tree, record: record)
            }
            low += 1
        }
        return nil
    }

    private func record(in source: ReuseSource, at offset: Int) -> Receipt.FileRecord? {
        // The longest line: a path of 1024 escaped bytes, and the other members.
        withUnsafeTemporaryAllocation(byteCount: 2304, alignment: 1) { buffer in
            guard let count = try? source.receipt.read(into: buffer, at: offset) else { return nil }
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            return Receipt.record(Array(bytes[..<end])[...])
        }
    }
}
