import BundleCore
import BundleDisk
import BundleSigning
import Dispatch
import Synchronization

/// Writes a client's files beneath one folder: small ones in batches on threads of their own, so that creating files,
/// which is what costs, overlaps with decompression; content that an installed client has is linked.
///
/// Files come in one thread; the receipt is written in their order, whichever thread ends first.
struct TreeWriter: EntrySink {
    private static let slabs = 8
    private static let workers = 2

    private let folders: FolderCache
    private let settler: Settler
    private let pool: WorkerPool<Slab>
    private let free = FreeSlabs(count: TreeWriter.slabs)
    private var slab: Slab?
    private var sequence = 0
    private var path: BundlePath?
    private var size = 0
    private var large: LargeFile?

    init(area: StagingArea, reusing reuse: ReuseIndex, receipt: consuming ReceiptWriter) {
        folders = FolderCache(root: area.tree)
        let settler = Settler(area: area, reuse: reuse, receipt: receipt)
        let free = free
        self.settler = settler
        pool = WorkerPool(workers: Self.workers) {
            let worker = FileSettler(reuse: reuse)
            return { slab in
                settler.settle(slab, worker)
                free.put(slab)
            }
        }
    }

    mutating func addDirectory(_ path: BundlePath) throws { _ = try folders.folder(path) }

    mutating func beginFile(_ path: BundlePath, size: Int) throws {
        self.path = path
        self.size = size
        if size > Slab.capacity {
            large = try LargeFile(path, in: try folders.folder(of: path))
        } else if try current().room < size {
            try submit()
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
    }

    /// Waits for every file, and hands back the receipt that lists them.
    mutating func finish() throws -> ReceiptWriter {
        if let slab, !slab.isEmpty { try submit() }
        pool.finish()
        return try settler.finish()
    }

    /// Lets the threads end after a failure elsewhere.
    func abandon() { pool.finish() }

    private mutating func current() throws -> Slab {
        if let slab { return slab }
        try settler.requireNoFailure()
        let next = free.take()
        next.sequence = sequence
        sequence += 1
        slab = next
        return next
    }

    private mutating func submit() throws {
        guard let slab else { return }
        self.slab = nil
        pool.submit(slab)
    }
}

/// Empty slabs; bounds what is in memory.
///
/// Unchecked: the list is behind the mutex, the semaphore counts it.
private final class FreeSlabs: @unchecked Sendable {
    private let slabs: Mutex<[Slab]>
    private let available: DispatchSemaphore

    init(count: Int) {
        slabs = Mutex((0..<count).map { _ in Slab() })
        available = DispatchSemaphore(value: 0)
        for _ in 0..<count { available.signal() }
    }

    func take() -> Slab {
        available.wait()
        return slabs.withLock { $0.removeLast() }
    }

    func put(_ slab: Slab) {
        slab.clear()
        slabs.withLock { $0.append(slab) }
        available.signal()
    }
}

/// Open folders of the growing tree. Used by the reading thread only.
private final class FolderCache {
    private static let capacity = 64

    private let root: Directory
    private var folders: [BundlePath: Directory] = [:]
    private var last: (path: BundlePath, folder: Directory)?

    init(root: Directory) { self.root = root }

    func folder(of path: BundlePath) throws(DiskError) -> Directory {
        guard let parent = path.parent else { return root }
        return try folder(parent)
    }

    func folder(_ path: BundlePath) throws(DiskError) -> Directory {
        if let last, last.path == path { return last.folder }
        let folder: Directory
        if let known = folders[path] {
            folder = known
        } else {
            folder = try self.folder(of: path).directory(creating: path.name)
            if folders.count == Self.capacity { folders.removeAll(keepingCapacity: true) }
            folders[path] = folder
        }
        last = (path, folder)
        return folder
    }
}

/// A file that does not fit into a slab: written and hashed block by block as it comes.
private final class LargeFile {
    private let file: File
    private var hasher: SHA256Hasher

    init(_ path: BundlePath, in folder: Directory) throws {
        file = try folder.file(creating: path.name)
        hasher = try SHA256Hasher()
    }

    func append(_ bytes: UnsafeRawBufferPointer) throws {
        try hasher.update(bytes)
        try file.write(bytes)
    }

    func finish() throws -> SHA256Digest { try hasher.finish() }
}

/// Collects the first failure, keeps the reserve free, and writes the receipt in order.
///
/// Unchecked: all that changes is behind the mutex.
private final class Settler: @unchecked Sendable {
    private struct State: ~Copyable {
        var receipt: ReceiptWriter?
        var waiting: [Int: [(BundlePath, Int, SHA256Digest)]] = [:]
        var next = 0
        var failure: (any Error)?
    }

    private let area: StagingArea
    private let state: Mutex<State>

    init(area: StagingArea, reuse: ReuseIndex, receipt: consuming ReceiptWriter) {
        self.area = area
        state = Mutex(State(receipt: receipt))
    }

    func settle(_ slab: Slab, _ worker: FileSettler) {
        if state.withLock({ $0.failure != nil }) { return }
        do {
            let space = try area.tree.freeSpace()
            if space.bytes < area.reserveBytes {
                throw UpdateFailure(
                    .diskFull, subject: area.tree.path,
                    "The disk is full: less than \(ByteCount(bytes: area.reserveBytes)) would be left free. "
                        + "Free some space, then run it again.")
            }
            let records = try worker.settle(slab)
            try state.withLock { try Self.write(records, slab.sequence, to: &$0) }
        } catch {
            state.withLock { $0.failure = $0.failure ?? error }
        }
    }

    private static func write(
        _ records: [(BundlePath, Int, SHA256Digest)], _ sequence: Int, to state: inout State
    ) throws {
        state.waiting[sequence] = records
        while let records = state.waiting.removeValue(forKey: state.next) {
            for (path, size, digest) in records { try state.receipt?.append(path, size: size, digest: digest) }
            state.next += 1
        }
    }

    func requireNoFailure() throws {
        if let failure = state.withLock({ $0.failure }) { throw failure }
    }

    func finish() throws -> ReceiptWriter {
        try requireNoFailure()
        guard let receipt = state.withLock({ $0.receipt.take() }) else { throw CancellationError() }
        return receipt
    }
}

/// Puts one file into its place: links content that an installed client has, else writes it. One per thread.
private final class FileSettler {
    private let reuse: ReuseIndex
    private let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: Slab.capacity, alignment: 4096)
    private let otherScratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 4096)
    private var lastSource: (tree: Directory, parent: BundlePath?, folder: Directory)?

    init(reuse: ReuseIndex) { self.reuse = reuse }

    deinit {
        scratch.deallocate()
        otherScratch.deallocate()
    }

    func settle(_ slab: Slab) throws -> [(BundlePath, Int, SHA256Digest)] {
        var hasher = try SHA256Hasher()
        var records: [(BundlePath, Int, SHA256Digest)] = []
        records.reserveCapacity(slab.items.count)
        for item in slab.items {
            switch item.content {
            case .bytes(let range):
                let bytes = slab.bytes(range)
                try hasher.update(bytes)
                let digest = try hasher.finish()
                if try !link(bytes, digest, to: item) { try item.directory.createFile(item.path.name, bytes) }
                records.append((item.path, range.count, digest))
            case .written(let size, let digest):
                try replaceByLink(item, size: size, digest)
                records.append((item.path, size, digest))
            }
        }
        return records
    }

    /// Links the file from an installed client that has these very bytes; false where none has.
    private func link(_ bytes: UnsafeRawBufferPointer, _ digest: SHA256Digest, to item: Slab.Item) throws -> Bool {
        guard !bytes.isEmpty, !reuse.isEmpty, let candidate = reuse.candidate(digest, size: bytes.count),
            let source = folder(of: candidate),
            try source.holds(candidate.record.path.name, bytes, scratch: scratch)
        else { return false }
        return Self.link(candidate, in: source, to: item)
    }

    private static func link(_ candidate: ReuseIndex.Candidate, in source: Directory, to item: Slab.Item) -> Bool {
        do {
            try source.link(candidate.record.path.name, to: item.directory, as: item.path.name)
            return true
        } catch {
            // No more links to that file, or a file system without them: the file is written instead.
            return false
        }
    }

    /// A large file is on the disk already; where an installed client has its content, that takes its place, and the
    /// new copy's pages go before they are ever written out.
    private func replaceByLink(_ item: Slab.Item, size: Int, _ digest: SHA256Digest) throws {
        guard let candidate = reuse.candidate(digest, size: size), let source = folder(of: candidate),
            let old = try? source.file(candidate.record.path.name)
        else { return }
        let new = try item.directory.file(item.path.name)
        guard try new.hasSameContent(as: old, scratch, otherScratch) else { return }
        let aside = randomName(".linked-")
        guard (try? source.link(candidate.record.path.name, to: item.directory, as: aside)) != nil else { return }
        try item.directory.rename(aside, to: item.path.name)
    }

    private func folder(of candidate: ReuseIndex.Candidate) -> Directory? {
        let parent = candidate.record.path.parent
        if let lastSource, lastSource.tree === candidate.tree, lastSource.parent == parent { return lastSource.folder }
        guard let folder = parent == nil ? candidate.tree : parent.flatMap({ try? candidate.tree.directory($0.string) })
        else { return nil }
        lastSource = (candidate.tree, parent, folder)
        return folder
    }
}
