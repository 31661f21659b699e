import BundleFormats
package import BundleDisk
import BundleSigning
package import BundleValues

/// The source of archives for files that the device has no good copy of.
package protocol ReleaseArchives: Sendable {
    /// Writes those of `files` that the archive of the release of `manifest` has into `folder`, each under its given
    /// name. `downloads` is for partial downloads. Returns the number of bytes that were downloaded.
    ///
    /// The written files are not verified; the caller compares them.
    func fetch(
        _ files: [BundlePath: String], of manifest: JSONValue, into folder: Directory, downloads: Directory
    ) async throws -> Int
}

/// The results of a repair.
package struct RepairReport: Sendable {
    /// A file that was restored.
    package struct RepairedFile: Sendable {
        package let client: ClientName
        /// The file's path; its URL path in the serving root if `isServed`.
        package let path: String
        package let origin: RepairOrigin
        /// Whether the file is part of the serving root instead of the client's tree.
        package let isServed: Bool
    }

    /// The origin of good content.
    package enum RepairOrigin: Sendable, Equatable {
        /// A file of an installed client.
        case client(ClientName)
        case seed, archive
        /// The file was not installed and was removed.
        case removed
    }

    /// Damage that could not be repaired.
    package struct Damage: Sendable {
        package let client: ClientName
        /// The file; nil for the client's receipt.
        package let path: String?
        /// The fault, and why it was not repaired.
        package let reason: String
    }

    /// The inspected clients.
    package internal(set) var clients: [ClientName] = []
    /// The number of compared files.
    package internal(set) var files = 0
    package internal(set) var repaired: [RepairedFile] = []
    package internal(set) var damage: [Damage] = []
    /// The number of bytes that were downloaded.
    package internal(set) var bytesDownloaded = 0
}

/// Restores installed files to the content of their receipts: compares them, collects good copies, and replaces
/// damaged files.
///
/// A copy is verified before one rename gives it its final name, so a concurrent reader gets the old bytes or the
/// right ones. A client that stays damaged is blocked until it is repaired, if another client can be shown.
package struct StoreRepair: Sendable {
    private let path: String
    private let seed: SeedFolder?
    private let layout: (any MeteorLayout)?
    private let archives: (any ReleaseArchives)?
    private let environment: Environment

    /// Creates the repair of the store at `path`, with the other sources of content.
    package init(
        store path: String, seed: SeedFolder?, layout: (any MeteorLayout)?, archives: (any ReleaseArchives)?,
        environment: Environment
    ) {
        self.path = path
        self.seed = seed
        self.layout = layout
        self.archives = archives
        self.environment = environment
    }

    /// Returns the result that a repair would have, without changes.
    package func look() throws -> RepairReport {
        var report = RepairReport()
        let root = try Directory.open(path)
        var survey = StoreSurvey(root)
        for client in try survey.clients(of: Inventory.read(at: path), report: &report) {
            report.damage += client.findings.map {
                RepairReport.Damage(client: client.name, path: $0.path, reason: $0.reason)
            }
        }
        return report
    }

    /// Repairs the store as far as possible.
    package func run() async throws -> RepairReport {
        let store = try await BundleStore.openWaiting(at: path, environment: environment)
        defer { withExtendedLifetime(store) {} }
        let inventory = try await store.inventory()
        var report = RepairReport()
        var survey = StoreSurvey(try Directory.open(path))
        let clients = try survey.clients(of: inventory, report: &report)
        let copyFolder = try await store.repairFolder()
        defer { copyFolder.clear(environment.log) }
        let wanted = Set(clients.flatMap(\.damaged).map(\.digest))
        var copies = try copyFolder.copies(of: wanted, among: clients)
        if let seed { try copyFolder.add(wanted, from: seed, to: &copies) }
        for client in clients where client.damaged.contains(where: { copies[$0.digest] == nil }) {
            try await fetch(client, into: copyFolder, copies: &copies, report: &report)
        }
        for client in clients { try copyFolder.repair(client, with: copies, report: &report) }
        for client in clients where !report.damage.contains(where: { $0.client == client.name }) {
            try repairRoot(of: client, in: inventory, from: copyFolder, report: &report)
        }
        try await mark(report, in: store)
        return report
    }

    /// Downloads files of which only the release's archive has a copy.
    private func fetch(
        _ client: ClientSurvey, into copyFolder: RepairFolder, copies: inout [SHA256Digest: RepairReport.RepairOrigin],
        report: inout RepairReport
    ) async throws {
        let missing = client.damaged.filter { copies[$0.digest] == nil }
        guard let archives, client.bundle.version.source == .archive,
            let manifest = try Receipt.manifest(of: client.receipt)
        else { return }
        var names: [BundlePath: String] = [:]
        for (number, record) in missing.enumerated() { names[record.path] = "part-\(number)" }
        do {
            report.bytesDownloaded += try await archives.fetch(
                names, of: manifest, into: copyFolder.folder, downloads: copyFolder.downloads)
        } catch let error as DiskError {
            throw error
        } catch {
            environment.log("\(client.name) cannot be restored from its archive: \(UpdateFailure(error).message)")
        }
        for record in missing {
            guard let name = names[record.path] else { continue }
            try copyFolder.accept(name, as: record.digest, from: .archive, into: &copies)
        }
    }

    /// Restores the serving root of a client in place, since a shell may be showing it.
    private func repairRoot(
        of client: ClientSurvey, in inventory: Inventory, from copyFolder: RepairFolder, report: inout RepairReport
    ) throws {
        guard let root = try copyFolder.root(of: client.bundle) else { return }
        let map: AssetMap
        if client.bundle.version.source == .archive {
            map = try AssetMap(tree: client.tree)
        } else {
            guard let layout else { return }
            let isForSeed = client.bundle.entry.identity.seed != nil
            if isForSeed, client.bundle.entry.identity.seed != seed?.identity { return }
            map = try layout.assets(
                of: client.tree, owned: Receipt.paths(of: client.receipt), inheriting: isForSeed ? seed?.directory : nil
            )
        }
        for path in try copyFolder.repair(root, by: map) {
            report.repaired.append(
                RepairReport.RepairedFile(client: client.name, path: path, origin: .client(client.name), isServed: true)
            )
        }
    }

    /// Blocks the clients that stay damaged, if another client can be shown. Unblocks the repaired ones in their
    /// previous state: damage and failed starts are independent.
    private func mark(_ report: RepairReport, in store: BundleStore) async throws {
        let damaged = Set(report.damage.map(\.client))
        for damage in report.damage {
            let inventory = try await store.inventory()
            guard let version = damage.client.version, inventory.ledger.block(on: version) == nil,
                SelectionRule.select(
                    inventory, shell: nil, hasSeed: inventory.ledger.seed != nil, excluding: [damage.client]) != nil
            else { continue }
            let reason = "its files are damaged: \(damage.path.map { "\($0) " } ?? "it ")\(damage.reason)"
            _ = try await store.apply([.damaged(version, reason: reason, at: environment.now())])
        }
        let repaired = Set(report.repaired.map(\.client))
        for client in report.clients where !damaged.contains(client) {
            guard let version = client.version else { continue }
            _ = try await store.apply([.repaired(version, hadDamage: repaired.contains(client))])
        }
    }
}
