import BundleCore
import BundleDisk
import BundleValues

extension DoctorRule {
    // MARK: Folder

    static func folder(_ store: StoreLook) -> DoctorFinding {
        let path = store.path
        switch store.folder {
        case .missing(nil):
            return .ok(.storeFolder, path, "There is no store yet. The first installation makes it.")
        case .missing(let refusal?):
            return .failure(
                .storeFolder, path, "There is no store, and this user cannot make it: \(refusal).",
                "Make the folder, and give it to the user who runs clientctl (mode 0700).")
        case .closed(let error):
            return .failure(
                .storeFolder, path, "The store cannot be opened: \(error).",
                "Run this as the store's owner, and check that it is a folder and its disk is mounted.")
        case .foreign(let why):
            return .failure(.storeFolder, path, why, "Name the right folder with --store.")
        case .usable: break
        }
        if let owner = store.owner, owner != store.user {
            return .failure(
                .storeFolder, path, "The store belongs to user \(owner), and this is user \(store.user).",
                "Run it as the owner: `sudo -u '#\(owner)' clientctl doctor`.")
        }
        if let refusal = store.refusals.first {
            let isReadOnly = refusal.isWriteRefusal
            return .failure(
                .storeFolder, path,
                isReadOnly
                    ? "The disk of the store is mounted for reading only." : "The store cannot be written: \(refusal).",
                isReadOnly
                    ? "Look into the kernel's log (`dmesg`), check the disk, and mount it for writing."
                    : "Give the folder and all in it to this user: `chown -R` and `chmod u+rwX`.")
        }
        if let open = store.openFolders.first {
            return .failure(
                .storeFolder, path, "Everybody may write to \(open), so clientctl refuses the store.",
                "Run `chmod o-w` on it, and check what is in it: `clientctl verify --store`.")
        }
        return .ok(.storeFolder, path, "The store is this user's, and can be written.")
    }

    static func parents(_ store: StoreLook) -> DoctorFinding? {
        let trusted: Set<UInt32> = [0, store.user, store.owner ?? 0]
        if store.parents.isEmpty { return nil }
        for parent in store.parents {
            // In a sticky folder nobody renames what is another's.
            if parent.mode & 0o002 != 0, parent.mode & 0o1000 == 0 {
                return .warning(
                    .storeParents, parent.path,
                    "Everybody may write to \(parent.path), and so put another store in its place.",
                    "Run `chmod o-w` on it.")
            }
            if !trusted.contains(parent.owner) {
                return .warning(
                    .storeParents, parent.path,
                    "\(parent.path) belongs to user \(parent.owner), who can put another store in its place.",
                    "Give it to root, or move the store.")
            }
        }
        return .ok(.storeParents, store.path, "Nobody else can put another store in its place.")
    }

    // MARK: Room

    static func space(_ store: StoreLook) -> DoctorFinding? {
        guard let space = store.space else { return nil }
        let free = ByteCount(bytes: space.bytes)
        let reserve = ByteCount(bytes: store.reserveBytes)
        let advice = "Free some space: `clientctl gc`, a smaller --keep, or other files on that disk."
        if space.bytes < store.reserveBytes {
            return .failure(
                .diskSpace, store.path,
                "\(free) are free. Nothing is installed where less than \(reserve) would stay free.", advice)
        }
        // A download and what it is unpacked to, none of which is here already.
        let (needed, overflow) = store.largest.bytes.multipliedReportingOverflow(by: 2)
        if overflow || space.bytes - store.reserveBytes < needed {
            return .warning(
                .diskSpace, store.path,
                "\(free) are free, of which \(reserve) must stay. The next client may not fit if it is as large as the largest here.",
                advice)
        }
        return .ok(.diskSpace, store.path, "\(free) are free.")
    }

    private static let fewFiles = 64

    static func inodes(_ store: StoreLook) -> DoctorFinding? {
        guard let files = store.space?.files else { return nil }
        let needed = store.largest.files + fewFiles
        let advice = "Remove files from that disk, or make its file system anew with more inodes."
        if files < needed {
            return .failure(
                .inodes, store.path, "\(files) more files are possible, and a client needs \(needed).", advice)
        }
        // Its serving root has as many names again.
        if files / 3 < needed {
            return .warning(
                .inodes, store.path,
                "\(files) more files are possible, and a client needs \(needed) and as many to be shown.",
                advice)
        }
        return .ok(.inodes, store.path, "\(files) more files are possible.")
    }

    // MARK: Links

    static func links(_ store: StoreLook) -> [DoctorFinding] {
        guard let links = store.links else { return [] }
        return [linking(links, store), renaming(links, store)]
    }

    private static func linking(_ links: StoreLook.Links, _ store: StoreLook) -> DoctorFinding {
        let advice = "Keep the whole store on one file system that has hard links, such as ext4, btrfs or xfs."
        let price = "so clients are copied and take twice the room"
        if let apart = links.copied {
            return .warning(
                .links, "\(store.path)/\(apart)",
                "\(apart) and serving are on different file systems or mounts, \(price).",
                advice)
        }
        if let error = links.linking {
            return .warning(.links, store.path, "Files cannot have two names here (\(error)), \(price).", advice)
        }
        return .ok(.links, store.path, "Clients can be linked into their serving roots.")
    }

    private static func renaming(_ links: StoreLook.Links, _ store: StoreLook) -> DoctorFinding {
        if let apart = links.apart {
            return .failure(
                .rename, "\(store.path)/\(apart)",
                "\(apart) and staging are on different file systems or mounts, so nothing can be installed.",
                "Keep the whole store on one file system and one mount.")
        }
        if let error = links.exclusive {
            return .warning(
                .rename, store.path, "The file system does not rename without replacing (RENAME_NOREPLACE: \(error)).",
                "clientctl looks first instead. Let nothing else write to the store, or use ext4, btrfs or xfs.")
        }
        return .ok(.rename, store.path, "An installation is put in its place by one rename.")
    }

    // MARK: What is in it

    static func ledger(_ store: StoreLook) -> DoctorFinding? {
        guard case .usable = store.folder else { return nil }
        if let damage = store.damage {
            let advice = "Run `clientctl install`, then `clientctl verify --store`. Check the disk (`dmesg`)."
            return store.ledger == nil
                ? .failure(.ledger, store.path, damage, advice)
                : .warning(.ledger, store.path, "\(damage) Until then the one before it counts.", advice)
        }
        if !store.lost.isEmpty {
            let names = store.lost.map(\.description).joined(separator: ", ")
            return .failure(
                .ledger, store.path,
                "The store remembers clients of which the folder or the receipt is gone: \(names).",
                "Run `clientctl install`, which brings back what it can. Check who removes files from the store.")
        }
        let count = store.ledger?.entries.count ?? 0
        let clients = count == 1 ? "one client" : "\(count) clients"
        return .ok(
            .ledger, store.path,
            "The ledger can be read and names \(clients). "
                + "\(count == 1 ? "Its" : "Their") files were not compared: `clientctl verify --store` does."
        )
    }

    static func leftovers(_ store: StoreLook) -> DoctorFinding? {
        guard case .usable = store.folder else { return nil }
        if let worker = store.worker {
            return .ok(.leftovers, store.path, "Process \(worker) works on the store at present.")
        }
        if store.leftovers == 0 && store.strays.isEmpty {
            return .ok(.leftovers, store.path, "No run has left anything unfinished.")
        }
        let strays =
            store.strays.isEmpty ? "" : ", and the ledger does not know \(store.strays.joined(separator: ", "))"
        let staged = store.leftovers == 1 ? "One entry is" : "\(store.leftovers) entries are"
        return .warning(
            .leftovers, store.path, "\(staged) in staging\(strays). A run was stopped, or one is under way.",
            "If no installation runs, the next one clears it. If it stays, check who owns these files.")
    }
}
