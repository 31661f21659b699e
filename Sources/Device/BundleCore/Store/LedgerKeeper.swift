import BundleFormats
import BundleDisk
import BundleValues

/// Reads and changes a store's ledger, under a lock that is held for milliseconds.
///
/// An installation holds the store's `lock` for minutes on a slow network. A shell must be able to start and to
/// confirm during that time.
struct LedgerKeeper: Sendable {
    private static let timeoutMilliseconds = 10_000

    let root: Directory
    /// The store whose clients `root` records the starts of; nil if that is `root` itself.
    var store: Directory?

    /// Returns the present ledger.
    func read() throws -> Ledger {
        guard let store else { return try LedgerFile.read(root) ?? Ledger() }
        return try (LedgerFile.read(store) ?? Ledger()).joining(startsOf: Self.starts(in: root)?.ledger)
    }

    /// Returns the starts in a folder of their own; nil if there are none, or if they are damaged and begin again.
    fileprivate static func starts(in folder: Directory) throws -> LedgerFile.Generations? {
        do {
            return try LedgerFile.generations(folder)
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            return nil
        }
    }

    /// Runs `body` while no other process can change the ledger.
    func exclusively<Result>(_ body: (LedgerAccess) throws -> Result) throws -> Result {
        guard let lock = try FileLock.take(root, waiting: Self.timeoutMilliseconds) else {
            throw UpdateFailure(
                .storeLocked, subject: root.path,
                "Another clientctl has held the ledger of \(root.path) for 10 s. Check whether it hangs.")
        }
        defer { withExtendedLifetime(lock) {} }
        return try body(LedgerAccess(root: root, store: store, lock: lock))
    }

    /// Applies all of `changes`, or none. They are durable on return.
    func propose(_ changes: [LedgerChange]) throws -> LedgerResult { try exclusively { try $0.write(changes) } }

    /// Applies `changes`, and throws if they are refused.
    @discardableResult
    func apply(_ changes: [LedgerChange]) throws -> LedgerUpdate {
        switch try propose(changes) {
        case .written(let update): return update
        case .refused(let refusal): throw refusal.failure
        }
    }

    /// Applies `changes`, and writes the ledger even if nothing changed, as a test that the disk accepts writes.
    func rewrite(_ changes: [LedgerChange]) throws { _ = try exclusively { try $0.write(changes, always: true) } }

    /// Updates `clients/previousVersion` after a change of the ledger, or logs that the next run does.
    func updatePrevious(in folders: StoreFolders, environment: Environment) {
        do {
            try publishPrevious(clients: folders.clients, staging: folders.staging)
        } catch {
            environment.log(Self.delayed(error))
        }
    }

    /// Returns the warning for a ledger that was written while `clients/previousVersion` was not.
    static func delayed(_ error: any Error) -> String {
        let failure = UpdateFailure(error)
        if failure.code == .storeDamaged {
            return
                "\(failure.message) The disk did not return the ledger that was just written. If it still does not later, repeat "
                + "this command."
        }
        return "\(failure.message) The next run updates clients/previousVersion."
    }

    /// Updates `clients/previousVersion` from the ledger.
    func publishPrevious(clients: Directory, staging: Directory) throws {
        try exclusively { _ in
            let generations = try LedgerFile.generations(root)
            // The previous ledger has an older `previous`.
            if let damage = generations.damage { throw damage }
            try PreviousVersionFile.write(generations.ledger?.previous, clients: clients, staging: staging)
        }
    }
}

/// Access to the ledger under its lock. Only `LedgerKeeper` creates it.
struct LedgerAccess {
    private let root: Directory
    private let store: Directory?
    private let lock: FileLock

    fileprivate init(root: Directory, store: Directory?, lock: FileLock) {
        self.root = root
        self.store = store
        self.lock = lock
    }

    /// Returns the ledger; nil if there is none.
    func read() throws -> Ledger? { try LedgerFile.read(root) }

    /// Applies `changes` and replaces the ledger durably. After a failure the ledger is unchanged.
    @discardableResult
    func write(_ changes: [LedgerChange], always: Bool = false) throws -> LedgerResult {
        let (generations, before) = try present()
        let trees = try StoredTrees.read(store ?? root)
        switch before.applying(changes, in: trees) {
        case .refused(let refusal): return .refused(refusal)
        case .accepted(let accepted):
            let next = accepted.recordingReports(since: before, newID: DeviceReport.randomID)
            try replace(generations, by: next, always: always)
            return .written(LedgerUpdate(before: before, after: trees.inventory(of: next)))
        }
    }

    private func present() throws -> (LedgerFile.Generations, Ledger) {
        guard let store else {
            let generations = try LedgerFile.generations(root)
            return (generations, generations.ledger ?? Ledger())
        }
        let starts = try LedgerKeeper.starts(in: root) ?? LedgerFile.Generations(ledger: nil, damage: nil)
        return (starts, try (LedgerFile.read(store) ?? Ledger()).joining(startsOf: starts.ledger))
    }

    /// Adds the starts that were recorded in `folder`.
    func adopt(startsIn folder: Directory) throws {
        let (generations, before) = try present()
        try replace(
            generations, by: before.joining(startsOf: LedgerKeeper.starts(in: folder)?.ledger), always: false)
    }

    /// Replaces a damaged ledger with the previous one.
    func restore(_ ledger: Ledger) throws { try LedgerFile.write(ledger, to: root) }

    private func replace(_ generations: LedgerFile.Generations, by next: Ledger, always: Bool) throws {
        let written = generations.damage == nil ? generations.ledger : nil
        // Another process that wrote the same ledger may have been stopped before its sync.
        if next == written, !always { return try root.sync() }
        do {
            try LedgerFile.write(next, to: root, keepingLast: written != nil && next != written)
        } catch {
            // After a failed sync, the new ledger has its name already.
            if let written { try? LedgerFile.write(written, to: root, keepingLast: false) }
            throw error
        }
    }
}

/// The result of a change of the ledger.
enum LedgerResult: Sendable {
    /// The changes are durable.
    case written(LedgerUpdate)
    /// Nothing was written.
    case refused(LedgerRefusal)
}

/// The ledger before the changes, and the store after them.
struct LedgerUpdate: Sendable {
    let before: Ledger
    let after: Inventory
}

/// `clients/previousVersion`: the name of the previous client, for shells that only read folders.
enum PreviousVersionFile {
    private static let maximumBytes = 1024

    /// Replaces the file if it differs. The new file is written in `staging`, so that `clients` never has a partial
    /// file.
    static func write(_ previous: ClientName?, clients: Directory, staging: Directory) throws(DiskError) {
        let wanted = previous.map { Array("\($0)\n".utf8) }
        let name = StoreLayout.previousVersion
        if case .file(let size)? = try clients.kind(of: name) {
            if size <= maximumBytes, try clients.contents(name, maximumBytes: maximumBytes) == wanted { return }
        } else {
            // A file cannot replace a folder by a rename.
            try clients.removeTree(name)
        }
        guard let wanted else {
            try clients.removeFile(name)
            return
        }
        try staging.removeTree(name)
        try staging.createDurableFile(name, with: wanted)
        try staging.rename(name, to: clients, as: name)
        try clients.sync()
    }
}
