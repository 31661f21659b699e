import BundleDisk
package import BundleSigning
import BundleValues

/// The key of a device in its store, which signs the messages to a roster. Without a roster, the file does not exist.
package enum DeviceKeyFile {
    private static let maximumBytes = 4096

    /// Returns the key, and creates it at the first use. The file is durable and readable by its owner only. Throws `DiskError` or
    /// `KeyError`; a damaged key is not replaced, because the roster would refuse another one.
    package static func key(inStore store: String) throws -> DeviceKey {
        // A store on a read-only disk has its key already.
        if File.exists(store), let key = try read(in: Directory.open(store)) { return key }
        let root = try StoreFolders.openRoot(store)
        let made = try DeviceKey()
        let aside = StoreLayout.rosterKey + StoreLayout.asideSuffix
        do {
            try root.removeFile(aside)
            try root.createDurableFile(aside, with: try made.pem(), mode: 0o600)
            try root.move(aside, to: root, as: StoreLayout.rosterKey)
            try root.sync()
            return made
        } catch {
            // Another process of this device has created the key.
            if let key = try read(in: root) { return key }
            throw error
        }
    }

    private static func read(in root: Directory) throws -> DeviceKey? {
        guard let pem = try root.contents(StoreLayout.rosterKey, maximumBytes: maximumBytes) else { return nil }
        return try DeviceKey(parsingPEM: pem)
    }
}
