import BundleDisk
import BundleValues

/// The one way to a store's ledger: what the file says, and the door through which it is changed, under a lock of its own
/// that is held for milliseconds.
///
/// The store's `lock` belongs to whoever installs or removes, for minutes where a network is slow; a shell must be able to
/// start and to confirm meanwhile.
struct LedgerKeeper: Sendable {
    private static let patienceMilliseconds = 10_000

    let root: Directory

    /// What the file says now.
    func read() throws -> Ledger { try LedgerFile.read(root) ?? Ledger() }

    /// Runs `body` while nobody else changes the ledger.
    func exclusively<Result>(_ body: (LedgerDoor) throws -> Result) throws -> Result {
        guard let lock = try FileLock.take(root, waiting: Self.patienceMilliseconds) else {
            throw UpdateFailure(
                .storeLocked, subject: root.path,
                "Another clientctl has held the ledger of \(root.path) for 10 s: see whether it hangs.")
        }
        defer { withExtendedLifetime(lock) {} }
        return try body(LedgerDoor(root: root, lock: lock))
    }

    /// Applies `changes`, all of them or none; durable when it returns.
    func propose(_ changes: [LedgerChange]) throws -> LedgerAnswer { try exclusively { try $0.write(changes) } }

    /// The same, where a refusal is a failure.
    @discardableResult
    func apply(_ changes: [LedgerChange]) throws -> LedgerUpdate {
        switch try propose(changes) {
        case .written(let update): return update
        case .refused(let refusal): throw refusal.failure
        }
    }

    /// Applies `changes`, and writes the ledger even where they change nothing: the disk shows that it takes it.
    func rewrite(_ changes: [LedgerChange]) throws { _ = try exclusively { try $0.write(changes, always: true) } }

    /// Brings `clients/previousVersion` up to the ledger.
    func publishPrevious(clients: Directory, staging: Directory) throws {
        try exclusively { _ in
            let generations = try LedgerFile.generations(root)
            // The ledger before it would name the client before that one.
            if let damage = generations.damage { throw damage }
            try PreviousVersionFile.write(generations.ledger?.previous, clients: clients, staging: staging)
        }
    }
}

/// The door: whoever has it holds the lock on the ledger, and only `LedgerKeeper` makes one.
struct LedgerDoor {
    private let root: Directory
    private let lock: FileLock

    fileprivate init(root: Directory, lock: FileLock) {
        self.root = root
        self.lock = lock
    }

    /// What the file says; nil where there is none.
    func read() throws -> Ledger? { try LedgerFile.read(root) }

    /// Replaces the ledger by what `changes` make of it; durable when it returns. After a failure it is what it was.
    @discardableResult
    func write(_ changes: [LedgerChange], always: Bool = false) throws -> LedgerAnswer {
        let generations = try LedgerFile.generations(root)
        let before = generations.ledger ?? Ledger()
        let trees = try StoredTrees.read(root)
        switch before.applying(changes, in: trees) {
        case .refused(let refusal): return .refused(refusal)
        case .accepted(let accepted):
            let next = accepted.noting(since: before, draw: DeviceReport.randomID)
            try replace(generations, by: next, always: always)
            return .written(LedgerUpdate(before: before, after: trees.inventory(of: next)))
        }
    }

    /// Puts the ledger before it in the place of one that is damaged.
    func restore(_ ledger: Ledger) throws { try LedgerFile.write(ledger, to: root) }

    private func replace(_ generations: LedgerFile.Generations, by next: Ledger, always: Bool) throws {
        let written = generations.damage == nil ? generations.ledger : nil
        // Whoever wrote the same may have been stopped before it was durable, and now it is answered for.
        if next == written, !always { return try root.sync() }
        do {
            try LedgerFile.write(next, to: root, keepingLast: written != nil && next != written)
        } catch {
            // Where the last sync failed, the new one has the name already.
            if let written { try? LedgerFile.write(written, to: root, keepingLast: false) }
            throw error
        }
    }
}

/// How changes ended.
enum LedgerAnswer: Sendable {
    /// They are on the disk.
    case written(LedgerUpdate)
    /// Nothing was written.
    case refused(LedgerRefusal)
}

/// The ledger before changes, and the store after them.
struct LedgerUpdate: Sendable {
    let before: Ledger
    let after: Inventory
}

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
