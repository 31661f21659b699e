import BundleDisk
import BundleSigning
import Glibc

/// Compares an installed folder with its receipt, byte for byte.
public enum InstalledTree {
    /// The first difference between the client `bundle` of the store at `path` and its receipt; nil where there is none.
    public static func difference(of bundle: InstalledBundle, inStoreAt path: String) throws -> String? {
        let root = try Directory.open(path)
        let receipts = try root.directory(StoreLayout.receipts)
        return try difference(
            receipts.file(StoreLayout.receipt(bundle.version)),
            root.directory(StoreLayout.clients).directory(bundle.version.folderName))
    }

    /// A ledger entry for the folder of `version`, if its receipt vouches for every byte of it.
    static func entry(vouchedBy receipts: Directory, for version: SemanticVersion, in clients: Directory) -> Ledger
        .Entry?
    {
        guard let receipt = try? receipts.file(StoreLayout.receipt(version)),
            let tree = try? clients.directory(version.folderName),
            let (identity, contentSha256) = try? Receipt.frame(of: receipt), identity.version == version,
            isWhole(receipt, tree)
        else { return nil }
        var files = 0
        var bytes = 0
        try? Receipt.forEachLine(of: receipt) { line, _ in
            files += 1
            bytes += Receipt.record(line)?.size ?? 0
        }
        return Ledger.Entry(
            identity: identity, contentSha256: contentSha256, installedSize: bytes, fileCount: files,
            installedAt: Timestamp(clamping: time(nil)))
    }

    private static func isWhole(_ receipt: File, _ tree: Directory) -> Bool {
        do { return try difference(receipt, tree) == nil } catch { return false }
    }

    private static func difference(_ receipt: File, _ tree: Directory) throws -> String? {
        var listed: Set<BundlePath> = []
        var found: String?
        var hasher = try SHA256Hasher()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 16)
        defer { buffer.deallocate() }
        try Receipt.forEachLine(of: receipt) { line, _ in
            guard found == nil else { return }
            guard let record = Receipt.record(line) else {
                found = "\(receipt.path) has a line that describes no file"
                return
            }
            let path = record.path.string
            guard listed.insert(record.path).inserted else {
                found = "\(receipt.path) lists \(path) twice"
                return
            }
            guard let file = try? tree.file(path) else {
                found = "\(path) is missing"
                return
            }
            var offset = 0
            while true {
                let count = try file.read(into: buffer, at: offset)
                if count == 0 { break }
                offset += count
                try hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
            let digest = try hasher.finish()
            if offset != record.size || digest != record.digest {
                found = "\(path) has other content than was installed"
            }
        }
        if found == nil, try count(tree) != listed.count {
            found = "\(tree.path) holds other files than were installed"
        }
        return found
    }

    /// Entries below `tree` that are not folders.
    private static func count(_ tree: Directory) throws -> Int {
        var files = 0
        for name in try tree.list() {
            if case .directory? = try tree.kind(of: name) {
                files += try count(tree.directory(name))
            } else {
                files += 1
            }
        }
        return files
    }
}
