import BundleDisk

/// `clients/previousVersion`: the ledger's previous client in one line, for shells that read folders only.
enum PreviousVersionFile {
    private static let maximumBytes = 1024

    /// Replaces the file where it differs. It is built in `staging`, so that `clients` never shows anything half done.
    static func write(_ previous: ClientName?, clients: Directory, staging: Directory) throws(DiskError) {
        let wanted = previous.map { Array("\($0)\n".utf8) }
        if try clients.contents(StoreLayout.previousVersion, maximumBytes: maximumBytes) == wanted { return }
        guard let wanted else {
            try clients.removeFile(StoreLayout.previousVersion)
            return
        }
        // Whole at every moment. Should a power cut take the rename back, recovery writes the line again.
        try staging.removeFile(StoreLayout.previousVersion)
        try staging.createDurableFile(StoreLayout.previousVersion, wanted)
        try staging.rename(StoreLayout.previousVersion, to: clients, as: StoreLayout.previousVersion)
    }
}
