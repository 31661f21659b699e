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

    package init(_ options: Options = Options()) { self.options = options }

    /// Writes the delta from `base` to `target` into the empty `file`. Returns nil if it is larger than the options
    /// allow. `report` receives the compressed bytes and the total.
    package func make(
        from base: DeltaTree, to target: DeltaTree, into file: File,
        report: @escaping @Sendable (_ done: Int, _ total: Int) -> Void = { _, _ in }
    ) throws -> Made? {
        let plan = try DeltaPlan(from: base, to: target, options: options)
        let steps = DeltaFormat.bytes(of: plan.steps)
        guard
            let frames = try DeltaPress(
                plan, behind: steps, from: base, to: target, options: options, report: report
            ).run()
        else { return nil }
        let groups = zip(plan.groups, frames).map { group, frame in
            DeltaFormat.FileGroup(frameBytes: frame.count, bytes: group.bytes, prefix: group.prefix)
        }
        let index = DeltaFormat.index(
            from: base.contentSha256, files: base.files.count, to: target.contentSha256, files: target.files.count,
            groups: groups, steps: plan.steps)
        let indexFrame = try index.withUnsafeBytes {
            try PrefixedFrameWriter().frame(
                of: $0, level: 19, windowLog: PrefixedFrameWriter.windowLog(over: index.count))
        }
        var output = try DeltaOutput(file)
        try output.write(DeltaFormat.header(frameBytes: indexFrame.count, bytes: index.count))
        try output.write(indexFrame)
        for frame in frames { try output.write(frame) }
        for number in plan.stored { try output.write(try target.contents(of: target.files[number])) }
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
        hasher = try SHA256Hasher()
        self.file = file
    }

    mutating func write(_ bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { try file.write($0) }
        try hasher.update(bytes)
        size += bytes.count
    }

    mutating func finish(memory: Int) throws -> DeltaMaker.Made {
        DeltaMaker.Made(size: size, sha256: try hasher.finish(), memory: memory)
    }
}

/// Compresses the groups of a plan in parallel.
private final class DeltaPress: Sendable {
    private struct PressState {
        var next = 0
        var done = 0
        var frames: [[UInt8]]
        /// The present size of the delta in bytes.
        var size: Int
        var failure: (any Error)?
    }

    private let plan: [DeltaPlan.PlannedGroup]
    private let steps: [UInt8]
    private let base: DeltaTree
    private let target: DeltaTree
    private let options: DeltaMaker.Options
    /// The parameter of zstd; nil for the default of the level.
    private let searchLog: Int?
    private let report: @Sendable (Int, Int) -> Void
    private let state: Mutex<PressState>

    init(
        _ plan: DeltaPlan, behind steps: [UInt8], from base: DeltaTree, to target: DeltaTree,
        options: DeltaMaker.Options, report: @escaping @Sendable (Int, Int) -> Void
    ) {
        self.plan = plan.groups
        self.steps = steps
        self.base = base
        self.target = target
        self.options = options
        self.report = report
        searchLog = plan.groups.reduce(0) { $0 + $1.bytes } > options.thoroughBytes ? 3 : nil
        let stored = plan.stored.reduce(0) { $0 + target.files[$1].size }
        state = Mutex(PressState(frames: [[UInt8]](repeating: [], count: plan.groups.count), size: stored))
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

    private func press(_ group: DeltaPlan.PlannedGroup, with writer: PrefixedFrameWriter) throws -> [UInt8] {
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
