import BundleValues
package import BundleDisk

/// Tells a store from somebody else's folder, in which clearing up would remove what is not ours.
package enum StoreMark {
    /// What only a store has.
    private static let files = [
        StoreLayout.ledger, StoreLayout.ledgerBefore, StoreLayout.session, StoreLayout.lock,
        StoreLayout.ledger + StoreLayout.asideSuffix,
        StoreLayout.session + StoreLayout.asideSuffix, StoreLayout.ledger + StoreLayout.damagedSuffix,
    ]

    /// What a run makes before its first file; `serving` may hold the seed already.
    private static let folders = [
        StoreLayout.clients, StoreLayout.meteor, StoreLayout.receipts, StoreLayout.staging, StoreLayout.downloads,
        StoreLayout.serving,
    ]

    /// A file system of its own has this at its top.
    private static let ofFileSystem = "lost+found"

    /// Refuses a folder that is neither empty, nor a store, nor what a first run left unfinished.
    package static func require(in root: Directory) throws {
        let names = try root.list().filter { $0 != ofFileSystem }
        if names.contains(where: files.contains) { return }
        for name in names {
            guard folders.contains(name), case .directory? = try root.kind(of: name) else { throw refusal(root, name) }
            let below = try root.directory(name).list()
            if let foreign = below.first(where: { !(name == StoreLayout.serving && isRoot($0)) }) {
                throw refusal(root, "\(name)/\(foreign)")
            }
        }
    }

    private static func isRoot(_ name: String) -> Bool {
        name.hasPrefix(".") || name.hasPrefix(SeedFolder.servingPrefix)
    }

    private static func refusal(_ root: Directory, _ name: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: root.path,
            "\(root.path) is no store: it has \(UntrustedName.display(name)), and no ledger. Name a store, or a folder that is "
                + "empty or not there yet.")
    }
}
