import BundleDisk

/// Keeps what an attempt has downloaded for the next one: `downloads/interrupted`, the last one that kept a journal.
struct InterruptedAttempt {
    let staging: Directory
    let downloads: Directory

    /// Takes the attempt `name` out of staging; one without journal, or whose tree has become a client, is removed.
    func keep(_ name: String) throws(DiskError) {
        guard try hasDownloads(name) else { return try staging.removeTree(name) }
        try staging.directory(name).removeFile(StoreLayout.stagedReceipt)
        try downloads.removeTree(StoreLayout.interrupted)
        try staging.move(name, to: downloads, as: StoreLayout.interrupted)
    }

    /// Whether the attempt `name` was stopped after its tree had got its final name.
    func isPlaced(_ name: String) throws(DiskError) -> Bool {
        guard name.hasPrefix(StoreLayout.attemptPrefix), case .directory? = try staging.kind(of: name) else {
            return false
        }
        return try staging.directory(name).kind(of: StoreLayout.stagedTree) == nil
    }

    /// The same of an attempt with a journal: that of a push, which may have used what was kept before.
    func isPlacedPush(_ name: String) throws(DiskError) -> Bool {
        guard try isPlaced(name) else { return false }
        return try staging.directory(name).kind(of: StagingArea.journalName) != nil
    }

    private func hasDownloads(_ name: String) throws(DiskError) -> Bool {
        guard name.hasPrefix(StoreLayout.attemptPrefix), case .directory? = try staging.kind(of: name) else {
            return false
        }
        let attempt = try staging.directory(name)
        guard case .directory? = try attempt.kind(of: StoreLayout.stagedTree),
            case .file(let size)? = try attempt.kind(of: StagingArea.journalName)
        else { return false }
        return size > 0
    }
}
