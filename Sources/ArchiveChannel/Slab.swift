import BundleCore
import BundleDisk
import BundleSigning

/// A batch of small files on its way from the reader to a writer: their bytes in one buffer.
///
/// Unchecked: a slab is owned by one thread at a time, handed over through the pool's queue and the free list.
final class Slab: @unchecked Sendable {
    static let capacity = 512 * 1024

    struct Item {
        let path: BundlePath
        let directory: Directory
        let content: Content
    }

    enum Content {
        /// Bytes of this slab.
        case bytes(Range<Int>)
        /// A file too large for a slab, written and hashed already.
        case written(size: Int, SHA256Digest)
    }

    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Slab.capacity, alignment: 4096)
    private(set) var items: [Item] = []
    var digests: [SHA256Digest] = []
    private var used = 0
    var sequence = 0

    deinit { buffer.deallocate() }

    var isEmpty: Bool { items.isEmpty }
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
    func add(_ path: BundlePath, in directory: Directory, size: Int) {
        items.append(Item(path: path, directory: directory, content: .bytes(used - size..<used)))
    }

    func add(_ path: BundlePath, in directory: Directory, written size: Int, _ digest: SHA256Digest) {
        items.append(Item(path: path, directory: directory, content: .written(size: size, digest)))
    }

    func clear() {
        items.removeAll(keepingCapacity: true)
        digests.removeAll(keepingCapacity: true)
        used = 0
    }
}
