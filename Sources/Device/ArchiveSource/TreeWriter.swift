import BundleCore
import BundleDisk
import BundleSigning
import BundleValues

/// Writes the files of a client below one folder. Small files pass in slabs through two stages with a thread each, so
/// that decompression, comparison and file creation run in parallel.
struct TreeWriter: EntrySink {
    /// The largest number of folders that one slab keeps open. A client may have thousands, while a process often has a
    /// limit of 1024 descriptors.
    private static let foldersPerSlab = 8

    private let area: StagingArea
    private let folders: TreeFolders
    private let slabs: SlabQueue
    private var slab: Slab?
    private var path: BundlePath?
    private var size = 0
    private var large: LargeFile?

    init(area: StagingArea, reusing reuse: ReuseIndex, receipt: consuming ReceiptWriter) throws {
        self.area = area
        folders = TreeFolders(root: area.tree)
        slabs = try SlabQueue(ReuseStage(reuse), PlacementStage(area, receipt: receipt))
    }

    mutating func addDirectory(_ path: BundlePath) throws { _ = try folders.folder(at: path) }

    mutating func beginFile(_ path: BundlePath, size: Int) throws {
        self.path = path
        self.size = size
        if size > Slab.capacity {
            large = try LargeFile(path, in: try folders.folder(of: path), of: area)
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
            try current().add(path, in: folder, written: size, digest: try large.finish())
            self.large = nil
        } else {
            try current().add(path, in: folder, size: size)
        }
        if try current().folderChanges >= Self.foldersPerSlab { try submit() }
    }

    /// Waits for all files, and returns the receipt that lists them.
    mutating func finish() throws -> ReceiptWriter {
        try submit()
        return try slabs.finish()
    }

    func abandon() { slabs.abandon() }

    private mutating func current() throws -> Slab {
        if let slab { return slab }
        let next = try slabs.next()
        slab = next
        return next
    }

    private mutating func submit() throws {
        if let slab { try slabs.submit(slab) }
        slab = nil
    }
}

/// The slabs in circulation: empty, compared, placed, and empty again. Their number bounds the memory.
private final class SlabQueue {
    private static let slabCount = 5

    private let empty: Pipe<Slab, any Error>
    private let full = Pipe<Slab, any Error>(capacity: slabCount)
    private let comparing: PipeStage
    private let placing: PipeStage
    private let placement: PlacementStage

    init(_ reuse: ReuseStage, _ placement: PlacementStage) throws {
        empty = Pipe(capacity: Self.slabCount, holding: (0..<Self.slabCount).map { _ in Slab() })
        let compared = Pipe<Slab, any Error>(capacity: Self.slabCount)
        self.placement = placement
        // Each stage belongs to one thread until that thread has ended.
        nonisolated(unsafe) let (reuse, placement) = (reuse, placement)
        comparing = try PipeStage(from: full, to: compared) { slab in
            try reuse.run(slab)
            return slab
        }
        placing = try PipeStage(from: compared, to: empty) { slab in
            try placement.run(slab)
            slab.clear()
            return slab
        }
    }

    /// Waits for an empty slab. Throws the error of an earlier slab.
    func next() throws -> Slab {
        guard let slab = try empty.receive() else { throw CancellationError() }
        return slab
    }

    func submit(_ slab: Slab) throws { try full.send(slab) }

    func abandon() {
        full.cancel()
        join()
    }

    func finish() throws -> ReceiptWriter {
        full.finish()
        join()
        while try empty.receive() != nil {}
        guard let receipt = placement.finish() else { throw CancellationError() }
        return receipt
    }

    private func join() {
        comparing.join()
        placing.join()
    }
}

/// A file larger than a slab, which is written and hashed block by block.
private final class LargeFile {
    /// The bytes between two checks of the free space.
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

/// A batch of small files with their bytes in one buffer.
///
/// Unchecked `Sendable`: one thread at a time owns a slab, and serial queues hand it over.
final class Slab: @unchecked Sendable {
    static let capacity = 384 * 1024

    struct Item {
        let path: BundlePath
        let folder: Directory
        let content: SlabContent
        var placement = Placement.create
        var digest: SHA256Digest?
    }

    enum SlabContent {
        /// A range of the slab's buffer.
        case bytes(Range<Int>)
        /// A file larger than a slab, which is already written.
        case written(size: Int)

        var size: Int {
            switch self {
            case .bytes(let range): range.count
            case .written(let size): size
            }
        }
    }

    /// The way in which a file is created.
    enum Placement {
        case create
        case link(name: String, in: Directory)
    }

    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Slab.capacity, alignment: 4096)
    private var used = 0
    var items: [Item] = []
    /// The number of folder changes between consecutive items. Each one may keep a descriptor open.
    private(set) var folderChanges = 0

    deinit { buffer.deallocate() }

    var room: Int { Slab.capacity - used }

    func bytes(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[range])
    }

    /// Copies bytes of the current file. The caller has checked `room`.
    func copy(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: buffer[used..<used + bytes.count]).copyMemory(from: bytes)
        used += bytes.count
    }

    /// Ends the file, which has the last `size` copied bytes.
    func add(_ path: BundlePath, in folder: Directory, size: Int) {
        append(Item(path: path, folder: folder, content: .bytes(used - size..<used)))
    }

    /// Adds a file that is already written.
    func add(_ path: BundlePath, in folder: Directory, written size: Int, digest: SHA256Digest) {
        append(Item(path: path, folder: folder, content: .written(size: size), digest: digest))
    }

    private func append(_ item: Item) {
        if items.last?.folder !== item.folder { folderChanges += 1 }
        items.append(item)
    }

    func clear() {
        items.removeAll(keepingCapacity: true)
        folderChanges = 0
        used = 0
    }
}
