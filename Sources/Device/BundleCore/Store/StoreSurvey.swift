import BundleFormats
import BundleDisk
import BundleSigning
import BundleValues

/// The comparison of one client with its receipt.
struct ClientSurvey {
    let bundle: InstalledBundle
    let tree: Directory
    let receipt: File
    /// The files that are missing or have other content.
    var damaged: [Receipt.FileRecord] = []
    /// The paths that the receipt does not list.
    var extras: [[UInt8]] = []
    /// The files with the right content.
    var whole: [Receipt.FileRecord] = []

    var name: ClientName { bundle.name }

    var findings: [(path: String, reason: String)] {
        damaged.map { ($0.path.string, "is missing or damaged") }
            + extras.map { (UntrustedName.display($0), "was not installed") }
    }
}

/// Compares the clients of a store with their receipts. A file with several names is read once.
struct StoreSurvey {
    private let root: Directory
    private var digests: [FileStamp: SHA256Digest] = [:]

    init(_ root: Directory) { self.root = root }

    /// Returns the clients with a valid receipt; the others are added to the damage.
    mutating func clients(of inventory: Inventory, report: inout RepairReport) throws -> [ClientSurvey] {
        var clients: [ClientSurvey] = []
        for bundle in inventory.bundles {
            report.clients.append(bundle.name)
            guard let receipt = try Self.receipt(of: bundle, in: root) else {
                report.damage.append(
                    RepairReport.Damage(
                        client: bundle.name, path: nil,
                        reason: "has no valid receipt: remove it and install it again"))
                continue
            }
            let tree = try root.directory(StoreLayout.tree(bundle.version))
            let client = try compare(ClientSurvey(bundle: bundle, tree: tree, receipt: receipt))
            report.files += client.damaged.count + client.whole.count
            clients.append(client)
        }
        return clients
    }

    /// Returns nil if the receipt is missing or belongs to another installation.
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

    /// Returns nil if the file is missing, has another type, or cannot be read.
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

    /// Returns nil if the name does not exist, has another type, or cannot be read.
    static func existing<Opened>(_ open: () throws(DiskError) -> Opened) throws(DiskError) -> Opened? {
        do {
            return try open()
        } catch  where error.kind == .missing || error.kind == .unsuitable || error.isUnreadable {
            return nil
        }
    }

    /// Returns the paths below `folder` that are neither listed nor folders of listed files.
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
