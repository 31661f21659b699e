package import BundleSigning

/// The file format of a delta, which `Guide/reference/deltas.md` specifies.
package enum DeltaFormat {
    /// The first bytes of a delta: a name and the version of the format.
    package static let magic: [UInt8] = Array("SWAPDLT".utf8) + [1]
    /// The number of bytes before the index.
    package static let headerBytes = magic.count + 8

    /// Returns the longest index of a tree with `files` files. A longer one is rejected before it is read.
    package static func maximumIndexBytes(files: Int) -> Int { 4096 + 1200 * min(max(0, files), 1 << 24) }

    /// A step from the old tree to the new one, both in canonical order. The steps visit each file of the old tree once.
    package enum TreeStep: Equatable, Sendable {
        /// Keeps the next `count` files of the old tree.
        case keep(count: Int)
        /// Removes the next `count` files of the old tree.
        case skip(count: Int)
        /// Replaces the content of the next file of the old tree. The file grows by `growth` bytes, or shrinks if it is
        /// negative. The bytes come from the groups or from the stored bytes. Most changed files keep their size, so that
        /// the step has one byte.
        case change(growth: Int, isStored: Bool)
        /// Adds a file of `size` bytes, which come from the groups or from the stored bytes.
        case add(path: [UInt8], size: Int, isStored: Bool)
        /// Adds a file with the content of file number `source` of the old tree.
        case copy(path: [UInt8], source: Int)

        fileprivate var code: Int {
            switch self {
            case .keep: 0
            case .skip: 1
            case .change(_, let isStored): isStored ? 5 : 2
            case .add(_, _, let isStored): isStored ? 6 : 3
            case .copy: 4
            }
        }
    }

    /// Changed files that are compressed together.
    package struct FileGroup: Equatable, Sendable {
        /// The length of the zstd frame in bytes.
        package let frameBytes: Int
        /// The length of the files in bytes.
        package let bytes: Int
        /// The numbers of the old files that are the prefix of the frame.
        package let prefix: [Int]
    }

    /// Returns the bytes of an index.
    package static func index(
        from base: SHA256Digest, files baseFiles: Int, to content: SHA256Digest, files: Int, groups: [FileGroup],
        steps: [TreeStep]
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        base.withUnsafeBytes { bytes += $0 }
        content.withUnsafeBytes { bytes += $0 }
        for number in [baseFiles, files, groups.count] { append(number, to: &bytes) }
        for group in groups {
            for number in [group.frameBytes, group.bytes, group.prefix.count] { append(number, to: &bytes) }
            var expected = 0
            for number in group.prefix {
                append(signed(number - expected), to: &bytes)
                expected = number + 1
            }
        }
        return bytes + Self.bytes(of: steps)
    }

    /// Returns the bytes of the steps at the end of an index. They are part of the prefix of every group, because files
    /// refer to each other by names, which can contain hashes.
    package static func bytes(of steps: [TreeStep]) -> [UInt8] {
        var (bytes, last, passed): ([UInt8], [UInt8], Int) = ([], [], 0)
        for step in steps { append(step, after: &last, passed: &passed, to: &bytes) }
        return bytes
    }

    private static func append(
        _ step: TreeStep, after last: inout [UInt8], passed: inout Int, to bytes: inout [UInt8]
    ) {
        switch step {
        case .keep(let count), .skip(let count):
            append(count << 3 | step.code, to: &bytes)
            passed += count
        case .change(let growth, _):
            append(signed(growth) << 3 | step.code, to: &bytes)
            passed += 1
        case .add(let path, let size, _):
            append(size << 3 | step.code, to: &bytes)
            append(path: path, after: &last, to: &bytes)
        case .copy(let path, let source):
            append(signed(source - passed) << 3 | step.code, to: &bytes)
            append(path: path, after: &last, to: &bytes)
        }
    }

    /// Maps distances of either sign to numbers of 0 or more.
    private static func signed(_ distance: Int) -> Int { distance < 0 ? -2 * distance - 1 : 2 * distance }

    /// The reverse of `signed`.
    static func distance(_ number: Int) -> Int { number & 1 == 0 ? number >> 1 : -(number >> 1) - 1 }

    private static func append(path: [UInt8], after last: inout [UInt8], to bytes: inout [UInt8]) {
        let shared = zip(path, last).prefix { $0 == $1 }.count
        append(shared, to: &bytes)
        append(path.count - shared, to: &bytes)
        bytes += path[shared...]
        last = path
    }

    private static func append(_ number: Int, to bytes: inout [UInt8]) {
        var rest = number
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// Returns the header of a delta whose index has `bytes` bytes in a frame of `frameBytes`.
    package static func header(frameBytes: Int, bytes: Int) -> [UInt8] {
        magic + [frameBytes, bytes].flatMap { number in (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }
    }

    /// Returns the sizes of the index and of its frame. Throws if `header` is not that of a delta.
    static func indexBytes(_ header: [UInt8]) throws(ArchiveFailure) -> (frame: Int, plain: Int) {
        guard header.count == headerBytes, header.starts(with: magic.dropLast()) else {
            throw .unsupportedFormat("it does not start with the header of a delta")
        }
        guard header[magic.count - 1] == magic[magic.count - 1] else {
            throw .unsupportedFormat("it is a delta of another version")
        }
        let numbers = [8, 12].map { start in (0..<4).reduce(0) { $0 | Int(header[start + $1]) << (8 * $1) } }
        return (numbers[0], numbers[1])
    }
}

/// The validated head of an index, and its steps.
struct DeltaIndex {
    let base: SHA256Digest
    let content: SHA256Digest
    let baseFiles: Int
    let files: Int
    let groups: [DeltaFormat.FileGroup]
    var steps: DeltaSteps

    /// Reads the head of an index. `baseFiles` limits the file numbers of the groups.
    init(_ bytes: [UInt8]) throws(ArchiveFailure) {
        var cursor = DeltaCursor(bytes)
        base = try cursor.digest()
        content = try cursor.digest()
        baseFiles = try cursor.number()
        files = try cursor.number()
        let count = try cursor.number()
        // Each group has at least one byte of a file, and each file at most one partner.
        guard count <= files, files < 1 << 24, baseFiles < 1 << 24 else {
            throw .corrupt("its index has too many groups")
        }
        var (groups, left): ([DeltaFormat.FileGroup], Int) = ([], files)
        for _ in 0..<count { groups.append(try Self.group(from: &cursor, baseFiles: baseFiles, left: &left)) }
        self.groups = groups
        steps = DeltaSteps(cursor)
    }

    private static func group(
        from cursor: inout DeltaCursor, baseFiles: Int, left: inout Int
    ) throws(ArchiveFailure) -> DeltaFormat.FileGroup {
        let (frameBytes, bytes, count) = (try cursor.number(), try cursor.number(), try cursor.number())
        guard frameBytes > 0, bytes > 0 else { throw .corrupt("a group has no bytes") }
        guard count <= left else { throw .corrupt("its groups have more old files than it has new files") }
        left -= count
        var (prefix, expected): ([Int], Int) = ([], 0)
        for _ in 0..<count {
            let number = expected + DeltaFormat.distance(try cursor.number())
            guard (0..<baseFiles).contains(number) else {
                throw .corrupt("a group names a file that is not in the base")
            }
            prefix.append(number)
            expected = number + 1
        }
        return DeltaFormat.FileGroup(frameBytes: frameBytes, bytes: bytes, prefix: prefix)
    }
}

/// The steps of an index, read one by one.
struct DeltaSteps {
    private var cursor: DeltaCursor
    private var lastPath: [UInt8] = []
    /// The files of the old tree that the steps have visited. The reader compares it with the tree.
    private var passed = 0

    init(_ cursor: DeltaCursor) { self.cursor = cursor }

    /// The remaining bytes.
    var bytes: ArraySlice<UInt8> { cursor.rest }

    /// Returns the next step, or nil at the end.
    mutating func next() throws(ArchiveFailure) -> DeltaFormat.TreeStep? {
        if cursor.isAtEnd { return nil }
        let number = try cursor.number()
        let argument = number >> 3
        switch number & 7 {
        case 0 where argument > 0:
            try pass(argument)
            return .keep(count: argument)
        case 1 where argument > 0:
            try pass(argument)
            return .skip(count: argument)
        case 2, 5:
            try pass(1)
            return .change(growth: DeltaFormat.distance(argument), isStored: number & 7 == 5)
        case 3: return .add(path: try path(), size: argument, isStored: false)
        case 6: return .add(path: try path(), size: argument, isStored: true)
        case 4: return .copy(path: try path(), source: passed + DeltaFormat.distance(argument))
        default: throw .corrupt("its index has an unknown step")
        }
    }

    private mutating func pass(_ count: Int) throws(ArchiveFailure) {
        passed += count
        if passed >= 1 << 24 { throw .corrupt("it uses more files than the base has") }
    }

    private mutating func path() throws(ArchiveFailure) -> [UInt8] {
        let (shared, rest) = (try cursor.number(), try cursor.number())
        guard shared <= lastPath.count, rest <= 4096, shared + rest <= 4096 else {
            throw .corrupt("its index has an invalid path")
        }
        lastPath = Array(lastPath[..<shared]) + (try cursor.bytes(rest))
        return lastPath
    }
}

/// Reads numbers and bytes of an index.
struct DeltaCursor {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }
    var rest: ArraySlice<UInt8> { bytes[position...] }

    /// A number has seven bits per byte, lowest first. The last byte has no high bit and, unless it is the only one, is
    /// not 0.
    mutating func number() throws(ArchiveFailure) -> Int {
        var number = 0
        for shift in stride(from: 0, to: 56, by: 7) {
            guard position < bytes.count else { throw .corrupt("its index is truncated") }
            let byte = bytes[position]
            position += 1
            number |= Int(byte & 0x7F) << shift
            if byte & 0x80 != 0 { continue }
            guard byte != 0 || shift == 0 else { break }
            return number
        }
        throw .corrupt("its index has a number that is too long")
    }

    mutating func bytes(_ count: Int) throws(ArchiveFailure) -> ArraySlice<UInt8> {
        guard count <= bytes.count - position else { throw .corrupt("its index is truncated") }
        position += count
        return bytes[position - count..<position]
    }

    mutating func digest() throws(ArchiveFailure) -> SHA256Digest {
        guard let digest = SHA256Digest(bytes: try bytes(SHA256Digest.byteCount)) else {
            throw .corrupt("its index is truncated")
        }
        return digest
    }
}
