import BundleFormats
import BundleDisk
import BundleValues
import CLibrary

/// A request to show a client that is ready. `clientctl activate` sends it to the shell of the store.
package struct ActivationRequest: Sendable, Equatable {
    /// The client to show.
    package let client: ClientName
    /// Whether a busy page delays the change.
    package let waitsForBusyPages: Bool

    package init(_ client: ClientName, waitsForBusyPages: Bool) {
        self.client = client
        self.waitsForBusyPages = waitsForBusyPages
    }
}

/// `activation.json` of a store. The process that waits for the verdict holds a lock on the file, so the kernel ends its request with it.
package struct ActivationFile: Sendable {
    private static let maximumBytes = 4096
    private static let lockTimeoutMilliseconds = 10_000

    private let store: String

    /// Creates the file's accessor for the store at `store`.
    package init(store: String) { self.store = store }

    /// A request that lasts until `end` is called or the process ends.
    package struct Held: ~Copyable {
        fileprivate let folder: Directory
        fileprivate let lock: FileLock

        /// Ends the request.
        package consuming func end() {
            // A file that cannot be removed is ignored, because its lock is released below.
            try? folder.removeFile(StoreLayout.activation)
        }
    }

    /// Writes a request. Throws `storeLocked` if another process waits for one, and `permissionDenied` if the store belongs to another user,
    /// whose shell could not read the file.
    package func hold(_ request: ActivationRequest) throws -> Held {
        let folder = try Directory.open(store)
        try StoreMark.requireOwner(of: folder)
        guard let ledger = try FileLock.take(folder, waiting: Self.lockTimeoutMilliseconds) else {
            throw UpdateFailure(
                .storeLocked, subject: store,
                "Another clientctl has locked the ledger of \(store) for 10 s. Check whether it hangs.")
        }
        defer { withExtendedLifetime(ledger) {} }
        if try Self.locked(in: folder) != nil {
            throw UpdateFailure(
                .storeLocked, subject: store,
                "Another `clientctl activate` waits for a verdict on \(store). Wait until it ends, or end it.")
        }
        let aside = StoreLayout.activation + StoreLayout.asideSuffix
        try folder.removeTree(aside)
        let file = try folder.file(creating: aside, mode: 0o600)
        let bytes = JSONWriter.bytes(
            of: .object([
                "client": .string(request.client.description), "waitsForBusyPages": .bool(request.waitsForBusyPages),
            ]), layout: .pretty)
        try file.write(bytes)
        // The file is locked before it has its name, so a file without a lock is always an ended request.
        guard let lock = try FileLock.take(file) else { throw DiskError("lock", at: file.path, code: EWOULDBLOCK) }
        try folder.rename(aside, to: StoreLayout.activation)
        return Held(folder: folder, lock: lock)
    }

    /// Returns the request of a process that still waits; nil if there is none.
    package func pending() -> ActivationRequest? {
        guard let folder = try? Directory.open(store), let file = try? Self.locked(in: folder),
            let bytes = try? file.readAll(maximumBytes: Self.maximumBytes),
            case .object(let object)? = try? JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes),
            let client = object["client"]?.stringValue.flatMap(ClientName.init),
            let waits = object["waitsForBusyPages"]?.boolValue
        else { return nil }
        return ActivationRequest(client, waitsForBusyPages: waits)
    }

    /// Returns the file if a process holds its lock.
    private static func locked(in folder: Directory) throws(DiskError) -> File? {
        guard let file = try folder.file(ifPresent: StoreLayout.activation) else { return nil }
        return try FileLock.take(file) == nil ? file : nil
    }
}
