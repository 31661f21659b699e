import BundleFormats
package import BundleValues
package import BundleDisk
import BundleSigning
import CLibrary

/// Compares the folder of an installed client with its receipt, byte for byte.
package enum InstalledTree {
    /// Returns the first difference between a client and its receipt; nil if there is none.
    package static func difference(of bundle: InstalledBundle, inStoreAt path: String) throws -> String? {
        let root = try Directory.open(path)
        let name = "\(StoreLayout.receipts)/\(StoreLayout.receipt(bundle.version))"
        guard let receipt = try existing({ () throws(DiskError) in try root.file(name) }) else {
            return "its receipt is missing"
        }
        return try difference(between: receipt, and: root.directory(StoreLayout.tree(bundle.version)))
    }

    /// Returns the folder of a client of the store at `path`.
    package static func folder(of bundle: InstalledBundle, inStoreAt path: String) throws(DiskError) -> Directory {
        try Directory.open(path).directory(StoreLayout.tree(bundle.version))
    }

    /// Returns the manifest of a client of the store at `path`, as the feed had it; nil if its receipt has none.
    package static func manifest(of bundle: InstalledBundle, inStoreAt path: String) throws -> JSONValue? {
        let name = "\(StoreLayout.receipts)/\(StoreLayout.receipt(bundle.version))"
        guard let receipt = try existing({ () throws(DiskError) in try Directory.open(path).file(name) }) else {
            return nil
        }
        return try Receipt.manifest(of: receipt)
    }

    /// Returns the origins that a client of the store at `path` declares; none for a Meteor bundle, which may not.
    package static func origins(of bundle: InstalledBundle, inStoreAt path: String) throws -> ReleaseOrigins {
        guard bundle.version.source == .archive else { return ReleaseOrigins() }
        let page = try folder(of: bundle, inStoreAt: path).file(BundlePath.index.string)
        return ReleaseOrigins(page: try page.readAll())
    }

    /// Returns a ledger entry for the folder of `version`, installed at `time`; nil if any byte differs from the
    /// receipt.
    ///
    /// Throws if the disk fails, since an unreadable client may be whole.
    static func entry(
        matching receipts: Directory, for version: ClientVersion, in trees: Directory, at time: Timestamp
    ) throws -> Ledger.Entry? {
        guard let receipt = try existing({ () throws(DiskError) in try receipts.file(StoreLayout.receipt(version)) }),
            let tree = try existing({ () throws(DiskError) in try trees.directory(version.folderName) }),
            let (identity, contentSha256) = try Receipt.validFrame(of: receipt), identity.version == version,
            try difference(between: receipt, and: tree) == nil
        else { return nil }
        var files = 0
        var bytes = 0
        try Receipt.forEachLine(of: receipt) { line, _ in
            files += 1
            bytes += Receipt.record(line)?.size ?? 0
        }
        return Ledger.Entry(
            identity: identity, contentSha256: contentSha256, installedSize: bytes, fileCount: files,
            installedAt: time)
    }

    /// Returns nil if the name does not exist or has another type.
    private static func existing<Opened>(_ open: () throws(DiskError) -> Opened) throws(DiskError) -> Opened? {
        do {
            return try open()
        } catch  where error.kind == .missing || error.kind == .unsuitable {
            return nil
        }
    }

    private static func difference(between receipt: File, and tree: Directory) throws -> String? {
        var listed: Set<BundlePath> = []
        var found: String?
        var hasher = try SHA256Hasher()
        try Receipt.forEachLine(of: receipt) { line, _ in
            guard found == nil else { return }
            guard let record = Receipt.record(line) else {
                found = "\(receipt.path) has an invalid line"
                return
            }
            let path = record.path.string
            guard listed.insert(record.path).inserted else {
                found = "\(receipt.path) lists \(path) twice"
                return
            }
            guard let file = try existing({ () throws(DiskError) in try tree.file(path) }) else {
                found = "\(path) is missing"
                return
            }
            _ = try file.forEachBlock { try hasher.update($0) }
            if try hasher.finish() != record.digest {
                found = "\(path) has other content than when it was installed"
            }
        }
        if found == nil, try count(tree) != listed.count {
            found = "\(tree.path) has other files than when it was installed"
        }
        return found
    }

    /// Returns the number of entries below `tree` that are not folders.
    private static func count(_ tree: Directory) throws -> Int {
        var files = 0
        for bytes in try tree.names() {
            let name = String(decoding: bytes, as: UTF8.self)
            if name.utf8.elementsEqual(bytes), case .directory? = try tree.kind(of: name) {
                files += try count(tree.directory(name))
            } else {
                files += 1
            }
        }
        return files
    }
}
