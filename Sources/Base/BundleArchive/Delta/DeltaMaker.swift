package import BundleDisk
package import BundleSigning
import BundleValues
import Synchronization

/// Creates deltas. The same trees give the same bytes on any number of cores with one version of libzstd.
package struct DeltaMaker: Sendable {
    package struct Options: Sendable {
        /// The level of zstd.
        package var level = 19
        /// With more changed bytes than this, fewer candidates are compared for a match, which saves a third of the time
        /// and costs 9 % more bytes (Decisions/deltas.md).
        package var thoroughBytes = 64 << 20
        /// The approximate size of the new files in a group, chosen by measurement (Decisions/deltas.md).
        package var groupBytes = 8 << 20
        /// The memory that a device may need to apply the delta, in bytes.
        package var memory = 64 << 20
        /// The number of groups that are compressed at once.
        package var workers = 1
        /// The largest useful delta in bytes. Compression stops when the delta exceeds it.
        package var largestSize = Int.max

        package init() {}
    }

    /// The properties of a new delta.
    package struct Made: Sendable, Equatable {
        /// The size in bytes.
        package let size: Int
        package let sha256: SHA256Digest
        /// The memory that a device needs for the index and the largest group with its old files, in bytes.
        package let memory: Int
    }

    private let options: Options
    /// Receives the compressed bytes and the total.
    private let report: @Sendable (_ done: Int, _ total: Int) -> Void

    package init(
        _ options: Options = Options(), report: @escaping @Sendable (_ done: Int, _ total: Int) -> Void = { _, _ in }
    ) {
        self.options = options
        self.report = report
    }

    /// Writes the delta from `base` to `target` into the empty `file`. Returns nil if it is larger than the options
    /// allow.
    package func make(from base: DeltaTree, to target: DeltaTree, into file: File) throws -> Made? {
        let plan = try DeltaPlan(from: base, to: target, options)
        let steps = DeltaFormat.bytes(of: plan.steps)
        guard let frames = try DeltaPress(plan, behind: steps, base, target, options, report).run() else { return nil }
        let groups = zip(plan.groups, frames).map { group, frame in
            DeltaFormat.Group(frameBytes: frame.count, bytes: group.bytes, prefix: group.prefix)
        }
        let index = DeltaFormat.index(
            from: base.contentSha256, files: base.files.count, to: target.contentSha256, files: target.files.count,
            groups: groups, steps: plan.steps)
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        let indexFrame = try index.withUnsafeBytes {
            try PrefixedFrameWriter().frame(
                of: $0, behind: none, level: 19, windowLog: PrefixedFrameWriter.windowLog(over: index.count))
        }
        var output = try DeltaOutput(file)
        try output.write(DeltaFormat.header(frameBytes: indexFrame.count, bytes: index.count))
        try output.write(indexFrame)
        for frame in frames { try output.write(frame) }
        for number in plan.stored { try output.write(copyOf: target.files[number], in: target) }
        let largest = plan.groups.map { $0.memory(behind: steps.count) }.max() ?? 0
        let made = try output.finish(memory: index.count + largest)
        return made.size > options.largestSize ? nil : made
    }
}

private struct DeltaOutput: ~Copyable {
    private let file: File
    private var hasher: SHA256Hasher
    private var size = 0

    init(_ file: File) throws {
        self.file = file
        hasher = try SHA256Hasher()
    }

    mutating func write(_ bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { try file.write($0) }
        try hasher.update(bytes)
        size += bytes.count
    }

    mutating func write(copyOf entry: DeltaTree.Entry, in tree: DeltaTree) throws {
        try write(try tree.contents(of: entry))
    }

    mutating func finish(memory: Int) throws -> DeltaMaker.Made {
        DeltaMaker.Made(size: size, sha256: try hasher.finish(), memory: memory)
    }
}

extension DeltaTree {
    /// Returns the content of a file. Throws if it changed after it was listed.
    func contents(of entry: Entry) throws -> [UInt8] {
        let bytes = try tree.file(entry.path.string).readAll(maximumBytes: entry.size)
        guard bytes.count == entry.size else {
            throw UpdateFailure(
                .configInvalid, subject: entry.path.string,
                "\(entry.path) changed while it was read: let the build finish, then run it again.")
        }
        return bytes
    }

    /// Returns the tree with the digests of all files, so that several deltas share them.
    package func withDigests() throws -> DeltaTree {
        let files = zip(files, try digests()).map { Entry(path: $0.path, size: $0.size, digest: $1) }
        return DeltaTree(tree: tree, files: files, contentSha256: contentSha256)
    }

    /// Returns the digests of all files, and computes missing ones.
    func digests() throws -> [SHA256Digest] {
        try files.map { entry in
            if let noted = entry.digest { return noted }
            guard let digest = try digest(of: entry) else { throw DiskError("open", entry.path.string, code: 2) }
            return digest
        }
    }
}

/// The plan of a delta before compression.
struct DeltaPlan {
    /// Changed files that are compressed together.
    struct Group: Equatable {
        /// The numbers of the new files in order.
        var files: [Int] = []
        /// The numbers of the old files in the prefix.
        var prefix: [Int] = []
        /// The size of the new files in bytes.
        var bytes = 0
        /// The size of the old files in bytes.
        var prefixBytes = 0

        /// Returns the window as log2. With a prefix it covers everything.
        func windowLog(behind steps: Int) -> Int {
            prefix.isEmpty
                ? min(PrefixedFrameWriter.windowLog(over: bytes + steps), Self.plainWindowLog)
                : PrefixedFrameWriter.windowLog(over: bytes + prefixBytes + steps)
        }

        /// Returns the memory that a reader needs, in bytes.
        func memory(behind steps: Int) -> Int { steps + prefixBytes + min(bytes, 1 << windowLog(behind: steps)) }

        /// 8 MiB. Large files without a prefix do not need more.
        private static let plainWindowLog = 23
    }

    private(set) var steps: [DeltaFormat.Step] = []
    private(set) var groups: [Group] = []
    /// The numbers of the new files that are stored uncompressed.
    private(set) var stored: [Int] = []

    private let options: DeltaMaker.Options
    private let base: DeltaTree
    private let target: DeltaTree

    /// Compares two trees.
    init(from base: DeltaTree, to target: DeltaTree, _ options: DeltaMaker.Options) throws {
        self.options = options
        self.base = base
        self.target = target
        let (old, new) = (try base.digests(), try target.digests())
        var sameContent: [SHA256Digest: Int] = [:]
        for (number, digest) in old.enumerated().reversed() { sameContent[digest] = number }
        var partners = try Partners(base, target)
        var baseNumber = 0
        for (number, entry) in target.files.enumerated() {
            let first = baseNumber
            while baseNumber < base.files.count, base.files[baseNumber].path < entry.path { baseNumber += 1 }
            if baseNumber > first { append(.skip(count: baseNumber - first)) }
            let isThere = baseNumber < base.files.count && base.files[baseNumber].path == entry.path
            if isThere, old[baseNumber] == new[number] {
                append(.keep(count: 1))
                baseNumber += 1
            } else if let source = sameContent[new[number]] {
                // The next step visits the old file at this path.
                append(.copy(path: entry.path.bytes, source: source))
            } else {
                try appendNew(number, at: isThere ? baseNumber : nil, &partners)
                if isThere { baseNumber += 1 }
            }
        }
    }

    private mutating func appendNew(_ number: Int, at path: Int?, _ partners: inout Partners) throws {
        let entry = target.files[number]
        let found = try partners.find(number, at: path)
        let isStored = found.isIncompressible
        steps.append(
            path.map { .change(growth: entry.size - base.files[$0].size, isStored: isStored) }
                ?? .add(path: entry.path.bytes, size: entry.size, isStored: isStored))
        if isStored { stored.append(number) } else if entry.size > 0 { add(number, found.partner) }
    }

    private mutating func append(_ step: DeltaFormat.Step) {
        switch (steps.last, step) {
        case (.keep(let before)?, .keep(let count)): steps[steps.count - 1] = .keep(count: before + count)
        case (.skip(let before)?, .skip(let count)): steps[steps.count - 1] = .skip(count: before + count)
        default: steps.append(step)
        }
    }

    private mutating func add(_ number: Int, _ partner: Int?) {
        let size = target.files[number].size
        var grown = groups.last ?? Group()
        grown.add(number, size, partner.map { ($0, base.files[$0].size) })
        let most = options.groupBytes
        let isFull = grown.bytes > most || grown.bytes + grown.prefixBytes > 2 * most
        if groups.isEmpty || isFull {
            grown = Group()
            grown.add(number, size, partner.map { ($0, base.files[$0].size) })
            // Files that do not fit into the memory of a device get no prefix.
            if grown.memory(behind: 0) > options.memory - Self.indexRoom || grown.bytes + grown.prefixBytes > 1 << 27 {
                grown = Group()
                grown.add(number, size, nil)
            }
            groups.append(grown)
        } else {
            groups[groups.count - 1] = grown
        }
    }

    /// The part of the memory for the index.
    private static let indexRoom = 4 << 20
}

extension DeltaPlan.Group {
    fileprivate mutating func add(_ number: Int, _ size: Int, _ partner: (number: Int, size: Int)?) {
        files.append(number)
        bytes += size
        guard let partner, partner.size > 0, !prefix.contains(partner.number) else { return }
        prefix.append(partner.number)
        prefixBytes += partner.size
    }
}

/// Finds the partner of each new file and reads as few files as possible.
private struct Partners {
    private let base: DeltaTree
    private let target: DeltaTree
    private var rule: PartnerRule
    private let press: PrefixedFrameWriter

    init(_ base: DeltaTree, _ target: DeltaTree) throws {
        self.base = base
        self.target = target
        rule = PartnerRule(base.files.map(\.path))
        press = try PrefixedFrameWriter()
    }

    /// Returns the partner of a new file, if any, and whether the file should be stored. `path` is the number of the old
    /// file at its path.
    mutating func find(_ number: Int, at path: Int?) throws -> (partner: Int?, isIncompressible: Bool) {
        let entry = target.files[number]
        let bytes = try target.contents(of: entry)
        let isIncompressible = try self.isIncompressible(bytes)
        if path != nil, !isIncompressible { return (path, false) }
        let sketch = bytes.withUnsafeBytes { ContentSketch($0) }
        var partner = path
        if partner == nil {
            if !rule.hasSketches(besides: entry.path) {
                rule.addSketches(
                    try rule.candidates(for: entry.path).map { ($0, try self.sketch(of: base.files[$0], base)) },
                    besides: entry.path)
            }
            partner = rule.partner(of: entry.path, sketch)
        }
        if !isIncompressible { return (partner, false) }
        guard let partner else { return (nil, true) }
        // A slightly changed image is similar to its old version, although it cannot be compressed alone.
        let isAlike = sketch.overlap(with: try self.sketch(of: base.files[partner], base)) * 20 > sketch.tokens.count
        return (partner, !isAlike)
    }

    private func sketch(of entry: DeltaTree.Entry, _ tree: DeltaTree) throws -> ContentSketch {
        try tree.contents(of: entry).withUnsafeBytes { ContentSketch($0) }
    }

    /// Whether compression does not reduce the beginning of the file, as with images and compressed copies.
    private func isIncompressible(_ bytes: [UInt8]) throws -> Bool {
        guard bytes.count >= 256 else { return false }
        return try bytes.withUnsafeBytes { all in
            let sample = UnsafeRawBufferPointer(rebasing: all.prefix(64 << 10))
            let frame = try press.frame(
                of: sample, behind: UnsafeRawBufferPointer(start: nil, count: 0), level: 1,
                windowLog: PrefixedFrameWriter.windowLog(over: sample.count))
            return frame.count * 100 > sample.count * 97
        }
    }
}

/// Compresses the groups of a plan in parallel.
private final class DeltaPress: Sendable {
    private struct State {
        var next = 0
        var done = 0
        var frames: [[UInt8]]
        /// The present size of the delta in bytes.
        var size: Int
        var failure: (any Error)?
    }

    private let plan: [DeltaPlan.Group]
    private let steps: [UInt8]
    private let base: DeltaTree
    private let target: DeltaTree
    private let options: DeltaMaker.Options
    /// The parameter of zstd; nil for the default of the level.
    private let searchLog: Int?
    private let report: @Sendable (Int, Int) -> Void
    private let state: Mutex<State>

    init(
        _ plan: DeltaPlan, behind steps: [UInt8], _ base: DeltaTree, _ target: DeltaTree,
        _ options: DeltaMaker.Options,
        _ report: @escaping @Sendable (Int, Int) -> Void
    ) {
        self.plan = plan.groups
        self.steps = steps
        self.base = base
        self.target = target
        self.options = options
        self.report = report
        searchLog = plan.groups.reduce(0) { $0 + $1.bytes } > options.thoroughBytes ? 3 : nil
        let stored = plan.stored.reduce(0) { $0 + target.files[$1].size }
        state = Mutex(State(frames: [[UInt8]](repeating: [], count: plan.groups.count), size: stored))
    }

    /// Returns the frames in the order of the groups, or nil if they exceed the largest size.
    func run() throws -> [[UInt8]]? {
        let others = try (1..<max(1, min(options.workers, plan.count))).map { _ in try BlockingThread { self.work() } }
        work()
        for thread in others { thread.join() }
        return try state.withLock { state in
            if let failure = state.failure { throw failure }
            return state.size > options.largestSize ? nil : state.frames
        }
    }

    private func work() {
        do {
            let writer = try PrefixedFrameWriter()
            while let number = nextGroup() {
                let frame = try press(plan[number], with: writer)
                let done = state.withLock { state in
                    state.frames[number] = frame
                    state.size += frame.count
                    state.done += plan[number].bytes
                    return state.done
                }
                report(done, plan.reduce(0) { $0 + $1.bytes })
            }
        } catch {
            state.withLock { $0.failure = $0.failure ?? error }
        }
    }

    private func nextGroup() -> Int? {
        state.withLock { state in
            guard state.failure == nil, state.size <= options.largestSize, state.next < plan.count else { return nil }
            state.next += 1
            return state.next - 1
        }
    }

    private func press(_ group: DeltaPlan.Group, with writer: PrefixedFrameWriter) throws -> [UInt8] {
        var (prefix, content): ([UInt8], [UInt8]) = (steps, [])
        prefix.reserveCapacity(steps.count + group.prefixBytes)
        content.reserveCapacity(group.bytes)
        for number in group.prefix { prefix += try base.contents(of: base.files[number]) }
        for number in group.files { content += try target.contents(of: target.files[number]) }
        return try prefix.withUnsafeBytes { prefix in
            try content.withUnsafeBytes {
                try writer.frame(
                    of: $0, behind: prefix, level: options.level, searchLog: searchLog,
                    windowLog: group.windowLog(behind: steps.count))
            }
        }
    }
}
