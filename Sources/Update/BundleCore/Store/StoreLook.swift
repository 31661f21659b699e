package import BundleDisk
import BundleValues
import Glibc

/// What can be seen of a store without its lock, for whoever asks why it does not work.
package struct StoreLook: Sendable {
    /// What is at the store's path.
    package enum Folder: Sendable, Equatable {
        /// A store, or an empty folder that can become one.
        case usable
        /// Nothing; `refusal` is why the first installation could not make it, `nil` where it can.
        case missing(refusal: DiskError?)
        /// It cannot be opened.
        case closed(DiskError)
        /// It is somebody else's folder, and no store: why.
        case foreign(String)
    }

    /// A folder above the store.
    package struct Parent: Sendable, Equatable {
        /// Its path.
        package var path: String
        /// The user whose folder it is.
        package var owner: UInt32
        /// Its permission bits.
        package var mode: UInt32

        /// States a folder.
        package init(path: String, owner: UInt32, mode: UInt32) {
            (self.path, self.owner, self.mode) = (path, owner, mode)
        }
    }

    /// What the file system does for the store.
    package struct Links: Sendable, Equatable {
        /// A folder into which nothing can be renamed from `staging`; nil where that is none.
        package var apart: String?
        /// A folder whose files cannot be linked into serving roots; nil where that is none.
        package var copied: String?
        /// Why a file cannot have two names here; nil where it can.
        package var linking: DiskError?
        /// Why the kernel cannot rename without replacing; nil where it can.
        package var exclusive: DiskError?

        /// States what was tried.
        package init(
            apart: String? = nil, copied: String? = nil, linking: DiskError? = nil, exclusive: DiskError? = nil
        ) {
            (self.apart, self.copied, self.linking, self.exclusive) = (apart, copied, linking, exclusive)
        }
    }

    /// Its path from the root.
    package var path: String
    /// What is there.
    package var folder: Folder = .usable
    /// The user that looks.
    package var user: UInt32
    /// The user whose folder it is; nil where nobody knows.
    package var owner: UInt32?
    /// Folders of the store in which this user may not write.
    package var refusals: [DiskError] = []
    /// Folders of the store that everybody may write to.
    package var openFolders: [String] = []
    /// The folders above it, the nearest first.
    package var parents: [Parent] = []
    /// What is free where it is, or will be.
    package var space: FreeSpace?
    /// Bytes that must stay free.
    package var reserveBytes = 0
    /// What was tried in its staging folder; nil where nothing was.
    package var links: Links?
    /// What it remembers; nil where nothing could be read.
    package var ledger: Ledger?
    /// Why the newest ledger could not be read; nil where it could, or there is none.
    package var damage: String?
    /// Clients that the ledger has and the disk does not: their folder, or their receipt.
    package var lost: [ClientName] = []
    /// Folders of clients that the ledger does not know.
    package var strays: [String] = []
    /// What runs that were stopped, or one that is under way, have in the staging folder.
    package var leftovers = 0
    /// The process that works on the store, where the kernel tells.
    package var worker: Int32?
    /// The process that shows its clients, where the kernel tells.
    package var shell: Int32?

    /// Nothing was found out yet.
    package init(path: String, user: UInt32) { (self.path, self.user) = (path, user) }

    /// The largest client that is installed: its bytes, and the most files of one.
    package var largest: (bytes: Int, files: Int) {
        let entries = ledger?.entries ?? []
        return (entries.map(\.installedSize).max() ?? 0, entries.map(\.fileCount).max() ?? 0)
    }
}

extension StoreLook {
    /// Looks at the store at `path`, an absolute one. Takes no lock and changes nothing, but for a folder of its own in `staging`, which
    /// is gone when it returns.
    package static func at(_ path: String) -> StoreLook {
        var look = StoreLook(path: path, user: geteuid())
        look.lookAbove()
        do throws(DiskError) {
            try look.lookInside(try Directory.open(path))
        } catch {
            look.folder =
                error.kind == .missing
                ? .missing(refusal: PathLook.writeRefusal(PathLook.nearest(to: path))) : .closed(error)
        }
        return look
    }

    /// The folder in which it tries what the file system does.
    package static func staging(of path: String) -> String { "\(path)/\(StoreLayout.staging)" }

    private mutating func lookAbove() {
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

    private mutating func lookInside(_ root: Directory) throws(DiskError) {
        let found = try root.permissions()
        owner = found.owner
        do { try StoreMark.require(in: root) } catch {
            folder = .foreign(UpdateFailure(error).message)
            return
        }
        if found.mode & 0o002 != 0 { openFolders.append(path) }
        if let refusal = PathLook.writeRefusal(path) { refusals.append(refusal) }
        for name in Self.folders {
            let below = "\(path)/\(name)"
            guard let found = try? PathLook.permissions(below) else { continue }
            if found.mode & 0o002 != 0 { openFolders.append(below) }
            if let refusal = PathLook.writeRefusal(below) { refusals.append(refusal) }
        }
        worker = try FileLock.holder(of: StoreLayout.lock, in: root)
        if case .directory? = try root.kind(of: StoreLayout.serving) {
            shell = try FileLock.holder(of: try root.directory(StoreLayout.serving))
        }
        try lookAtClients(root)
        // What another user's process leaves there, the owner could not remove.
        if owner == user, refusals.isEmpty { links = try Self.tryLinks(root) }
    }

    private static let folders = [
        StoreLayout.clients, StoreLayout.meteor, StoreLayout.receipts, StoreLayout.staging, StoreLayout.downloads,
        StoreLayout.serving,
    ]

    // MARK: Clients

    private mutating func lookAtClients(_ root: Directory) throws(DiskError) {
        do {
            let generations = try LedgerFile.generations(root)
            ledger = generations.ledger ?? Ledger()
            damage = generations.damage?.message
        } catch {
            damage = UpdateFailure(error).message
        }
        if let staging = try Self.open(StoreLayout.staging, root) { leftovers = try staging.list().count }
        let known = ledger?.entries ?? []
        for entry in known {
            let receipts = try Self.open(StoreLayout.receipts, root)
            let trees = try Self.open(StoreLayout.trees(of: entry.version.source), root)
            let isThere = try trees?.kind(of: entry.version.folderName) != nil
            let isVouchedFor = try receipts?.kind(of: StoreLayout.receipt(entry.version)) != nil
            if !isThere || !isVouchedFor { lost.append(.installed(entry.version)) }
        }
        // A ledger that is lost knows no client, which makes none of them a leftover.
        if ledger == nil { return }
        let named = Set(known.map { StoreLayout.tree($0.version) })
        for source in SourceName.allCases {
            let folder = StoreLayout.trees(of: source)
            let names = try Self.open(folder, root)?.list() ?? []
            strays += names.filter { $0 != StoreLayout.previousVersion && !named.contains("\(folder)/\($0)") }.sorted()
                .map { "\(folder)/\($0)" }
        }
    }

    private static func open(_ name: String, _ root: Directory) throws(DiskError) -> Directory? {
        do throws(DiskError) {
            return try root.directory(name)
        } catch {
            if error.kind == .missing { return nil }
            throw error
        }
    }

    // MARK: Links

    /// Tries in `staging` what installations and launches rely on; nil where there is no such folder yet.
    private static func tryLinks(_ root: Directory) throws(DiskError) -> Links? {
        guard let staging = try open(StoreLayout.staging, root), let serving = try open(StoreLayout.serving, root)
        else {
            return nil
        }
        var links = Links()
        for name in [StoreLayout.clients, StoreLayout.meteor, StoreLayout.receipts, StoreLayout.downloads] {
            guard let folder = try open(name, root) else { continue }
            if try !staging.isJoined(to: folder) { links.apart = name }
            let isShown = [StoreLayout.clients, StoreLayout.meteor].contains(name)
            let isJoined = try folder.isJoined(to: serving)
            if isShown && !isJoined { links.copied = name }
        }
        tryNames(in: staging, &links)
        let isTold = [links.linking, links.exclusive].allSatisfy { $0?.isWriteRefusal != true && $0?.kind != .missing }
        if isTold { return links }
        // A disk that is full tells nothing, nor does a folder that an installation has cleared away meanwhile.
        (links.linking, links.exclusive) = (nil, nil)
        return links.apart == nil && links.copied == nil ? nil : links
    }

    private static func tryNames(in staging: Directory, _ links: inout Links) {
        let name = randomName("doctor-")
        do throws(DiskError) {
            try staging.makeDirectory(name, mode: 0o700)
            let folder = try staging.directory(name)
            try [UInt8](1...8).withUnsafeBytes { bytes in
                Result { () throws(DiskError) in try folder.createFile("one", bytes) }
            }.get()
            links.exclusive = folder.exclusiveRenameRefusal("one", to: "two")
            try folder.link(links.exclusive == nil ? "two" : "one", to: folder, as: "three")
        } catch {
            links.linking = error
        }
        // What cannot be removed is cleared by the next installation.
        try? staging.removeTree(name)
    }
}
