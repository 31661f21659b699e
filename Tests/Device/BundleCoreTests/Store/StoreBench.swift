import BundleDisk
import BundleTesting
import Glibc
import Synchronization

@testable import BundleCore
import BundleValues

/// A store in a temporary folder, with ways to damage it.
struct StoreBench {
    /// The warnings of a store.
    final class Warnings: Sendable {
        private let all = Mutex<[String]>([])

        var lines: [String] { all.withLock { $0 } }

        func add(_ line: String) { all.withLock { $0.append(line) } }
    }

    private let folder: TemporaryDirectory
    let warnings = Warnings()

    /// The path of the store, which does not exist at first.
    var path: String { folder.directory.path + "/store" }
    /// The folder that contains the store.
    var parent: Directory { folder.directory }

    init() throws { folder = try TemporaryDirectory.ofTests() }

    /// Creates a store and installs `versions` in order.
    init(installing first: String, _ others: String...) async throws {
        try self.init()
        for version in [first] + others { try await install(version) }
    }

    func open() throws -> BundleStore {
        try BundleStore.open(at: path, environment: Environment(log: { [warnings] in warnings.add($0) }))
    }

    func root() throws -> Directory { try Directory.open(path) }

    func snapshot() throws -> FolderSnapshot { try FolderSnapshot(of: path) }

    func updater(
        _ offer: MemoryOffer, shell: String = "1.0.0", appId: String? = nil, keep: Int = 5,
        failure: UpdateFailure? = nil
    ) throws -> Updater<MemorySource> {
        Updater(
            source: MemorySource(offer, failure: failure),
            device: .init(store: path, shell: try SemanticVersion(parsing: shell), appId: appId, keep: keep),
            environment: Environment(log: { [warnings] in warnings.add($0) }))
    }

    /// Installs a release with an updater.
    func install(_ version: String) async throws { _ = try await updater(try MemoryOffer(version)).update() }

    /// Stages `offer` in `store` as an updater does.
    func stage(_ offer: MemoryOffer, in store: BundleStore) async throws -> StagedBundle {
        let area = try await store.openStaging(for: offer.footprint)
        return try MemorySource(offer).stage(offer, in: area, reusing: try await store.reuseIndex())
    }

    // MARK: By hand

    /// Writes `text` to a file of the store. Replaces an existing file and creates missing folders.
    func write(_ text: String, to name: String) throws {
        // The previous ledger would repair a damaged one.
        if name.split(separator: "/").first == "ledger.json" { try remove("ledger.before.json") }
        var folder = try root()
        let components = name.split(separator: "/").map(String.init)
        for component in components.dropLast() { folder = try folder.directory(creating: component) }
        try folder.removeTree(components.last ?? "")
        try Array(text.utf8).withUnsafeBytes { try folder.createFile(components.last ?? "", with: $0) }
    }

    func text(_ name: String) throws -> String? {
        try root().contents(name, maximumBytes: 1 << 20).map { String(decoding: $0, as: UTF8.self) }
    }

    func names(_ folder: String) throws -> [String] { try root().directory(folder).list().sorted() }

    /// Removes both ledgers.
    func loseLedger() throws {
        for name in ["ledger.json", "ledger.before.json"] { try remove(name) }
    }

    func remove(_ name: String) throws {
        let components = name.split(separator: "/")
        try root().directory(components.count == 1 ? "." : components.dropLast().joined(separator: "/"))
            .removeTree(String(components.last ?? ""))
    }

    /// Replaces the ledger by the result of `edit`.
    func editLedger(_ edit: (inout Ledger) -> Void) throws {
        var ledger = try LedgerFile.read(try root()) ?? Ledger()
        edit(&ledger)
        try LedgerFile.write(ledger, to: try root())
    }
}
