import BundleCore
import BundleDisk
import BundleSigning
import BundleThreads
import Dispatch
import Synchronization

/// Writes a client's files beneath one folder. Small ones travel in slabs through two stages with a thread each, so that
/// decompressing, hashing and comparing, and creating files, which is what costs, go on at once.
struct TreeWriter: EntrySink {
    /// Folders that one slab may keep open. A client may have thousands, a process often only 1024 descriptors.
    private static let foldersPerSlab = 8

    private let area: StagingArea
    private let folders: TreeFolders
    private let line: SlabLine
    private var slab: Slab?
    private var path: BundlePath?
    private var size = 0
    private var large: LargeFile?

    init(area: StagingArea, reusing reuse: ReuseIndex, receipt: consuming ReceiptWriter) throws {
        self.area = area
        folders = TreeFolders(root: area.tree)
        line = try SlabLine(ReuseStage(reuse), PlacementStage(area, receipt: receipt))
    }

    mutating func addDirectory(_ path: BundlePath) throws { _ = try folders.folder(at: path) }

    mutating func beginFile(_ path: BundlePath, size: Int) throws {
        self.path = path
        self.size = size
        if size > Slab.capacity {
            large = try LargeFile(path, in: try folders.folder(of: path), of: area)
        } else if try current().room < size {
            submit()
        }
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) throws {
        if let large { try large.append(bytes) } else { try current().copy(bytes) }
    }

    mutating func endFile() throws {
        guard let path else { return }
        let folder = try folders.folder(of: path)
        if let large {
            try current().add(path, in: folder, written: size, try large.finish())
            self.large = nil
        } else {
            try current().add(path, in: folder, size: size)
        }
        if try current().folderChanges >= Self.foldersPerSlab { submit() }
    }

    /// Waits for every file, and hands back the receipt that lists them.
    mutating func finish() throws -> ReceiptWriter {
        submit()
        return try line.finish()
    }

    func abandon() { line.abandon() }

    private mutating func current() throws -> Slab {
        if let slab { return slab }
        let next = try line.take()
        slab = next
        return next
    }

    private mutating func submit() {
        if let slab { line.submit(slab) }
        slab = nil
    }
}

/// Slabs on their way: empty, compared, placed, empty again. The number of slabs bounds what is in memory.
///
/// Sendable, unchecked: each stage is touched by its own worker only, the rest is behind the mutex, the semaphore counts
/// the empty slabs.
private final class SlabLine: @unchecked Sendable {
    private static let slabs = 5

    private struct State {
        var empty = (0..<SlabLine.slabs).map { _ in Slab() }
        var failure: (any Error)?
    }

    private let reuse: ReuseStage
    private let placement: PlacementStage
    private let reuseWorker: SerialWorker
    private let placementWorker: SerialWorker
    private let state = Mutex(State())
    private let available = DispatchSemaphore(value: 0)

    init(_ reuse: ReuseStage, _ placement: PlacementStage) throws {
        self.reuse = reuse
        self.placement = placement
        reuseWorker = try SerialWorker()
        placementWorker = try SerialWorker()
        for _ in 0..<Self.slabs { available.signal() }
    }

    /// An empty slab, as soon as there is one; throws what went wrong with those before.
    func take() throws -> Slab {
        available.wait()
        return try state.withLock { state in
            if let failure = state.failure { throw failure }
            return state.empty.removeLast()
        }
    }

    func submit(_ slab: Slab) {
        reuseWorker.submit { [self] in
            attempt { try reuse.run(slab) }
            placementWorker.submit { [self] in
                attempt { try placement.run(slab) }
                slab.clear()
                state.withLock { $0.empty.append(slab) }
                available.signal()
            }
        }
    }

    /// After a failure the rest only passes through.
    private func attempt(_ step: () throws -> Void) {
        if state.withLock({ $0.failure != nil }) { return }
        do { try step() } catch { state.withLock { $0.failure = $0.failure ?? error } }
    }

    func abandon() {
        reuseWorker.finish()
        placementWorker.finish()
    }

    func finish() throws -> ReceiptWriter {
        abandon()
        if let failure = state.withLock({ $0.failure }) { throw failure }
        // Both workers have ended, so the stage is this thread's.
        guard let receipt = placement.finish() else { throw CancellationError() }
        return receipt
    }
}

/// A file that does not fit into a slab: written and hashed block by block as it comes.
private final class LargeFile {
    /// Bytes between two looks at the room left.
    private static let stride = 4 << 20

    private let file: File
    private let area: StagingArea
    private var hasher: SHA256Hasher
    private var unchecked = LargeFile.stride

    init(_ path: BundlePath, in folder: Directory, of area: StagingArea) throws {
        self.area = area
        file = try folder.file(creating: path.name)
        hasher = try SHA256Hasher()
    }

    func append(_ bytes: UnsafeRawBufferPointer) throws {
        unchecked += bytes.count
        if unchecked >= Self.stride {
            try area.requireRoom()
            unchecked = 0
        }
        try hasher.update(bytes)
        try file.write(bytes)
    }

    func finish() throws -> SHA256Digest { try hasher.finish() }
}
