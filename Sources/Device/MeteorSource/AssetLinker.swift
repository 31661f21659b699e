import BundleCore
import BundleValues
import BundleDisk
import CLibrary

/// Places existing files in a new tree by hard links, or by copies.
struct AssetLinker: Sendable {
    let tree: Directory
    let attempt: Directory

    /// Places files of an interrupted attempt and adds them to the journal of this attempt, which can be interrupted too.
    func keep(_ links: [AssetPlan.AssetLink]) throws {
        try link(links[...])
        if links.isEmpty { return }
        let journal = try AssetJournal(in: attempt)
        for link in links {
            guard let kept = link.kept else { continue }
            try journal.append(
                .complete(key: JournalText(kept.key), CompleteAsset(file: link.file, receipt: kept.receipt)))
        }
    }

    /// Places files of installed clients.
    func link(_ links: ArraySlice<AssetPlan.AssetLink>) throws {
        let folders = TreeFolders(root: tree)
        var sources: [ObjectIdentifier: FolderCache] = [:]
        for link in links {
            let id = ObjectIdentifier(link.source.tree)
            let source = sources[id] ?? FolderCache(link.source.tree)
            sources[id] = source
            guard let folder = try source.folder(of: link.source.file) else {
                throw DiskError("open", at: "\(link.source.tree.path)/\(link.source.file)", code: ENOENT)
            }
            try place(link, from: folder, in: try folders.folder(of: link.file))
        }
    }

    private func place(_ link: AssetPlan.AssetLink, from source: Directory, in folder: Directory) throws {
        let name = link.source.file.name
        do {
            try source.link(name, to: folder, as: link.file.name)
        } catch {
            guard [.crossesDevice, .tooManyLinks, .permission].contains(error.kind) else {
                let failure = error.failure
                throw UpdateFailure(
                    failure.code, subject: failure.subject, "Could not link to cached asset: \(failure.message)")
            }
            let source = try source.file(name)
            let copy = try folder.file(creating: link.file.name)
            _ = try source.forEachBlock { try copy.write($0) }
        }
    }
}
