import BundleValues
import BundleCore
import BundleDisk

/// Gives every file of a slab its name and lists it in the receipt. Runs on one thread: two would only wait for each
/// other's folder.
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
                    try item.folder.createFile(item.path.name, slab.bytes(range))
                }
            case (.link(let name, let source), .written):
                try replaceByLink(item, name, in: source)
            case (.create, .bytes(let range)):
                try item.folder.createFile(item.path.name, slab.bytes(range))
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
            // No more links to that file, or a file system without them: the file is written instead.
            return false
        }
    }

    /// The new copy goes before its pages were ever written out.
    private func replaceByLink(_ item: Slab.Item, _ name: String, in source: Directory) throws {
        let aside = randomName(".linked-")
        guard Self.link(name, in: source, to: item.folder, as: aside) else { return }
        try item.folder.rename(aside, to: item.path.name)
    }
}
