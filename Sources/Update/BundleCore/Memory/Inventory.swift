package import BundleValues
package import BundleDisk

/// One consistent picture of a store; rules get this, never the store.
package struct Inventory: Sendable, Equatable {
    /// The store's path as given.
    package let path: String
    /// What is remembered.
    package let ledger: Ledger
    /// The complete clients, in the order of the ledger.
    package let bundles: [InstalledBundle]

    /// Whether an interrupted run left something to clear.
    package let isUnsettled: Bool

    init(path: String, ledger: Ledger, bundles: [InstalledBundle], isUnsettled: Bool = false) {
        self.isUnsettled = isUnsettled
        self.path = path
        self.ledger = ledger
        self.bundles = bundles
    }

    /// The picture of a device that has no store.
    package static let empty = Inventory(path: "", ledger: Ledger(), bundles: [])

    /// The picture as it is once `news` of the feed is remembered.
    package func recording(_ news: FeedUpdate) -> Inventory { with(ledger.recording(news)) }

    /// The same clients, with what `ledger` remembers.
    func with(_ ledger: Ledger) -> Inventory {
        Inventory(path: path, ledger: ledger, bundles: bundles, isUnsettled: isUnsettled)
    }

    func without(_ removed: [ClientName]) -> Inventory {
        Inventory(
            path: path, ledger: ledger, bundles: bundles.filter { !removed.contains($0.name) },
            isUnsettled: isUnsettled)
    }

    /// The client of that version, if it is installed.
    package func bundle(_ version: ClientVersion) -> InstalledBundle? { bundles.first { $0.version == version } }

    /// Every client that an answer may name: the seed, the installed ones, and those that are blocked.
    package var knownNames: [ClientName] {
        [.embedded] + bundles.map(\.name) + ledger.blocks.map { .installed($0.version) }
    }

    /// The source that a client came by; the seed's is called as the seed is.
    package func source(of name: ClientName) -> String {
        name.version.flatMap(bundle)?.entry.identity.source.rawValue ?? ClientName.embedded.description
    }

    /// The folder of downloads; nil where there is none yet.
    package func downloads() throws(DiskError) -> Directory? {
        let found: Directory
        do {
            found = try Directory.open(path).directory(StoreLayout.downloads)
        } catch  where error.kind == .missing {
            return nil
        }
        return found
    }

    /// Whether there is a store at `path`.
    package static func exists(at path: String) throws -> Bool {
        do {
            return try Directory.open(path).kind(of: StoreLayout.clients) != nil
        } catch  where error.kind == .missing {
            return false
        }
    }

    /// The picture of a store that needs no recovery; nil where an interrupted run or damage must be cleared first.
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

    /// What it shows survives a power cut when this returns.
    func sync() throws(DiskError) {
        let root: Directory
        do {
            root = try Directory.open(path)
        } catch  where error.kind == .missing {
            return
        }
        try root.sync()
    }

    /// Reads the picture without a lock, for commands that only look; a store that is not there yet is empty.
    ///
    /// A version is installed when the ledger says so and its folder has its final name. `tell` hears why the newest ledger cannot be
    /// read, where the one before it counts.
    package static func read(at path: String, telling tell: (UpdateFailure) -> Void = { _ in }) throws -> Inventory {
        do {
            let root = try Directory.open(path)
            let generations = try LedgerFile.generations(root)
            generations.damage.map(tell)
            return try read(root, ledger: generations.ledger ?? Ledger())
        } catch let error as DiskError where error.kind == .missing {
            return Inventory(path: path, ledger: Ledger(), bundles: [])
        }
    }

    static func read(_ root: Directory, ledger: Ledger) throws(DiskError) -> Inventory {
        try StoredTrees.read(root).inventory(of: ledger)
    }

    /// What the disk has of it.
    var trees: StoredTrees { StoredTrees(path: path, names: Set(bundles.map { StoreLayout.tree($0.version) })) }
}

/// The folders of clients that the disk has, whatever the ledger says.
struct StoredTrees: Sendable, Equatable {
    private let path: String
    private let names: Set<String>
    private let isStaging: Bool
    /// Why a folder could not be listed: what is in it counts as not there.
    let trouble: DiskError?

    init(path: String, names: Set<String>, isStaging: Bool = false, trouble: DiskError? = nil) {
        self.trouble = trouble
        self.path = path
        self.names = names
        self.isStaging = isStaging
    }

    static func read(_ root: Directory) throws(DiskError) -> StoredTrees {
        var names: Set<String> = []
        var trouble: DiskError?
        for source in SourceName.allCases {
            let folder = StoreLayout.trees(of: source)
            names.formUnion(try list(folder, in: root, &trouble).map { "\(folder)/\($0)" })
        }
        names.remove("\(StoreLayout.clients)/\(StoreLayout.previousVersion)")
        let isStaging = try !list(StoreLayout.staging, in: root, &trouble).isEmpty
        return StoredTrees(
            path: root.path, names: names, isStaging: isStaging || trouble != nil, trouble: trouble)
    }

    /// A folder that is there and cannot be read must not keep what lies beside it from being shown.
    private static func list(
        _ folder: String, in root: Directory, _ trouble: inout DiskError?
    ) throws(DiskError) -> [String] {
        do {
            return try root.directory(folder).list()
        } catch  where error.kind == .missing {
            return []
        } catch  where error.isUnreadable {
            trouble = error
            return []
        }
    }

    /// The picture of the store with `ledger`: a client is installed where both know it.
    func inventory(of ledger: Ledger) -> Inventory {
        let bundles = ledger.entries.filter { names.contains(StoreLayout.tree($0.version)) }.map { entry in
            InstalledBundle(entry: entry, path: "\(path)/\(StoreLayout.tree(entry.version))")
        }
        let known = Set(ledger.entries.map { StoreLayout.tree($0.version) })
        return Inventory(path: path, ledger: ledger, bundles: bundles, isUnsettled: isStaging || names != known)
    }
}
