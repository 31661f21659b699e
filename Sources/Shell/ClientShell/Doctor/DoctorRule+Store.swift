import BundleCore
import BundleDisk
import BundleValues

extension DoctorRule {
    // MARK: Folder

    static func folder(_ store: StoreLook) -> DoctorFinding {
        let path = store.path
        switch store.folder {
        case .missing(nil):
            return .warning(
                .storeFolder, path, "There is no store, so nothing in it was checked.",
                "Check the path in --store or CLIENTCTL_STORE. On a device without a client, the first installation creates the store."
            )
        case .missing(let refusal?):
            return .failure(
                .storeFolder, path, "The store does not exist, and this user cannot create it: \(refusal).",
                "Create the folder, and give it to the user who runs clientctl (mode 0700).")
        case .closed(let error):
            return .failure(
                .storeFolder, path, "The store cannot be opened: \(error).",
                "Run this as the owner of the store, and check that it is a folder and its disk is mounted.")
        case .foreign(let why):
            return .failure(.storeFolder, path, why, "Name the right folder with --store.")
        case .usable: break
        }
        if let owner = store.owner, owner != store.user {
            return .failure(
                .storeFolder, path, "The store belongs to user \(owner), and this is user \(store.user).",
                "Run doctor as the owner: `sudo -u '#\(owner)' clientctl doctor --store \(path)`.")
        }
        if let refusal = store.refusals.first {
            let isReadOnly = refusal.isWriteRefusal
            return .failure(
                .storeFolder, path,
                isReadOnly
                    ? "The disk of the store is mounted read-only." : "The store is not writable: \(refusal).",
                isReadOnly
                    ? "Read the kernel's log (`dmesg`), check the disk, and mount it writable."
                    : "Give the folder and its content to this user: `chown -R` and `chmod u+rwX`.")
        }
        if let open = store.openFolders.first {
            return .failure(
                .storeFolder, path, "Every user may write to \(open), so clientctl rejects the store.",
                "Run `chmod o-w` on it, and check its content: `clientctl verify --store \(path)`.")
        }
        return .ok(.storeFolder, path, "The store belongs to this user and is writable.")
    }

    static func parents(_ store: StoreLook) -> DoctorFinding? {
        let trusted: Set<UInt32> = [0, store.user, store.owner ?? 0]
        if store.parents.isEmpty { return nil }
        for parent in store.parents {
            // In a sticky folder, users cannot rename the files of others.
            if parent.mode & 0o002 != 0, parent.mode & 0o1000 == 0 {
                return .warning(
                    .storeParents, parent.path,
                    "Every user may write to \(parent.path), and could replace the store.",
                    "Run `chmod o-w` on it.")
            }
            if !trusted.contains(parent.owner) {
                return .warning(
                    .storeParents, parent.path,
                    "\(parent.path) belongs to user \(parent.owner), who could replace the store.",
                    "Give it to root, or move the store.")
            }
        }
        return .ok(.storeParents, store.path, "No other user can replace the store.")
    }

    // MARK: Space

    static func space(_ store: StoreLook) -> DoctorFinding? {
        guard let space = store.space else { return nil }
        let free = ByteCount(bytes: space.bytes)
        let reserve = ByteCount(bytes: store.reserveBytes)
        let advice = FindingCode.diskSpace.remedy.replacing(
            "clientctl prune", with: "clientctl prune --store \(store.path)")
        if space.bytes < store.reserveBytes {
            return .failure(
                .diskSpace, store.path,
                "\(free) are free. clientctl installs nothing unless at least \(reserve) stay free.", advice)
        }
        // A download and its unpacked files, none of which exist yet.
        let (needed, overflow) = store.largest.bytes.multipliedReportingOverflow(by: 2)
        if overflow || space.bytes - store.reserveBytes < needed {
            return .warning(
                .diskSpace, store.path,
                "\(free) are free, of which \(reserve) must stay free. The next client may not fit if it is as large as the largest one here.",
                advice)
        }
        return .ok(.diskSpace, store.path, "\(free) are free.")
    }

    private static let fewFiles = 64

    static func inodes(_ store: StoreLook) -> DoctorFinding? {
        guard let files = store.space?.files else { return nil }
        let needed = store.largest.files + fewFiles
        if files < needed {
            return .failure(
                .inodes, store.path, "\(files) more files can be created, and a client needs \(needed).")
        }
        // Its serving root has as many names.
        if files / 3 < needed {
            return .warning(
                .inodes, store.path,
                "\(files) more files can be created. A client needs \(needed), and as many again when it is shown.")
        }
        return .ok(.inodes, store.path, "\(files) more files can be created.")
    }

    // MARK: Links

    static func links(_ store: StoreLook) -> [DoctorFinding] {
        guard let links = store.links else { return [] }
        return [linking(links, store), renaming(links, store)]
    }

    private static func linking(_ links: StoreLook.Links, _ store: StoreLook) -> DoctorFinding {
        let price = "so clients are copied and take twice the space"
        if let apart = links.copied {
            return .warning(
                .links, "\(store.path)/\(apart)",
                "\(apart) and serving are on different file systems or mounts, \(price).")
        }
        if let error = links.linking {
            return .warning(.links, store.path, "Hard links are not possible here (\(error)), \(price).")
        }
        return .ok(.links, store.path, "Clients can be linked into their serving roots.")
    }

    private static func renaming(_ links: StoreLook.Links, _ store: StoreLook) -> DoctorFinding {
        if let apart = links.apart {
            return .failure(
                .rename, "\(store.path)/\(apart)",
                "\(apart) and staging are on different file systems or mounts, so no client can be installed.")
        }
        if let error = links.exclusive {
            return .warning(
                .rename, store.path, "The file system does not rename without replacing (RENAME_NOREPLACE: \(error)).",
                "clientctl checks before each rename instead. Let no other program write to the store, or use ext4, btrfs or xfs."
            )
        }
        return .ok(.rename, store.path, "Installations are atomic renames.")
    }

    // MARK: Content

    static func ledger(_ store: StoreLook) -> DoctorFinding? {
        guard case .usable = store.folder else { return nil }
        if let damage = store.damage {
            let advice =
                "Run `clientctl install`, then `clientctl verify --store \(store.path)`. Check the disk (`dmesg`)."
            return store.ledger == nil
                ? .failure(.ledger, store.path, damage, advice)
                : .warning(.ledger, store.path, damage, advice)
        }
        if !store.lost.isEmpty {
            let names = store.lost.map(\.description).joined(separator: ", ")
            return .failure(
                .ledger, store.path,
                "The ledger has clients without a folder or a receipt: \(names).",
                "Run `clientctl install`, which restores what it can. Check which program removes files from the store."
            )
        }
        if let note = store.ledger?.newerNote {
            return .warning(
                .ledger, store.path, "\(note).", "Run the newer clientctl, also in units and containers of this device."
            )
        }
        let count = store.ledger?.entries.count ?? 0
        let clients = count == 1 ? "one client" : "\(count) clients"
        return .ok(
            .ledger, store.path,
            "The ledger is readable and has \(clients). "
                + "\(count == 1 ? "Its" : "Their") files were not compared: `clientctl verify --store \(store.path)` does that."
        )
    }

    static func leftovers(_ store: StoreLook) -> DoctorFinding? {
        guard case .usable = store.folder else { return nil }
        if let worker = store.worker {
            return .ok(.leftovers, store.path, "Process \(worker) is using the store.")
        }
        if store.leftovers == 0 && store.strays.isEmpty {
            return .ok(.leftovers, store.path, "No interrupted run left files.")
        }
        let strays =
            store.strays.isEmpty ? "" : ", and the ledger does not contain \(store.strays.joined(separator: ", "))"
        let staged = store.leftovers == 1 ? "One entry is" : "\(store.leftovers) entries are"
        return .warning(
            .leftovers, store.path, "\(staged) in staging\(strays). A run was interrupted, or one is active.",
            "If no installation is running, the next one removes them. If they stay, check which user owns these files."
        )
    }
}
