// fuzz: max_len=8192
//
// Applies a delta to a small tree: as it is, and with its bytes as the uncompressed index.
@testable import ArchiveSource
@testable import BundleArchive
@testable import BundleDisk
@testable import BundleSigning
@testable import BundleValues

private let tree = require(try? TemporaryDirectory(), "a folder can be created")

private let base: DeltaTree = {
    var entries: [DeltaTree.TreeFile] = []
    for (name, count) in [("a.js", 700), ("b.js", 0), ("index.html", 3000), ("z.css", 40)] {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 3) }
        guard let path = try? BundlePath(parsing: name), let digest = try? SHA256Digest.of(bytes),
            (try? bytes.withUnsafeBytes { try tree.directory.createFile(name, with: $0) }) != nil
        else { fatalError("the tree can be created") }
        entries.append(.init(path: path, size: count, digest: digest))
    }
    let content = require(try? SHA256Digest.of([]), "a digest can be computed")
    return DeltaTree(tree: tree.directory, files: entries, contentSha256: content)
}()

private let bounds = DeltaBounds(memory: 64 << 10, files: 16, bytes: 64 << 10, deadline: .now + .seconds(3600))

func fuzz(_ input: [UInt8]) throws {
    try apply(input)
    guard let first = input.first, input.count > 2 else { return }
    let length = min(input.count - 2, Int(first) << 8 | Int(input[1]))
    let rest = input[(2 + length)...]
    // The fuzzer cannot guess the digests of the two trees.
    var index: [UInt8] = []
    base.contentSha256.withUnsafeBytes { index += $0 }
    base.contentSha256.withUnsafeBytes { index += $0 }
    index += input[2..<2 + length]
    let frame = try index.withUnsafeBytes {
        try PrefixedFrameWriter().frame(
            of: $0, behind: UnsafeRawBufferPointer(start: nil, count: 0), level: 1, windowLog: 14)
    }
    try apply(DeltaFormat.header(frameBytes: frame.count, bytes: index.count) + frame + rest)
}

private func apply(_ bytes: [UInt8]) throws {
    let file = try File.inMemory(bytes, named: "delta")
    do throws(ArchiveFailure) {
        let reader = try DeltaReader(file, on: base, within: bounds)
        var (files, total) = (0, 0)
        var last: [UInt8] = []
        while let entry = try reader.nextEntry() {
            let name = require(entry.name, "an entry has a name")
            require(last.isEmpty || last.lexicographicallyPrecedes(name), "the entries are in order")
            last = name
            var count = 0
            while let block = try reader.nextBlock() {
                require(!block.isEmpty, "a block has bytes")
                count += block.count
            }
            require(count == entry.size, "an entry has its size")
            files += 1
            total += count
        }
        require(files <= bounds.files, "the number of files is within the limit")
    } catch {
        require(error.rule != nil || "\(error)".contains("cannot"), "a refusal has a rule: \(error)")
    }
}
