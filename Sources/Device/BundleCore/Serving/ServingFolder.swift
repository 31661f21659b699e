import BundleDisk

/// The folder `serving/` with the organized roots. A server locks the root that it shows with a shared lock; its
/// removal needs an exclusive one.
struct ServingFolder: Sendable {
    let directory: Directory
    private let organizer: BundleOrganizer

    init(_ directory: Directory) {
        self.directory = directory
        organizer = BundleOrganizer(serving: directory)
    }

    /// Returns the exclusive right to remove the root `name`, even if there is none; nil while a server shows it.
    func claim(_ name: String) throws(DiskError) -> Claim? {
        do {
            return try FileLock.take(try directory.directory(name)).map(Claim.init)
        } catch  where error.kind == .missing {
            return Claim(lock: nil)
        }
    }

    /// The right to remove a root, held during the removal.
    struct Claim {
        let lock: FileLock?
    }

    /// Locks the root `name` while the returned lock exists. Returns nil if the root is missing or being removed.
    func use(_ name: String) throws(DiskError) -> FileLock? {
        do {
            guard let lock = try FileLock.share(try directory.directory(name)) else { return nil }
            // The root may have lost its name before the lock was acquired.
            return try directory.kind(of: name) == nil ? nil : lock
        } catch  where error.kind == .missing {
            return nil
        }
    }

    /// Removes the roots for which `isOld` returns true and that no server shows.
    func removeUnused(_ isOld: (String) -> Bool) throws {
        try directory.list().filter { !$0.hasPrefix(".") && isOld($0) }.attemptEach { name in
            guard case .directory? = try directory.kind(of: name), let claim = try self.claim(name) else { return }
            defer { withExtendedLifetime(claim) {} }
            try organizer.remove(name)
        }
    }

    /// Removes the files of roots whose removal was interrupted.
    func clearRemoved() throws { try organizer.clearRemoved() }

    /// Removes the root `name`, even if a server shows it: first its name, then its files.
    func remove(_ name: String) throws { try organizer.remove(name) }
}
