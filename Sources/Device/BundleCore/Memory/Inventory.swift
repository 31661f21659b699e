import BundleFormats
package import BundleSigning
package import BundleValues
package import BundleDisk

/// A consistent snapshot of a store, the input of the rules.
package struct Inventory: Sendable, Equatable {
    package let path: String
    package let ledger: Ledger
    /// The installed clients, in the order of the ledger.
    package let bundles: [InstalledBundle]

    /// Whether an interrupted run left something to clean up.
    package let isUnsettled: Bool

    init(path: String, ledger: Ledger, bundles: [InstalledBundle], isUnsettled: Bool = false) {
        self.isUnsettled = isUnsettled
        self.path = path
        self.ledger = ledger
        self.bundles = bundles
    }

    /// The snapshot of a device without a store.
    package static let empty = Inventory(path: "", ledger: Ledger(), bundles: [])

    /// Returns the snapshot of a device without a store whose requests state its client `running`; nil for the seed. `feed` is what a
    /// store would remember.
    package static func stated(running: BundleIdentity?, feed: FeedMemory) throws(OpenSSLFailure) -> Inventory {
        var ledger = Ledger()
        ledger.feed = feed
        guard let running else { return Inventory(path: "", ledger: ledger, bundles: []) }
        let entry = Ledger.Entry(
            identity: running, contentSha256: try SHA256Digest.of([]), installedSize: 0, fileCount: 0,
            installedAt: Timestamp(clamping: 0))
        return Inventory(path: "", ledger: ledger, bundles: [InstalledBundle(entry: entry, path: "")])
    }

    /// Returns the snapshot after `news` of the feed is stored.
    package func recording(_ news: FeedUpdate) -> Inventory { with(ledger.recording(news)) }

    /// Returns a snapshot with the same clients and another ledger.
    func with(_ ledger: Ledger) -> Inventory {
        Inventory(path: path, ledger: ledger, bundles: bundles, isUnsettled: isUnsettled)
    }

    func without(_ removed: [ClientName]) -> Inventory {
        Inventory(
            path: path, ledger: ledger, bundles: bundles.filter { !removed.contains($0.name) },
            isUnsettled: isUnsettled)
    }

    /// Returns the installed client of a version.
    package func bundle(_ version: ClientVersion) -> InstalledBundle? { bundles.first { $0.version == version } }

    /// The clients that a user may name: the seed, the installed and the blocked ones.
    package var knownNames: [ClientName] {
        [.embedded] + bundles.map(\.name) + ledger.blocks.map { .installed($0.version) }
    }

    /// Returns the source of a client; `embedded` for the seed.
    package func source(of name: ClientName) -> String {
        name.version.flatMap(bundle)?.entry.identity.source.rawValue ?? ClientName.embedded.description
    }

    /// Returns the folder of downloads; nil if it does not exist.
    package func downloads() throws(DiskError) -> Directory? {
        let found: Directory
        do {
            found = try Directory.open(path).directory(StoreLayout.downloads)
        } catch  where error.kind == .missing {
            return nil
        }
        return found
    }

    /// Returns whether there is a store at `path`.
    package static func exists(at path: String) throws(DiskError) -> Bool {
        do {
            return try Directory.open(path).kind(of: StoreLayout.clients) != nil
        } catch  where error.kind == .missing {
            return false
        }
    }

    /// Returns the snapshot of a store; nil if the store has to be recovered first.
    static func settled(at path: String) throws -> Inventory? {
        do {
            let root = try Directory.open(path)
            let generations = try LedgerFile.generations(root)
            if generations.damage != nil { return nil }
            let inventory = try read(root, ledger: generations.ledger ?? Ledger())
            return inventory.isUnsettled ? nil : inventory
        } catch let error as DiskError where error.kind == .missing {
            return Inventory(path: path, ledger: Ledger(), bundles: [])
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            return nil
        }
    }

    /// Makes the snapshot durable.
    func sync() throws(DiskError) {
        let root: Directory
        do {
            root = try Directory.open(path)
        } catch  where error.kind == .missing {
            return
        }
        try root.sync()
    }

    /// Reads a snapshot without a lock. A store that does not exist is empty.
    ///
    /// `report` receives the reason why the previous ledger is used instead of the newest.
    package static func read(at path: String, reporting report: (UpdateFailure) -> Void = { _ in }) throws -> Inventory
    {
        do {
            let root = try Directory.open(path)
            let generations = try LedgerFile.generations(root)
            generations.damage.map(report)
            return try read(root, ledger: generations.ledger ?? Ledger())
        } catch let error as DiskError where error.kind == .missing {
            return Inventory(path: path, ledger: Ledger(), bundles: [])
        }
    }

    static func read(_ root: Directory, ledger: Ledger) throws(DiskError) -> Inventory {
        try StoredTrees.read(root).inventory(of: ledger)
    }

    var trees: StoredTrees { StoredTrees(path: path, names: Set(bundles.map { StoreLayout.tree($0.version) })) }
}

/// The client folders on the disk, whether or not the ledger has them.
struct StoredTrees: Sendable, Equatable {
    private let path: String
    private let names: Set<String>
    private let isStaging: Bool
    /// The error of a folder that could not be listed. Its contents count as missing.
    let listFailure: DiskError?

    init(path: String, names: Set<String>, isStaging: Bool = false, listFailure: DiskError? = nil) {
        self.listFailure = listFailure
        self.path = path
        self.names = names
        self.isStaging = isStaging
    }

    static func read(_ root: Directory) throws(DiskError) -> StoredTrees {
        var names: Set<String> = []
        var listFailure: DiskError?
        for source in SourceName.allCases {
            let folder = StoreLayout.trees(of: source)
            names.formUnion(try list(folder, in: root, failure: &listFailure).map { "\(folder)/\($0)" })
        }
        names.remove("\(StoreLayout.clients)/\(StoreLayout.previousVersion)")
        let isStaging = try !list(StoreLayout.staging, in: root, failure: &listFailure).isEmpty
        return StoredTrees(
            path: root.path, names: names, isStaging: isStaging || listFailure != nil, listFailure: listFailure)
    }

    /// An unreadable folder must not hide the folders beside it. It is read twice, because the change of a ledger forgets the
    /// clients that a passing error of the disk hides.
    private static func list(
        _ folder: String, in root: Directory, failure listFailure: inout DiskError?
    ) throws(DiskError) -> [String] {
        do throws(DiskError) {
            do {
                return try root.directory(folder).list()
            } catch  where error.isUnreadable {
                return try root.directory(folder).list()
            }
        } catch  where error.kind == .missing {
            return []
        } catch  where error.isUnreadable {
            listFailure = error
            return []
        }
    }

    /// Returns the snapshot with `ledger`. A client is installed if it has both a folder and an entry.
    func inventory(of ledger: Ledger) -> Inventory {
        let bundles = ledger.entries.filter { names.contains(StoreLayout.tree($0.version)) }.map { entry in
            InstalledBundle(entry: entry, path: "\(path)/\(StoreLayout.tree(entry.version))")
        }
        let known = Set(ledger.entries.map { StoreLayout.tree($0.version) })
        return Inventory(path: path, ledger: ledger, bundles: bundles, isUnsettled: isStaging || names != known)
    }
}
