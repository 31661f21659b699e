import BundleDisk

/// `clients/previousVersion`: the ledger's previous client in one line, for shells that read folders only.
enum PreviousVersionFile {
    private static let maximumBytes = 1024

    /// Replaces the file where it differs. It is built in `staging`, so that `clients` never shows anything half done.
    static func write(_ previous: ClientName?, clients: Directory, staging: Directory) throws(DiskError) {
        let wanted = previous.map { Array("\($0)\n".utf8) }
        let name = StoreLayout.previousVersion
        if case .file(let size)? = try clients.kind(of: name) {
            if size <= maximumBytes, try clients.contents(name, maximumBytes: maximumBytes) == wanted { return }
        } else {
            // A folder cannot be renamed over.
            try clients.removeTree(name)
        }
        guard let wanted else {
            try clients.removeFile(name)
            return
        }
        try staging.removeTree(name)
        try staging.createDurableFile(name, wanted)
        try staging.rename(name, to: clients, as: name)
        try clients.sync()
    }
}
