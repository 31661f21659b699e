import BundleArchive
import BundleDisk
import BundleSigning
import BundleTesting
import BundleValues
import Testing

/// Two trees on disk, and deltas between them.
final class Trees {
    let old: DeltaTree
    let new: DeltaTree
    let pair: TreePair
    let folder: Directory
    private let temporary: TemporaryDirectory

    init(_ pair: TreePair) throws {
        self.pair = pair
        temporary = try TemporaryDirectory.ofTests()
        folder = temporary.directory
        old = try Self.write(pair.old, to: folder.directory(creating: "old"))
        new = try Self.write(pair.new, to: folder.directory(creating: "new"))
    }

    private static func write(_ files: [String: [UInt8]], to folder: Directory) throws -> DeltaTree {
        var entries: [DeltaTree.TreeFile] = []
        var tar: [UInt8] = []
        for (name, bytes) in files.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
            let path = try BundlePath(parsing: name)
            var place = folder
            for part in path.components.dropLast() {
                place = try place.directory(creating: String(decoding: part, as: UTF8.self))
            }
            try bytes.withUnsafeBytes { try place.createFile(path.name, with: $0) }
            entries.append(.init(path: path, size: bytes.count, digest: try SHA256Digest.of(bytes)))
            CanonicalTar.appendHeader(path: path.bytes, size: bytes.count, to: &tar)
            tar += bytes + [UInt8](repeating: 0, count: CanonicalTar.padding(after: bytes.count))
        }
        tar += CanonicalTar.end
        return DeltaTree(tree: folder, files: entries, contentSha256: try SHA256Digest.of(tar))
    }

    /// Creates the delta from the old tree to the new one.
    func make(_ options: DeltaMaker.Options = .quick) throws -> (file: File, made: DeltaMaker.Made) {
        let file = try folder.file(creating: randomName("delta-"))
        return (file, try #require(try DeltaMaker(options).make(from: old, to: new, into: file)))
    }

    /// Creates a file with these bytes.
    func file(_ bytes: [UInt8]) throws -> File {
        let file = try folder.file(creating: randomName("delta-"))
        try bytes.withUnsafeBytes { try file.write($0) }
        return file
    }

    func bounds(_ made: DeltaMaker.Made? = nil) -> DeltaBounds {
        DeltaBounds(
            memory: made?.memory ?? 1 << 20, files: new.files.count, bytes: new.files.reduce(0) { $0 + $1.size },
            deadline: .now + .seconds(600))
    }

    /// Applies a delta and returns the files of the new tree.
    func apply(_ file: File, _ bounds: DeltaBounds) throws -> [String: [UInt8]] {
        let reader = try DeltaReader(file, on: old, within: bounds)
        var files: [String: [UInt8]] = [:]
        var last = ""
        while let entry = try reader.nextEntry() {
            let name = String(decoding: try #require(entry.name), as: UTF8.self)
            #expect(last.utf8.lexicographicallyPrecedes(name.utf8))
            last = name
            var bytes: [UInt8] = []
            while let block = try reader.nextBlock() { bytes += block }
            #expect(bytes.count == entry.size)
            files[name] = bytes
        }
        return files
    }
}

extension DeltaMaker.Options {
    /// Options with small groups, so that small trees have several.
    static var quick: Self {
        var options = Self()
        (options.level, options.groupBytes) = (3, 8 << 10)
        return options
    }
}
