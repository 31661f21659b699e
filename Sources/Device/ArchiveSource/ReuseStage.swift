import BundleCore
import BundleDisk
import BundleSigning
import BundleValues

/// Sets the digest of each file of a slab, and finds an installed file with the same bytes. Runs on one thread.
///
/// A receipt only names candidates: the bytes on the disk are compared before a file is linked.
final class ReuseStage {
    private let reuse: ReuseIndex
    /// Allocated at the first comparison. A first installation has nothing to compare.
    private lazy var scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: Slab.capacity, alignment: 4096)
    private lazy var otherScratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 4096)
    private var hasScratch = false
    private var lastFolder: (tree: Directory, parent: ArraySlice<UInt8>, folder: Directory)?

    init(_ reuse: ReuseIndex) { self.reuse = reuse }

    deinit {
        guard hasScratch else { return }
        scratch.deallocate()
        otherScratch.deallocate()
    }

    func run(_ slab: Slab) throws {
        var hasher = try SHA256Hasher()
        for index in slab.items.indices {
            switch slab.items[index].content {
            case .bytes(let range): try resolve(&slab.items[index], bytes: slab.bytes(range), hasher: &hasher)
            case .written(let size): try resolve(&slab.items[index], written: size)
            }
        }
    }

    private func resolve(
        _ item: inout Slab.Item, bytes: UnsafeRawBufferPointer, hasher: inout SHA256Hasher
    ) throws {
        // Most files keep their paths in an update, and a comparison costs less than a hash.
        if let candidate = reuse.candidate(at: item.path, size: bytes.count),
            let placement = try placement(of: candidate, bytes: bytes)
        {
            item.placement = placement
            item.digest = candidate.record.digest
            return
        }
        try hasher.update(bytes)
        let digest = try hasher.finish()
        item.digest = digest
        if let candidate = reuse.candidate(digest, size: bytes.count),
            let placement = try placement(of: candidate, bytes: bytes)
        {
            item.placement = placement
        }
    }

    private func placement(
        of candidate: ReuseIndex.ReuseCandidate, bytes: UnsafeRawBufferPointer
    ) throws -> Slab.Placement? {
        let name = candidate.record.path.name
        hasScratch = true
        guard !bytes.isEmpty, let folder = folder(of: candidate),
            try folder.holds(name, content: bytes, scratch: scratch)
        else {
            return nil
        }
        return .link(name: name, in: folder)
    }

    private func resolve(_ item: inout Slab.Item, written size: Int) throws {
        guard let digest = item.digest, let candidate = reuse.candidate(digest, size: size) else { return }
        hasScratch = true
        guard let folder = folder(of: candidate), let old = try? folder.file(candidate.record.path.name),
            try item.folder.file(item.path.name).hasSameContent(as: old, scratch: scratch, and: otherScratch)
        else { return }
        item.placement = .link(name: candidate.record.path.name, in: folder)
    }

    private func folder(of candidate: ReuseIndex.ReuseCandidate) -> Directory? {
        let bytes = candidate.record.path.bytes
        let parent = bytes.lastIndex(of: UInt8(ascii: "/")).map { bytes[..<$0] } ?? []
        if parent.isEmpty { return candidate.tree }
        if let lastFolder, lastFolder.tree === candidate.tree, lastFolder.parent.elementsEqual(parent) {
            return lastFolder.folder
        }
        guard let folder = try? candidate.tree.directory(String(decoding: parent, as: UTF8.self)) else { return nil }
        lastFolder = (candidate.tree, parent, folder)
        return folder
    }
}

/// Creates or links every file of a slab and adds it to the receipt. Runs on one thread, because two threads would wait
/// for each other's folder locks.
final class PlacementStage {
    private let area: StagingArea
    private var receipt: ReceiptWriter?

    init(_ area: StagingArea, receipt: consuming ReceiptWriter) {
        self.area = area
        self.receipt = consume receipt
    }

    func run(_ slab: Slab) throws {
        try area.requireRoom()
        for item in slab.items {
            switch (item.placement, item.content) {
            case (.link(let name, let source), .bytes(let range)):
                if !Self.link(name, in: source, to: item.folder, as: item.path.name) {
                    try item.folder.createFile(item.path.name, with: slab.bytes(range))
                }
            case (.link(let name, let source), .written):
                try replaceByLink(item, to: name, in: source)
            case (.create, .bytes(let range)):
                try item.folder.createFile(item.path.name, with: slab.bytes(range))
            case (.create, .written): break
            }
            if let digest = item.digest {
                try receipt?.append(item.path, size: item.content.size, digest: digest)
            }
        }
    }

    func finish() -> ReceiptWriter? { receipt.take() }

    private static func link(_ name: String, in source: Directory, to folder: Directory, as target: String) -> Bool {
        do {
            try source.link(name, to: folder, as: target)
            return true
        } catch {
            // The file has its maximum number of links, or the file system has no hard links: the caller writes the
            // bytes instead.
            return false
        }
    }

    /// Replaces the new copy by a link before its pages are written to the disk.
    private func replaceByLink(_ item: Slab.Item, to name: String, in source: Directory) throws {
        let aside = randomName(".linked-")
        guard Self.link(name, in: source, to: item.folder, as: aside) else { return }
        try item.folder.rename(aside, to: item.path.name)
    }
}
