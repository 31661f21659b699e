import BundleDisk
import BundleSigning
import BundleValues
import CLibrary

/// A feed in a folder. Files are written under another name and renamed, and a publisher holds the folder's lock from
/// its last read to its last rename.
///
/// A stop at any point leaves a feed that devices can use; publishing again completes it.
package final class FeedFolder: FeedLocation {
    package var address: LocationAddress { .folder(path) }
    private let path: String
    private var opened: Directory?
    private var lock: FileLock?

    /// Uses the folder at `path`, which need not exist.
    package init(_ path: String) { self.path = path }

    private var root: Directory? {
        get throws {
            if opened == nil, File.exists(path) { opened = try Directory.open(path) }
            return opened
        }
    }

    func existing() throws -> Directory { try root ?? Directory.open(path) }

    // MARK: Files

    package func read(_ name: String, maximumBytes: Int) throws -> FeedRecord? {
        guard let bytes = try root?.contents(name, maximumBytes: maximumBytes) else { return nil }
        return FeedRecord(bytes, version: try Self.version(of: bytes))
    }

    private static func version(of bytes: [UInt8]) throws -> FeedVersion {
        FeedVersion(try SHA256Digest.of(bytes).hex)
    }

    package func stream(
        _ name: String, maximumBytes: Int, body: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) throws -> Bool {
        guard let root = try root else { return false }
        let file: File
        do throws(DiskError) {
            file = try root.file(name)
        } catch {
            if error.kind == .missing { return false }
            throw error
        }
        if try file.size() > maximumBytes {
            throw UpdateFailure(
                .sizeMismatch, subject: file.path,
                "\(file.path) has more than the expected \(maximumBytes) bytes. Restore it, or publish it again."
            )
        }
        _ = try file.forEachBlock(body)
        return true
    }

    package func create(_ name: String, with content: FeedContent) throws -> Bool {
        try exclusive(FeedWait()) {
            let (above, last) = try location(of: name)
            if try above.kind(of: last) != nil { return false }
            let aside = last + Self.aside
            try above.removeFile(aside)
            do {
                switch content {
                case .bytes(let bytes): try above.createDurableFile(aside, with: bytes)
                case .file(let source):
                    let file = try above.file(creating: aside)
                    _ = try source.forEachBlock { try file.write($0) }
                    try file.sync()
                }
                try above.move(aside, to: above, as: last)
            } catch {
                // If the removal fails too, the next publisher removes the file.
                try? above.removeFile(aside)
                throw error
            }
            try above.sync()
            try existing().sync()
            return true
        }
    }

    package func replace(_ name: String, with bytes: [UInt8], version: FeedVersion?) throws {
        try exclusive(FeedWait()) {
            let present = try root?.contents(name, maximumBytes: Self.largestDocument)
            guard try present.map(Self.version) == version else { throw FeedConflict(name, in: self) }
            let (above, last) = try location(of: name)
            try above.replaceFile(last, with: bytes)
            if name.contains("/") { try existing().sync() }
        }
    }

    package func remove(_ name: String) throws {
        try exclusive(FeedWait()) {
            guard case (let above?, let last) = try location(of: name, making: false) else { return }
            if name.hasSuffix("/") {
                guard try above.kind(of: last) != nil else { return }
                let aside = randomName(FolderDraft.prefix)
                try above.rename(last, to: aside)
                try above.sync()
                try above.removeTree(aside)
            } else {
                try above.removeFile(last)
                try above.sync()
            }
        }
    }

    package func list(_ folder: String) throws -> [FeedEntry] {
        guard let root = try root else { return [] }
        var entries: [FeedEntry] = []
        var folders = [folder]
        while let path = folders.popLast() {
            let below: Directory
            do throws(DiskError) {
                below = try path.isEmpty ? root : root.directory(path)
            } catch {
                if error.kind == .missing { continue }
                throw error
            }
            for name in try below.list() where !name.hasPrefix(".") && !name.hasSuffix(Self.aside) {
                let whole = path.isEmpty ? name : "\(path)/\(name)"
                switch try below.kind(of: name) {
                case .file(let size)?:
                    let written = try below.stamp(of: name).map { Timestamp(clamping: $0.changeTime) }
                    entries.append(FeedEntry(name: whole, size: size, written: written))
                case .directory?: folders.append(whole)
                default: break
                }
            }
        }
        return entries
    }

    /// Returns the parent folder of `name`, and the name in it.
    private func location(of name: String) throws -> (Directory, String) {
        guard case (let above?, let last) = try location(of: name, making: true) else {
            throw DiskError("create", at: "\(address)/\(name)", code: ENOENT)
        }
        return (above, last)
    }

    private func location(of name: String, making: Bool) throws -> (Directory?, String) {
        var above = try existing()
        var parts = name.split(separator: "/").map(String.init)
        let last = parts.popLast() ?? ""
        for part in parts {
            guard let next = try making ? above.directory(creating: part) : above.directory(ifPresent: part) else {
                return (nil, last)
            }
            above = next
        }
        return (above, last)
    }

    private static let aside = ".new"
    /// Larger than any allowed file; the reader rejects a larger one.
    private static let largestDocument = 64 << 20

    // MARK: The lock

    package func exclusive<Answer>(_ wait: FeedWait, work: () throws -> Answer) throws -> Answer {
        if lock != nil { return try work() }
        if try root == nil { try Directory.createAll(path) }
        lock = try take(wait)
        defer { lock = nil }
        let root = try existing()
        let parts = try [
            ChannelWriter.folder, TrustPublisher.folder, ReleaseFeed.releasesName, ChannelProposal.folder,
        ].map { try root.directory(ifPresent: $0) }
        // A file that another publisher renamed before it stopped survives a power failure from here on.
        for folder in [root] + parts { try folder?.sync() }
        do {
            try Self.removeTemporaryFiles(
                in: root, channels: parts[0], trust: parts[1], releases: parts[2], proposals: parts[3])
        } catch {
            wait.environment.log("\(UpdateFailure(error).message) The next command on this feed tries again.")
        }
        return try work()
    }

    /// Removes the temporary files of stopped publishers, which a copy of the feed would include.
    private static func removeTemporaryFiles(
        in root: Directory, channels: Directory?, trust: Directory?, releases: Directory?, proposals: Directory?
    ) throws {
        // The copies of a channel, and its proposals, are in folders of its name.
        let copies = try [channels, proposals].compactMap(\.self).flatMap { folder in
            try folder.list().compactMap { try folder.directory(ifPresent: $0) }
        }
        let written = [root, channels, trust].compactMap(\.self) + copies
        try written.attemptEach { try removeTemporaryFiles(in: $0) }
        try [channels, releases].compactMap(\.self).attemptEach { try FolderDraft.removeAbandoned(in: $0) }
    }

    private static func removeTemporaryFiles(in folder: Directory) throws {
        try folder.list().filter { $0.hasSuffix(".json" + aside) }.attemptEach { left in
            if case .file? = try folder.kind(of: left) { try folder.removeFile(left) }
        }
    }

    /// Waits for other publishers.
    private func take(_ wait: FeedWait) throws -> FileLock {
        let root = try existing()
        if let lock = try FileLock.take(root) { return lock }
        let other = "another clientctl" + (try FileLock.holder(of: root).map { " (pid \($0))" } ?? "")
        if wait.limit > .zero { wait.environment.log("waiting for \(other), which changes \(address)") }
        guard let lock = try FileLock.take(root, waiting: Int(min(wait.limit / .milliseconds(1), 1e9))) else {
            throw UpdateFailure(
                .storeLocked, subject: path,
                "The feed \(address) is being changed by \(other). Let it finish, or raise --wait above \(DurationText(wait.limit))."
            )
        }
        return lock
    }

    // MARK: Drafts

    package func draft(_ wait: FeedWait) throws -> any ReleaseDraft {
        return try exclusive(wait) {
            try FolderDraft(in: try existing().directory(creating: ReleaseFeed.releasesName), of: self)
        }
    }
}

/// A draft of a release, in the feed's folder but under a name that no reader requests. It is removed with this value
/// unless it was committed; the next publisher removes the draft of a stopped one.
private final class FolderDraft: ReleaseDraft {
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
