import BundleDisk

/// `serving/`: the organized roots. One that a running server shows is locked, shared; removing one takes it exclusively.
struct ServingFolder: Sendable {
    let directory: Directory
    private let organizer: BundleOrganizer

    init(_ directory: Directory) {
        self.directory = directory
        organizer = BundleOrganizer(serving: directory)
    }

    /// The exclusive right to remove the root `name`, or that there is none; nil while a server shows it.
    func claim(_ name: String) throws(DiskError) -> Claim? {
        do {
            return try FileLock.take(try directory.directory(name)).map(Claim.init)
        } catch  where error.kind == .missing {
            return Claim(lock: nil)
        }
    }

    /// Held while a client is removed.
    struct Claim {
        let lock: FileLock?
    }

    /// Says that the root `name` is in use, for as long as the answer lives; nil where it is gone or about to go.
    func use(_ name: String) throws(DiskError) -> FileLock? {
        do {
            guard let lock = try FileLock.share(try directory.directory(name)) else { return nil }
            // It may have lost its name before the lock was taken.
            return try directory.kind(of: name) == nil ? nil : lock
        } catch  where error.kind == .missing {
            return nil
        }
    }

    /// Removes every root whose name `isOld` and that no server shows.
    func removeUnused(_ isOld: (String) -> Bool) throws {
        for name in try directory.list() where !name.hasPrefix(".") && isOld(name) {
            guard case .directory? = try directory.kind(of: name), let claim = try claim(name) else { continue }
            defer { withExtendedLifetime(claim) {} }
            try organizer.remove(name)
        }
    }

    /// Removes what a stop in `remove` left.
    func clearRemoved() throws { try organizer.clearRemoved() }

    /// Removes the root `name`, whoever shows it: it loses its name at once, then its files go.
    func remove(_ name: String) throws { try organizer.remove(name) }
}
