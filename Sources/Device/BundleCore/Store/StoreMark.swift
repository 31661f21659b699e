import BundleValues
package import BundleDisk
import CLibrary

/// Distinguishes a store from other folders, in which recovery would remove foreign files.
package enum StoreMark {
    /// The files that only a store has.
    private static let files = [
        StoreLayout.ledger, StoreLayout.ledgerBefore, StoreLayout.session, StoreLayout.lock, StoreLayout.kind,
        StoreLayout.ledger + StoreLayout.asideSuffix,
        StoreLayout.rosterKey, StoreLayout.rosterKey + StoreLayout.asideSuffix,
        StoreLayout.session + StoreLayout.asideSuffix, StoreLayout.ledger + StoreLayout.damagedSuffix,
    ]

    /// The folder at the top of every ext file system.
    private static let ofFileSystem = "lost+found"

    /// Throws if `root` is neither empty, nor a store, nor the result of an interrupted first run.
    package static func require(in root: Directory) throws {
        let names = try root.list().filter { $0 != ofFileSystem }
        if names.contains(where: files.contains) { return }
        for name in names {
            guard StoreLayout.folders.contains(name), case .directory? = try root.kind(of: name) else {
                throw refusal(root, name)
            }
            let below = try root.directory(name).list()
            if let foreign = below.first(where: { !(name == StoreLayout.serving && isRoot($0)) }) {
                throw refusal(root, "\(name)/\(foreign)")
            }
        }
    }

    /// Throws `permissionDenied` if another user owns the store or may write to it. Such a user could replace its files, and could not read
    /// the private files of this one.
    package static func requireOwner(of root: Directory) throws {
        let (owner, mode) = try root.permissions()
        guard owner == geteuid() else {
            throw UpdateFailure(
                .permissionDenied, subject: root.path,
                "The store \(root.path) belongs to another user. Use it as its owner with `sudo -u`.")
        }
        guard mode & 0o022 == 0 else {
            throw UpdateFailure(
                .permissionDenied, subject: root.path,
                "Other users may write to \(root.path). Run `chmod go-w \(root.path)`, and check its content.")
        }
    }

    private static func isRoot(_ name: String) -> Bool {
        name.hasPrefix(".") || name.hasPrefix(SeedFolder.servingPrefix)
    }

    private static func refusal(_ root: Directory, _ name: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: root.path,
            "\(root.path) is not a store: it has \(UntrustedName.display(name)) but no ledger. Name a store, or an empty or "
                + "new folder.")
    }
}
