import BundleDisk

/// The open folders of one store.
struct StoreFolders {
    let root: Directory
    let clients: Directory
    let receipts: Directory
    let staging: Directory
    let downloads: Directory

    /// Opens the folders below `root`, creating those that are missing.
    init(below root: Directory) throws(DiskError) {
        self.root = root
        let isNew = try root.kind(of: StoreLayout.clients) == nil
        clients = try root.directory(creating: StoreLayout.clients)
        receipts = try root.directory(creating: StoreLayout.receipts)
        staging = try root.directory(creating: StoreLayout.staging, mode: 0o700)
        downloads = try root.directory(creating: StoreLayout.downloads, mode: 0o700)
        if isNew { try root.sync() }
    }

    /// Opens the store's own folder, creating it and what is missing above it.
    static func openRoot(_ path: String) throws -> Directory {
        try Directory.createAll(path, mode: 0o700)
        let root = try Directory.open(path)
        if try root.permissions().mode & 0o002 != 0 {
            throw UpdateFailure(
                .permissionDenied, subject: path,
                "Everybody may write to the store \(path): take that away with `chmod o-w`, and check what is in it.")
        }
        return root
    }
}
