import BundleCore
import BundleDisk
import BundleSigning
import BundleThreads
import BundleValues

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
        if try current().folderChanges >= Self.foldersPerSlab { try submit() }
    }

    /// Waits for every file, and hands back the receipt that lists them.
    mutating func finish() throws -> ReceiptWriter {
        try submit()
        return try line.finish()
    }

    func abandon() { line.abandon() }

    private mutating func current() throws -> Slab {
        if let slab { return slab }
        let next = try line.take()
        slab = next
        return next
    }

    private mutating func submit() throws {
        if let slab { try line.submit(slab) }
        slab = nil
    }
}

/// Slabs on their way: empty, compared, placed, empty again. Their number bounds what is in memory.
private final class SlabLine {
    private static let slabs = 5

    private let empty: Pipe<Slab, any Error>
    private let full = Pipe<Slab, any Error>(capacity: slabs)
    private let comparing: PipeStage
    private let placing: PipeStage
    private let placement: PlacementStage

    init(_ reuse: ReuseStage, _ placement: PlacementStage) throws {
        empty = Pipe(capacity: Self.slabs, holding: (0..<Self.slabs).map { _ in Slab() })
        let compared = Pipe<Slab, any Error>(capacity: Self.slabs)
        self.placement = placement
        // Each is its own thread's until that has ended.
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

    /// An empty slab, as soon as there is one; throws what went wrong with those before.
    func take() throws -> Slab {
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

/// A batch of small files on its way from the reader to the disk: their bytes in one buffer.
///
/// Sendable, unchecked: a slab is owned by one thread at a time, handed over through serial queues and the free list.
final class Slab: @unchecked Sendable {
    static let capacity = 384 * 1024

    struct Item {
        let path: BundlePath
        let folder: Directory
        let content: Content
        var placement = Placement.create
        var digest: SHA256Digest?
    }

    enum Content {
        /// Bytes of this slab.
        case bytes(Range<Int>)
        /// A file too large for a slab, on the disk already.
        case written(size: Int)

        var size: Int {
            switch self {
            case .bytes(let range): range.count
            case .written(let size): size
            }
        }
    }

    /// How a file gets its place.
    enum Placement {
        case create
        case link(name: String, in: Directory)
    }

    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Slab.capacity, alignment: 4096)
    private var used = 0
    var items: [Item] = []
    /// How often the folder changed from one item to the next: each may keep a descriptor open.
    private(set) var folderChanges = 0

    deinit { buffer.deallocate() }

    var room: Int { Slab.capacity - used }

    func bytes(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[range])
    }

    /// Copies bytes of the file that is being added; the caller has checked `room`.
    func copy(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: buffer[used..<used + bytes.count]).copyMemory(from: bytes)
        used += bytes.count
    }

    /// Ends the file whose last `size` bytes were copied.
    func add(_ path: BundlePath, in folder: Directory, size: Int) {
        append(Item(path: path, folder: folder, content: .bytes(used - size..<used)))
    }

    /// Adds a file that is on the disk already.
    func add(_ path: BundlePath, in folder: Directory, written size: Int, _ digest: SHA256Digest) {
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
