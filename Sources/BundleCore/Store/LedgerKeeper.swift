import BundleDisk

/// The one way to change a store's ledger: read it, change the value, replace the file, under a lock of its own that is
/// held for milliseconds.
///
/// The store's `lock` belongs to whoever installs or removes, for minutes where a network is slow; a shell must be able to
/// start and to confirm meanwhile.
struct LedgerKeeper: Sendable {
    private static let patienceMilliseconds = 10_000

    let root: Directory

    /// What the file says now.
    func read() throws -> Ledger { try LedgerFile.read(root) ?? Ledger() }

    /// Runs `body` while nobody else changes the ledger.
    func exclusively<Answer>(_ body: () throws -> Answer) throws -> Answer {
        guard let lock = try FileLock.take(root, waiting: Self.patienceMilliseconds) else {
            throw UpdateFailure(
                .storeLocked, subject: root.path,
                "Another clientctl has held the ledger of \(root.path) for 10 s: see whether it hangs.")
        }
        defer { withExtendedLifetime(lock) {} }
        return try body()
    }

    /// Replaces the ledger by what `body` makes of it; durable when it returns. After a failure it is what it was.
    func change<Answer>(_ body: (inout Ledger) throws -> Answer) throws -> Answer {
        try exclusively {
            let old = try read()
            var next = old
            let answer = try body(&next)
            if next == old {
                // Whoever wrote this may have been stopped before it was durable, and now it is answered for.
                try root.sync()
                return answer
            }
            do {
                try LedgerFile.write(next, to: root)
            } catch {
                // Where the last sync failed, the new one has the name already.
                try? LedgerFile.write(old, to: root)
                throw error
            }
            return answer
        }
    }

    /// Brings `clients/previousVersion` up to the ledger.
    func publishPrevious(clients: Directory, staging: Directory) throws {
        try exclusively { try PreviousVersionFile.write(try read().previous, clients: clients, staging: staging) }
    }
}
