import BundleValues
import BundleDisk

/// The open folders of one store.
struct StoreFolders {
    let root: Directory
    let clients: Directory
    let meteor: Directory
    let receipts: Directory
    let staging: Directory
    let downloads: Directory
    let serving: Directory

    /// Opens the folders below `root`, creating those that are missing.
    init(below root: Directory) throws {
        self.root = root
        let isNew = try root.kind(of: StoreLayout.clients) == nil
        clients = try root.directory(creating: StoreLayout.clients)
        meteor = try root.directory(creating: StoreLayout.meteor)
        receipts = try root.directory(creating: StoreLayout.receipts)
        staging = try root.directory(creating: StoreLayout.staging, mode: 0o700)
        downloads = try root.directory(creating: StoreLayout.downloads, mode: 0o700)
        serving = try root.directory(creating: StoreLayout.serving)
        for folder in [clients, meteor, receipts, staging, downloads, serving] { try Self.requirePrivate(folder) }
        if isNew { try root.sync() }
    }

    /// The folder that holds the tree of `version`.
    func trees(of version: ClientVersion) -> Directory { trees(of: version.source) }

    /// The folder that holds the trees of `source`.
    func trees(of source: SourceName) -> Directory {
        switch source {
        case .archive: clients
        case .meteor: meteor
        }
    }

    /// Opens the store's own folder, creating it and what is missing above it.
    static func openRoot(_ path: String) throws -> Directory {
        try Directory.createAll(path, mode: 0o700)
        let root = try Directory.open(path)
        try requirePrivate(root)
        try StoreMark.require(in: root)
        return root
    }

    /// Refuses a folder that everybody may write to: whoever can write a client and its receipt can plant one.
    private static func requirePrivate(_ folder: Directory) throws {
        if try folder.permissions().mode & 0o002 == 0 { return }
        throw UpdateFailure(
            .permissionDenied, subject: folder.path,
            "Everybody may write to \(folder.path): take that away with `chmod o-w`, and check what is in it.")
    }
}
