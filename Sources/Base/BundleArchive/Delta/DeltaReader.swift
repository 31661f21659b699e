package import BundleDisk
package import BundleSigning
import BundleValues

/// The limits of a delta, from signed values and the limits of the device.
package struct DeltaBounds: Sendable {
    /// The memory for the index and one group with its old files, in bytes.
    package var memory: Int
    /// The number of files of the new tree.
    package var files: Int
    /// The size of all files of the new tree in bytes.
    package var bytes: Int
    /// The time after which reading throws `tooSlow`.
    package var deadline: ContinuousClock.Instant

    package init(memory: Int, files: Int, bytes: Int, deadline: ContinuousClock.Instant) {
        self.memory = memory
        self.files = files
        self.bytes = bytes
        self.deadline = deadline
    }
}

/// Reads a delta and its base as the entries of the new tree, in canonical order. It writes nothing.
///
/// The delta is not trusted: the caller applies all rules for archives to the entries, and compares the content with its
/// signed digest. The reader limits its memory before it allocates.
package final class DeltaReader: EntryReader {
    private static let blockBytes = 256 << 10

    private enum ContentSource {
        case base(File, offset: Int, left: Int, of: BundlePath)
        case group(left: Int)
        case stored(left: Int)
        case none
    }

    private let file: File
    private let base: DeltaTree
    private let bounds: DeltaBounds
    private let frames: PrefixedFrameReader
    private let indexBytes: Int
    private var index: DeltaIndex
    /// The first part of the prefix of every group.
    private let steps: [UInt8]
    private var hasher: SHA256Hasher
    /// The offset of the next frame.
    private var frameOffset: Int
    private var storedOffset: Int
    private let end: Int
    private var group = 0
    private var prefix = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private let block: UnsafeMutableRawBufferPointer
    private var source = ContentSource.none
    /// The next file of the base that no step has visited.
    private var baseNumber = 0
    private var kept = 0
    private var filesRead = 0
    private var lastPath: [UInt8] = []

    /// Opens a delta that builds on `base`. The caller must have verified the signed digest of `file`.
    package init(_ file: File, on base: DeltaTree, within bounds: DeltaBounds) throws(ArchiveFailure) {
        self.file = file
        self.base = base
        self.bounds = bounds
        do {
            hasher = try SHA256Hasher()
            end = try file.size()
            frames = try file.withDescriptor { try PrefixedFrameReader(descriptor: $0) }
            let (frame, plain) = try DeltaFormat.indexBytes(try file.head(DeltaFormat.headerBytes))
            guard plain <= min(DeltaFormat.maximumIndexBytes(files: bounds.files), bounds.memory),
                frame <= end - DeltaFormat.headerBytes
            else { throw ArchiveFailure.corrupt("its index is larger than stated") }
            indexBytes = plain
            frameOffset = DeltaFormat.headerBytes + frame
            index = try DeltaIndex(
                try Self.index(
                    from: frames, at: DeltaFormat.headerBytes..<frameOffset, bytes: plain, memory: bounds.memory))
            steps = Array(index.steps.bytes)
        } catch {
            throw Self.failure(error)
        }
        storedOffset = frameOffset
        block = .allocate(byteCount: Self.blockBytes, alignment: 4096)
        try requireBounds()
    }

    deinit {
        prefix.deallocate()
        block.deallocate()
    }

    private static func index(
        from frames: PrefixedFrameReader, at place: Range<Int>, bytes: Int, memory: Int
    ) throws(ArchiveFailure) -> [UInt8] {
        try frames.begin(place, ofSize: bytes, memory: memory)
        var index = [UInt8](repeating: 0, count: bytes)
        let count = try index.withUnsafeMutableBufferPointer { room throws(ArchiveFailure) in
            try frames.read(into: UnsafeMutableRawBufferPointer(room))
        }
        if count != bytes || frames.bytesLeft != 0 { throw .corrupt("its index is truncated") }
        return index
    }

    /// Compares all numbers of the index with the signed limits before it uses them.
    private func requireBounds() throws(ArchiveFailure) {
        guard index.base == base.contentSha256, index.baseFiles == base.files.count else {
            throw .corrupt("it builds on another tree")
        }
        guard index.files <= bounds.files else { throw .corrupt("it has more files than stated") }
        var (offset, bytes) = (storedOffset, 0)
        for group in index.groups {
            guard group.frameBytes <= end - offset else { throw .corrupt("its groups are larger than the delta") }
            guard group.bytes <= bounds.bytes - bytes else { throw .corrupt("its groups have more bytes than stated") }
            offset += group.frameBytes
            bytes += group.bytes
            var room = bounds.memory - indexBytes - steps.count
            for number in group.prefix where room >= 0 { room -= base.files[number].size }
            if room < 0 { throw .corrupt("a group needs more memory than stated") }
        }
        storedOffset = offset
    }

    /// The SHA-256 of the canonical tar of the new tree, as stated by the delta.
    package var contentSha256: SHA256Digest { index.content }

    // MARK: Entries

    package func nextEntry() throws(ArchiveFailure) -> ArchiveEntry? {
        try checkTime()
        source = .none
        guard let (path, size) = try nextFile() else {
            try requireEnd()
            return nil
        }
        guard lastPath.isEmpty || lastPath.lexicographicallyPrecedes(path) else {
            throw .corrupt("its files are not in order")
        }
        lastPath = path
        filesRead += 1
        return ArchiveEntry(fileNamed: path, size: size)
    }

    private func nextFile() throws(ArchiveFailure) -> (path: [UInt8], size: Int)? {
        while true {
            if kept > 0 {
                kept -= 1
                return try begin(try passed().path.bytes, contentOf: baseNumber - 1)
            }
            switch try index.steps.next() {
            case nil: return nil
            case .keep(let count)?:
                try require(count)
                kept = count
            case .skip(let count)?:
                try require(count)
                baseNumber += count
            case .change(let growth, let isStored)?:
                try require(1)
                let old = try passed()
                guard growth >= -old.size else { throw .corrupt("a file has a negative size") }
                return begin(old.path.bytes, size: old.size + growth, isStored: isStored)
            case .add(let path, let size, let isStored)?: return begin(path, size: size, isStored: isStored)
            case .copy(let path, let source)?:
                guard base.files.indices.contains(source) else {
                    throw .corrupt("it copies a file that is not in the base")
                }
                return try begin(path, contentOf: source)
            }
        }
    }

    private func require(_ count: Int) throws(ArchiveFailure) {
        if count > base.files.count - baseNumber { throw .corrupt("it uses more files than the base has") }
    }

    private func passed() throws(ArchiveFailure) -> DeltaTree.TreeFile {
        baseNumber += 1
        return base.files[baseNumber - 1]
    }

    private func begin(_ path: [UInt8], size: Int, isStored: Bool) -> (path: [UInt8], size: Int) {
        source = isStored ? .stored(left: size) : .group(left: size)
        return (path, size)
    }

    private func begin(_ path: [UInt8], contentOf number: Int) throws(ArchiveFailure) -> (path: [UInt8], size: Int) {
        let entry = base.files[number]
        source = .base(try open(entry), offset: 0, left: entry.size, of: entry.path)
        return (path, entry.size)
    }

    private func requireEnd() throws(ArchiveFailure) {
        guard filesRead == index.files else { throw .corrupt("it does not have the stated number of files") }
        guard group == index.groups.count, frames.bytesLeft == 0 else {
            throw .corrupt("a group is larger than its files")
        }
        guard storedOffset == end else { throw .trailingData }
    }

    // MARK: Data

    package func nextBlock() throws(ArchiveFailure) -> UnsafeRawBufferPointer? {
        var count = 0
        switch source {
        case .none: return nil
        case .base(let file, let offset, let left, let path):
            if left == 0 { return nil }
            count = try read(file, at: offset, atMost: left)
            if count == 0 { throw .damagedBase(path.string) }
            source = .base(file, offset: offset + count, left: left - count, of: path)
        case .stored(let left):
            if left == 0 { return nil }
            count = try read(file, at: storedOffset, atMost: min(left, end - storedOffset))
            if count == 0 { throw .corrupt("it is truncated") }
            storedOffset += count
            source = .stored(left: left - count)
        case .group(let left):
            if left == 0 { return nil }
            if frames.bytesLeft == 0 { try beginGroup() }
            count = try frames.read(into: UnsafeMutableRawBufferPointer(rebasing: block[..<min(left, block.count)]))
            source = .group(left: left - count)
        }
        return UnsafeRawBufferPointer(rebasing: block[..<count])
    }

    private func read(_ file: File, at offset: Int, atMost left: Int) throws(ArchiveFailure) -> Int {
        do {
            return try file.read(
                into: UnsafeMutableRawBufferPointer(rebasing: block[..<min(left, block.count)]), at: offset)
        } catch {
            throw .system(operation: "read", code: error.code)
        }
    }

    private func beginGroup() throws(ArchiveFailure) {
        guard group < index.groups.count else { throw .corrupt("its files are longer than its groups") }
        try checkTime()
        let next = index.groups[group]
        group += 1
        let size = next.prefix.reduce(steps.count) { $0 + base.files[$1].size }
        if size > prefix.count {
            prefix.deallocate()
            prefix = .allocate(byteCount: size, alignment: 4096)
        }
        prefix.copyBytes(from: steps)
        var used = steps.count
        for number in next.prefix { used += try readPrefix(base.files[number], at: used) }
        try frames.begin(
            frameOffset..<frameOffset + next.frameBytes, ofSize: next.bytes,
            memory: bounds.memory - indexBytes - size, behind: UnsafeRawBufferPointer(rebasing: prefix[..<size]))
        frameOffset += next.frameBytes
    }

    /// Reads an old file of a group. Throws if it differs from the installed one.
    private func readPrefix(_ entry: DeltaTree.TreeFile, at offset: Int) throws(ArchiveFailure) -> Int {
        let room = UnsafeMutableRawBufferPointer(rebasing: prefix[offset..<offset + entry.size])
        do {
            let file = try open(entry)
            guard try file.read(into: room, at: 0) == entry.size else {
                throw ArchiveFailure.damagedBase(entry.path.string)
            }
            if let digest = entry.digest {
                try hasher.update(UnsafeRawBufferPointer(room))
                if try hasher.finish() != digest { throw ArchiveFailure.damagedBase(entry.path.string) }
            }
        } catch {
            throw Self.failure(error)
        }
        return entry.size
    }

    private func open(_ entry: DeltaTree.TreeFile) throws(ArchiveFailure) -> File {
        do {
            return try base.tree.file(entry.path.string)
        } catch {
            if error.kind == .missing || error.kind == .unsuitable { throw .damagedBase(entry.path.string) }
            throw .system(operation: "open", code: error.code)
        }
    }

    private func checkTime() throws(ArchiveFailure) {
        if ContinuousClock.now > bounds.deadline { throw .tooSlow }
    }

    private static func failure(_ error: any Error) -> ArchiveFailure {
        switch error {
        case let failure as ArchiveFailure: failure
        case let error as DiskError: .system(operation: "read", code: error.code)
        default: .corrupt("\(error)")
        }
    }
}
