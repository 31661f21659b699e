import BundleFormats
package import BundleDisk
import BundleValues
import CLibrary

/// The state of a store as seen without its lock, for diagnosis.
package struct StoreLook: Sendable {
    /// The state of the store's path.
    package enum Folder: Sendable, Equatable {
        /// A store, or an empty folder that can become one.
        case usable
        /// A missing folder. `refusal` is why it cannot be created; nil if it can.
        case missing(refusal: DiskError?)
        /// A folder that cannot be opened.
        case closed(DiskError)
        /// A folder that is not a store, with the reason.
        case foreign(String)
    }

    /// A folder above the store.
    package struct Parent: Sendable, Equatable {
        package var path: String
        package var owner: UInt32
        /// The permission bits.
        package var mode: UInt32

        package init(path: String, owner: UInt32, mode: UInt32) {
            (self.path, self.owner, self.mode) = (path, owner, mode)
        }
    }

    /// The abilities of the store's file system.
    package struct Links: Sendable, Equatable {
        /// A folder to which `staging` cannot rename files; nil if it can rename to all.
        package var apart: String?
        /// A folder whose files cannot be linked into serving roots; nil if all can.
        package var copied: String?
        /// The reason why files cannot have hard links; nil if they can.
        package var linking: DiskError?
        /// The reason why the kernel cannot rename without replacing a file; nil if it can.
        package var exclusive: DiskError?

        package init(
            apart: String? = nil, copied: String? = nil, linking: DiskError? = nil, exclusive: DiskError? = nil
        ) {
            (self.apart, self.copied, self.linking, self.exclusive) = (apart, copied, linking, exclusive)
        }
    }

    /// The absolute path of the store.
    package var path: String
    package var folder: Folder = .usable
    /// The effective user of this process.
    package var user: UInt32
    /// The owner of the folder; nil if unknown.
    package var owner: UInt32?
    /// The folders of the store to which this user must not write.
    package var refusals: [DiskError] = []
    /// The folders of the store to which every user may write.
    package var openFolders: [String] = []
    /// The folders above the store, the nearest first.
    package var parents: [Parent] = []
    /// The free space at the store's path.
    package var space: FreeSpace?
    /// The number of bytes that must stay free.
    package var reserveBytes = 0
    /// The result of the tests in the staging folder; nil if there were none.
    package var links: Links?
    /// The ledger; nil if it could not be read.
    package var ledger: Ledger?
    /// The reason why the newest ledger could not be read; nil if it could, or if there is none.
    package var damage: String?
    /// The clients of the ledger without a folder or a receipt.
    package var lost: [ClientName] = []
    /// The folders of clients that the ledger does not have.
    package var strays: [String] = []
    /// The number of entries that interrupted or active runs have in the staging folder.
    package var leftovers = 0
    /// The process that holds the store's lock, if the kernel reports it.
    package var worker: Int32?
    /// The process that shows the store's clients, if the kernel reports it.
    package var shell: Int32?

    /// Creates the state of a store that was not inspected yet.
    package init(path: String, user: UInt32) { (self.path, self.user) = (path, user) }

    /// The largest size in bytes and the largest number of files of an installed client.
    package var largest: (bytes: Int, files: Int) {
        let entries = ledger?.entries ?? []
        return (entries.map(\.installedSize).max() ?? 0, entries.map(\.fileCount).max() ?? 0)
    }
}

extension StoreLook {
    /// Inspects the store at the absolute `path`. Takes no lock and changes nothing, except for a temporary folder in
    /// `staging`.
    package static func at(_ path: String) -> StoreLook {
        var store = StoreLook(path: path, user: geteuid())
        store.inspectParents()
        do throws(DiskError) {
            try store.inspectFolder(try Directory.open(path))
        } catch {
            store.folder =
                error.kind == .missing
                ? .missing(refusal: PathLook.writeRefusal(PathLook.nearest(to: path))) : .closed(error)
        }
        return store
    }

    /// Returns the folder in which `at` tests the file system.
    package static func staging(of path: String) -> String { "\(path)/\(StoreLayout.staging)" }

    private mutating func inspectParents() {
        var above = path
        while above != "/", above != "." {
            above = PathLook.parent(of: above)
            if let found = try? PathLook.permissions(above) {
                parents.append(Parent(path: above, owner: found.owner, mode: found.mode))
            }
        }
        guard let space = try? Directory.open(PathLook.nearest(to: path)).freeSpace() else { return }
        self.space = space
        reserveBytes = DiskRule.reserveBytes(space)
    }

    private mutating func inspectFolder(_ root: Directory) throws(DiskError) {
        let found = try root.permissions()
        owner = found.owner
        do { try StoreMark.require(in: root) } catch {
            folder = .foreign(UpdateFailure(error).message)
            return
        }
        if found.mode & 0o002 != 0 { openFolders.append(path) }
        if let refusal = PathLook.writeRefusal(path) { refusals.append(refusal) }
        for name in StoreLayout.folders {
            let below = "\(path)/\(name)"
            guard let found = try? PathLook.permissions(below) else { continue }
            if found.mode & 0o002 != 0 { openFolders.append(below) }
            if let refusal = PathLook.writeRefusal(below) { refusals.append(refusal) }
        }
        worker = try FileLock.holder(of: StoreLayout.lock, in: root)
        if case .directory? = try root.kind(of: StoreLayout.serving) {
            shell = try FileLock.holder(of: try root.directory(StoreLayout.serving))
        }
        try inspectClients(root)
        // The owner could not remove files that another user's process leaves.
        if owner == user, refusals.isEmpty { links = try Self.tryLinks(root) }
    }

    // MARK: Clients

    private mutating func inspectClients(_ root: Directory) throws(DiskError) {
        do {
            let generations = try LedgerFile.generations(root)
            ledger = generations.ledger ?? Ledger()
            damage = generations.damage?.message
        } catch {
            damage = UpdateFailure(error).message
        }
        if let staging = try Self.open(StoreLayout.staging, in: root) { leftovers = try staging.list().count }
        let known = ledger?.entries ?? []
        for entry in known {
            let receipts = try Self.open(StoreLayout.receipts, in: root)
            let trees = try Self.open(StoreLayout.trees(of: entry.version.source), in: root)
            let isThere = try trees?.kind(of: entry.version.folderName) != nil
            let hasReceipt = try receipts?.kind(of: StoreLayout.receipt(entry.version)) != nil
            if !isThere || !hasReceipt { lost.append(.installed(entry.version)) }
        }
        // Without a ledger, no client folder counts as a stray.
        if ledger == nil { return }
        let named = Set(known.map { StoreLayout.tree($0.version) })
        for source in SourceName.allCases {
            let folder = StoreLayout.trees(of: source)
            let names = try Self.open(folder, in: root)?.list() ?? []
            strays += names.filter { $0 != StoreLayout.previousVersion && !named.contains("\(folder)/\($0)") }.sorted()
                .map { "\(folder)/\($0)" }
        }
    }

    private static func open(_ name: String, in root: Directory) throws(DiskError) -> Directory? {
        do throws(DiskError) {
            return try root.directory(name)
        } catch {
            if error.kind == .missing { return nil }
            throw error
        }
    }

    // MARK: Links

    /// Tests in `staging` what installations and launches need; nil if the folder is missing.
    private static func tryLinks(_ root: Directory) throws(DiskError) -> Links? {
        guard let staging = try open(StoreLayout.staging, in: root),
            let serving = try open(StoreLayout.serving, in: root)
        else {
            return nil
        }
        var links = Links()
        for name in [StoreLayout.clients, StoreLayout.meteor, StoreLayout.receipts, StoreLayout.downloads] {
            guard let folder = try open(name, in: root) else { continue }
            if try !staging.isJoined(to: folder) { links.apart = name }
            let isShown = [StoreLayout.clients, StoreLayout.meteor].contains(name)
            let isJoined = try folder.isJoined(to: serving)
            if isShown && !isJoined { links.copied = name }
        }
        tryNames(in: staging, &links)
        let isConclusive = [links.linking, links.exclusive].allSatisfy {
            $0?.isWriteRefusal != true && $0?.kind != .missing
        }
        if isConclusive { return links }
        // The tests say nothing on a full disk, or if an installation removed the folder during the test.
        (links.linking, links.exclusive) = (nil, nil)
        return links.apart == nil && links.copied == nil ? nil : links
    }

    private static func tryNames(in staging: Directory, _ links: inout Links) {
        let name = randomName("doctor-")
        do throws(DiskError) {
            try staging.makeDirectory(name, mode: 0o700)
            let folder = try staging.directory(name)
            try [UInt8](1...8).withUnsafeBytes { bytes in
                Result { () throws(DiskError) in try folder.createFile("one", with: bytes) }
            }.get()
            links.exclusive = folder.exclusiveRenameRefusal("one", to: "two")
            try folder.link(links.exclusive == nil ? "two" : "one", to: folder, as: "three")
        } catch {
            links.linking = error
        }
        // The next installation removes a folder that cannot be removed here.
        try? staging.removeTree(name)
    }
}
