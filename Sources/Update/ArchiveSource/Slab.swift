import BundleValues
import BundleDisk
import BundleSigning

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
