import BundleDisk
import CLibrary

/// A draft of a release, in the feed's folder but under a name that no reader requests. It is removed with this value
/// unless it was committed; the next publisher removes the draft of a stopped one.
final class FolderDraft: ReleaseDraft {
    static let prefix = ".publish-"

    let scratch: Directory
    private(set) var isCommitted = false
    private let feed: FeedFolder
    private let releases: Directory
    private let name: String
    /// Marks the draft as in use.
    private let lock: FileLock

    /// Creates a draft in `releases` of the locked `feed`.
    init(in releases: Directory, of feed: FeedFolder) throws {
        self.feed = feed
        self.releases = releases
        name = randomName(Self.prefix)
        try releases.makeDirectory(name)
        scratch = try releases.directory(name)
        guard let lock = try FileLock.take(scratch) else {
            throw DiskError("lock", at: scratch.path, code: EWOULDBLOCK)
        }
        self.lock = lock
        EndingSignals.remove(name, in: releases)
    }

    deinit {
        if !isCommitted { try? releases.removeTree(name) }
        EndingSignals.keep(name)
    }

    /// Removes abandoned drafts, and what stopped removals left, from a folder of a feed.
    static func removeAbandoned(in releases: Directory) throws {
        try releases.list().filter { $0.hasPrefix(prefix) }.attemptEach { try removeAbandoned($0, in: releases) }
    }

    private static func removeAbandoned(_ name: String, in releases: Directory) throws {
        guard case .directory? = try releases.kind(of: name) else { return try releases.removeTree(name) }
        guard let lock = try FileLock.take(releases.directory(name)) else { return }
        try withExtendedLifetime(lock) { try releases.removeTree(name) }
    }

    /// Renames the draft durably. All its files are on the disk by then.
    func commit(_ name: String, archive: String, besides others: [String], manifest: [UInt8]) throws {
        try feed.exclusive(FeedWait()) {
            try scratch.replaceFile(ReleaseFeed.manifestName, with: manifest)
            EndingSignals.keep(self.name)
            try releases.move(self.name, to: releases, as: name)
            isCommitted = true
            try releases.sync()
            try feed.existing().sync()
        }
    }
}
