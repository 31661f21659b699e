import BundleArchive
package import BundleSigning

/// The file of a delta, byte by byte as `Guide/reference/deltas.md` describes it.
package enum DeltaFormat {
    /// What every delta begins with: its name and the version of the format.
    package static let magic: [UInt8] = Array("SWAPDLT".utf8) + [1]
    /// Bytes in front of the index.
    package static let headerBytes = magic.count + 8

    /// The longest index for a tree of `files` files; what is longer is refused before it is read.
    package static func maximumIndexBytes(files: Int) -> Int { 4096 + 1200 * min(max(0, files), 1 << 24) }

    /// One step from the old tree to the new one, both in canonical order. The old tree is passed once, file by file.
    package enum Step: Equatable, Sendable {
        /// The next `count` files of the old tree are in the new one as they are.
        case keep(count: Int)
        /// The next `count` files of the old tree are not in the new one.
        case skip(count: Int)
        /// The next file of the old tree has other bytes, `growth` more than before or fewer: the next ones of the groups, or of what is
        /// stored. Most changed files are as long as they were, so that the step is a byte.
        case change(growth: Int, isStored: Bool)
        /// A new file of `size` bytes, which come in the same way.
        case add(path: [UInt8], size: Int, isStored: Bool)
        /// A new file with the content of file number `source` of the old tree.
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
    package struct Group: Equatable, Sendable {
        /// Bytes of its zstd frame.
        package let frameBytes: Int
        /// Bytes of its files.
        package let bytes: Int
        /// The numbers of the old files that the frame continues, one behind the other.
        package let prefix: [Int]

        /// States a group.
        package init(frameBytes: Int, bytes: Int, prefix: [Int]) {
            self.frameBytes = frameBytes
            self.bytes = bytes
            self.prefix = prefix
        }
    }

    /// The bytes of an index that leads from one tree to another.
    package static func index(
        from base: SHA256Digest, files baseFiles: Int, to content: SHA256Digest, files: Int, groups: [Group],
        steps: [Step]
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

    /// The steps as they stand at the end of an index: what every group continues first. Files name each other by their names,
    /// which are new where they have a hash.
    package static func bytes(of steps: [Step]) -> [UInt8] {
        var (bytes, last, passed): ([UInt8], [UInt8], Int) = ([], [], 0)
        for step in steps { append(step, after: &last, &passed, to: &bytes) }
        return bytes
    }

    private static func append(
        _ step: Step, after last: inout [UInt8], _ passed: inout Int, to bytes: inout [UInt8]
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

    /// Twice the distance forwards, twice the distance backwards less one.
    private static func signed(_ distance: Int) -> Int { distance < 0 ? -2 * distance - 1 : 2 * distance }

    /// The same back.
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

    /// The beginning of a delta whose index of `bytes` bytes is a frame of `frameBytes`.
    package static func header(frameBytes: Int, bytes: Int) -> [UInt8] {
        magic + [frameBytes, bytes].flatMap { number in (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }
    }

    /// The bytes of the index and of its frame, where `header` is one.
    static func indexBytes(_ header: [UInt8]) throws(ArchiveFailure) -> (frame: Int, plain: Int) {
        guard header.count == headerBytes, header.starts(with: magic.dropLast()) else {
            throw .unsupportedFormat("it does not begin as a delta does")
        }
        guard header[magic.count - 1] == magic[magic.count - 1] else {
            throw .unsupportedFormat("it is a delta of another version")
        }
        let numbers = [8, 12].map { start in (0..<4).reduce(0) { $0 | Int(header[start + $1]) << (8 * $1) } }
        return (numbers[0], numbers[1])
    }
}

/// The index of a delta that has been read: everything that must be known before the first file of it is made.
struct DeltaIndex {
    let base: SHA256Digest
    let content: SHA256Digest
    let baseFiles: Int
    let files: Int
    let groups: [DeltaFormat.Group]
    var steps: DeltaSteps

    /// Reads the head of an index; the numbers of groups are those of a tree of `baseFiles` files at most.
    init(_ bytes: [UInt8]) throws(ArchiveFailure) {
        var cursor = DeltaCursor(bytes)
        base = try cursor.digest()
        content = try cursor.digest()
        baseFiles = try cursor.number()
        files = try cursor.number()
        let count = try cursor.number()
        // Each has a byte of a file at least, and each file one partner at most.
        guard count <= files, files < 1 << 24, baseFiles < 1 << 24 else {
            throw .corrupt("its index has too many groups")
        }
        var (groups, left): ([DeltaFormat.Group], Int) = ([], files)
        for _ in 0..<count { groups.append(try Self.group(&cursor, of: baseFiles, &left)) }
        self.groups = groups
        steps = DeltaSteps(cursor)
    }

    private static func group(
        _ cursor: inout DeltaCursor, of baseFiles: Int, _ left: inout Int
    ) throws(ArchiveFailure) -> DeltaFormat.Group {
        let (frameBytes, bytes, count) = (try cursor.number(), try cursor.number(), try cursor.number())
        guard frameBytes > 0, bytes > 0 else { throw .corrupt("a group has no bytes") }
        guard count <= left else { throw .corrupt("its groups have more old files than there are new ones") }
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
        return DeltaFormat.Group(frameBytes: frameBytes, bytes: bytes, prefix: prefix)
    }
}

/// The steps of an index, read one by one.
struct DeltaSteps {
    private var cursor: DeltaCursor
    private var lastPath: [UInt8] = []
    /// Files of the old tree that steps have passed; a reader checks that there are so many.
    private var passed = 0

    init(_ cursor: DeltaCursor) { self.cursor = cursor }

    /// All that are left, as they stand there.
    var bytes: ArraySlice<UInt8> { cursor.rest }

    /// The next step; nil behind the last one.
    mutating func next() throws(ArchiveFailure) -> DeltaFormat.Step? {
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
        default: throw .corrupt("its index has a step that there is not")
        }
    }

    private mutating func pass(_ count: Int) throws(ArchiveFailure) {
        passed += count
        if passed >= 1 << 24 { throw .corrupt("it passes more files than the base has") }
    }

    private mutating func path() throws(ArchiveFailure) -> [UInt8] {
        let (shared, rest) = (try cursor.number(), try cursor.number())
        guard shared <= lastPath.count, rest <= 4096, shared + rest <= 4096 else {
            throw .corrupt("its index has a path that there cannot be")
        }
        lastPath = Array(lastPath[..<shared]) + (try cursor.bytes(rest))
        return lastPath
    }
}

/// Numbers and bytes of an index, one after the other.
struct DeltaCursor {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }
    var rest: ArraySlice<UInt8> { bytes[position...] }

    /// Seven bits a byte, the lowest first; the last byte has no high bit and, unless it is the only one, is not 0.
    mutating func number() throws(ArchiveFailure) -> Int {
        var number = 0
        for shift in stride(from: 0, to: 56, by: 7) {
            guard position < bytes.count else { throw .corrupt("its index is cut short") }
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
        guard count <= bytes.count - position else { throw .corrupt("its index is cut short") }
        position += count
        return bytes[position - count..<position]
    }

    mutating func digest() throws(ArchiveFailure) -> SHA256Digest {
        guard let digest = SHA256Digest(bytes: try bytes(SHA256Digest.byteCount)) else {
            throw .corrupt("its index is cut short")
        }
        return digest
    }
}
