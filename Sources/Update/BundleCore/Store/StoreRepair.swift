package import BundleDisk
import BundleSigning
package import BundleValues

/// Archives of releases that are installed, for what no other place has.
package protocol ReleaseArchives: Sendable {
    /// Writes those of `files` that the archive of the release of `manifest` has into `folder`, each under its name there; what is
    /// kept between attempts goes to `downloads`. Returns the bytes that the network brought.
    ///
    /// Nobody vouches for what is written: whoever asks compares it.
    func fetch(
        _ files: [BundlePath: String], of manifest: JSONValue, into folder: Directory, downloads: Directory
    ) async throws -> Int
}

/// What a repair has found and done.
package struct RepairReport: Sendable {
    /// A file that is what its receipt says again.
    package struct Mended: Sendable {
        /// Whose file it is.
        package let client: ClientName
        /// Its path; where `isServed`, its URL path in the serving root.
        package let path: String
        /// Where the content came from.
        package let origin: Origin
        /// Whether it is the serving root's, and not the client's own.
        package let isServed: Bool
    }

    /// What good content came from.
    package enum Origin: Sendable, Equatable {
        /// Another file of an installed client, or the client's own.
        case client(ClientName)
        case seed, archive
        /// It had no business there, and was removed.
        case removed
    }

    /// What could not be mended.
    package struct Damage: Sendable {
        /// Whose it is.
        package let client: ClientName
        /// The file; nil where it is the client's receipt.
        package let path: String?
        /// What is wrong, and why it stays so.
        package let reason: String
    }

    /// The clients that were looked at.
    package internal(set) var clients: [ClientName] = []
    /// How many files were compared.
    package internal(set) var files = 0
    /// What was mended.
    package internal(set) var mended: [Mended] = []
    /// What was not.
    package internal(set) var damage: [Damage] = []
    /// Bytes taken from the network.
    package internal(set) var bytesDownloaded = 0
}

/// Brings installed files back to what their receipts say: look, gather good copies, put each in the place of a damaged one.
///
/// A copy is compared with the receipt before it gets a name in a client, in one rename, so whoever reads a client meanwhile finds the old
/// bytes or the right ones. What stays damaged is blocked until it is mended, where anything else can be shown.
package struct StoreRepair: Sendable {
    private let path: String
    private let seed: SeedFolder?
    private let layout: (any MeteorLayout)?
    private let archives: (any ReleaseArchives)?
    private let now: @Sendable () -> Timestamp
    private let warn: @Sendable (String) -> Void

    /// States the store at `path`, and where content may come from besides it.
    package init(
        store path: String, seed: SeedFolder?, layout: (any MeteorLayout)?, archives: (any ReleaseArchives)?,
        now: @escaping @Sendable () -> Timestamp = { .now }, warn: @escaping @Sendable (String) -> Void
    ) {
        self.path = path
        self.seed = seed
        self.layout = layout
        self.archives = archives
        self.now = now
        self.warn = warn
    }

    /// What a repair would find; changes nothing.
    package func look() throws -> RepairReport {
        var report = RepairReport()
        let root = try Directory.open(path)
        var survey = StoreSurvey(root)
        for client in try survey.clients(Inventory.read(at: path), &report) {
            report.damage += client.findings.map {
                RepairReport.Damage(client: client.name, path: $0.path, reason: $0.reason)
            }
        }
        return report
    }

    /// Mends what can be mended.
    package func run() async throws -> RepairReport {
        let store = try BundleStore.open(at: path, time: now(), warn: warn)
        defer { withExtendedLifetime(store) {} }
        let inventory = try await store.inventory()
        var report = RepairReport()
        var survey = StoreSurvey(try Directory.open(path))
        let clients = try survey.clients(inventory, &report)
        let bench = try await store.repairBench()
        defer { bench.clear(warn) }
        let wanted = Set(clients.flatMap(\.damaged).map(\.digest))
        var copies = try bench.copies(of: wanted, among: clients)
        if let seed { try bench.add(wanted, from: seed, to: &copies) }
        for client in clients where client.damaged.contains(where: { copies[$0.digest] == nil }) {
            try await fetch(client, bench, &copies, &report)
        }
        for client in clients { try bench.mend(client, with: copies, &report) }
        for client in clients where !report.damage.contains(where: { $0.client == client.name }) {
            try mendRoot(of: client, inventory, bench, &report)
        }
        try await mark(report, store)
        return report
    }

    /// What only the release's own archive has.
    private func fetch(
        _ client: ClientSurvey, _ bench: RepairBench, _ copies: inout [SHA256Digest: RepairReport.Origin],
        _ report: inout RepairReport
    ) async throws {
        let missing = client.damaged.filter { copies[$0.digest] == nil }
        guard let archives, client.bundle.version.source == .archive,
            let manifest = try Receipt.manifest(of: client.receipt)
        else { return }
        var names: [BundlePath: String] = [:]
        for (number, record) in missing.enumerated() { names[record.path] = "part-\(number)" }
        do {
            report.bytesDownloaded += try await archives.fetch(
                names, of: manifest, into: bench.folder, downloads: bench.downloads)
        } catch let error as DiskError {
            throw error
        } catch {
            warn("\(client.name) cannot be restored from its archive: \(UpdateFailure(error).message)")
        }
        for record in missing {
            guard let name = names[record.path] else { continue }
            try bench.accept(name, as: record.digest, from: .archive, &copies)
        }
    }

    /// Lays nothing out: what a running shell shows is mended where it is.
    private func mendRoot(
        of client: ClientSurvey, _ inventory: Inventory, _ bench: RepairBench, _ report: inout RepairReport
    ) throws {
        guard let root = try bench.root(of: client.bundle) else { return }
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
        for path in try bench.mend(root, by: map) {
            report.mended.append(
                RepairReport.Mended(client: client.name, path: path, origin: .client(client.name), isServed: true))
        }
    }

    /// Blocks a client that stays damaged, where any other can be shown. One that is mended may run again, and is what it was before:
    /// its starts tell nothing about the damage, and damage tells nothing about its starts.
    private func mark(_ report: RepairReport, _ store: BundleStore) async throws {
        let damaged = Set(report.damage.map(\.client))
        for damage in report.damage {
            let inventory = try await store.inventory()
            guard let version = damage.client.version, inventory.ledger.block(on: version) == nil,
                SelectionRule.select(
                    inventory, shell: nil, hasSeed: inventory.ledger.seed != nil, excluding: [damage.client]) != nil
            else { continue }
            let reason = "its files are damaged: \(damage.path.map { "\($0) " } ?? "it ")\(damage.reason)"
            _ = try await store.apply([.damaged(version, reason: reason, at: now())])
        }
        let mended = Set(report.mended.map(\.client))
        for client in report.clients where !damaged.contains(client) {
            guard let version = client.version else { continue }
            _ = try await store.apply([.mended(version, hadDamage: mended.contains(client))])
        }
    }
}

/// What is wrong with one client, by its receipt.
struct ClientSurvey {
    let bundle: InstalledBundle
    let tree: Directory
    let receipt: File
    /// The files that are missing or have other content.
    var damaged: [Receipt.FileRecord] = []
    /// What the receipt does not list.
    var extras: [[UInt8]] = []
    /// The files that are as they should be.
    var whole: [Receipt.FileRecord] = []

    var name: ClientName { bundle.name }

    var findings: [(path: String, reason: String)] {
        damaged.map { ($0.path.string, "is missing or has other content than was installed") }
            + extras.map { (UntrustedName.display($0), "was not installed") }
    }
}

/// Compares the clients of a store with their receipts; a file with several names is read once.
struct StoreSurvey {
    private let root: Directory
    private var digests: [FileStamp: SHA256Digest] = [:]

    init(_ root: Directory) { self.root = root }

    /// Every client whose receipt can be believed; the others are damage by themselves.
    mutating func clients(_ inventory: Inventory, _ report: inout RepairReport) throws -> [ClientSurvey] {
        var clients: [ClientSurvey] = []
        for bundle in inventory.bundles {
            report.clients.append(bundle.name)
            guard let receipt = try Self.receipt(of: bundle, in: root) else {
                report.damage.append(
                    RepairReport.Damage(
                        client: bundle.name, path: nil,
                        reason: "has no receipt that fits it: remove it and install it again"))
                continue
            }
            let tree = try root.directory(StoreLayout.tree(bundle.version))
            let client = try compare(ClientSurvey(bundle: bundle, tree: tree, receipt: receipt))
            report.files += client.damaged.count + client.whole.count
            clients.append(client)
        }
        return clients
    }

    /// Nil where it is missing, or is not the one that the client was installed with.
    private static func receipt(of bundle: InstalledBundle, in root: Directory) throws -> File? {
        let name = "\(StoreLayout.receipts)/\(StoreLayout.receipt(bundle.version))"
        guard let file = try existing({ () throws(DiskError) in try root.file(name) }),
            let frame = try Receipt.validFrame(of: file), frame.identity.version == bundle.version,
            frame.contentSha256 == bundle.entry.contentSha256
        else { return nil }
        var files: Set<BundlePath> = []
        var isWhole = true
        try Receipt.forEachLine(of: file) { line, _ in
            guard let record = Receipt.record(line), files.insert(record.path).inserted else {
                isWhole = false
                return
            }
        }
        return isWhole && files.count == bundle.entry.fileCount ? file : nil
    }

    private mutating func compare(_ client: ClientSurvey) throws -> ClientSurvey {
        var client = client
        var listed: Set<[UInt8]> = []
        try Receipt.forEachLine(of: client.receipt) { line, _ in
            guard let record = Receipt.record(line) else { return }
            listed.insert(record.path.bytes)
            if try digest(of: record.path, in: client.tree) == record.digest {
                client.whole.append(record)
            } else {
                client.damaged.append(record)
            }
        }
        client.extras = try Self.others(than: listed, in: client.tree, prefix: [])
        return client
    }

    /// Nil where it is missing, is something else, or cannot be read.
    private mutating func digest(of path: BundlePath, in tree: Directory) throws -> SHA256Digest? {
        guard let file = try Self.existing({ () throws(DiskError) in try tree.file(path.string) }) else { return nil }
        let stamp = try file.stamp()
        if let known = digests[stamp] { return known }
        var hasher = try SHA256Hasher()
        do {
            _ = try file.forEachBlock { try hasher.update($0) }
        } catch let error as DiskError where error.isUnreadable {
            return nil
        }
        let digest = try hasher.finish()
        digests[stamp] = digest
        return digest
    }

    /// Nil where it does not exist, is something else, or cannot be read.
    static func existing<Opened>(_ open: () throws(DiskError) -> Opened) throws(DiskError) -> Opened? {
        do {
            return try open()
        } catch  where error.kind == .missing || error.kind == .unsuitable || error.isUnreadable {
            return nil
        }
    }

    /// Everything below `folder` that is neither listed nor a folder of what is.
    private static func others(than listed: Set<[UInt8]>, in folder: Directory, prefix: [UInt8]) throws -> [[UInt8]] {
        try folder.entries().flatMap { entry in
            let path = prefix + entry.name
            if listed.contains(path) { return [[UInt8]]() }
            guard entry.kind == .directory, let name = String(validating: entry.name, as: UTF8.self) else {
                return [path]
            }
            return try others(than: listed, in: folder.directory(name), prefix: path + [UInt8(ascii: "/")])
        }
    }
}
