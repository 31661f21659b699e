import BundleDisk
import BundleSigning
import BundleValues
import Glibc

/// A feed as a folder: a file is written aside and renamed, and whoever changes anything holds the folder's lock from the last look to
/// the last rename.
///
/// A stop at any point leaves a feed that devices can use; publishing again completes it.
package final class FeedFolder: FeedLocation {
    package let address: String
    package var folder: String? { address }
    package var keepsOthersOut: Bool { true }
    private var opened: Directory?
    private var lock: FileLock?

    /// The feed at `path`, which need not be there yet.
    package init(_ path: String) { address = path }

    /// nil where there is none.
    private var root: Directory? {
        get throws {
            if opened == nil, File.exists(address) { opened = try Directory.open(address) }
            return opened
        }
    }

    private func existing() throws -> Directory { try root ?? Directory.open(address) }

    package func make() throws { try Directory.createAll(address) }

    package func requireThere() throws { _ = try existing() }

    // MARK: Files

    package func read(_ name: String, maximumBytes: Int) throws -> FeedRecord? {
        guard let bytes = try root?.contents(name, maximumBytes: maximumBytes) else { return nil }
        return FeedRecord(bytes, try Self.version(of: bytes))
    }

    private static func version(of bytes: [UInt8]) throws -> FeedVersion {
        FeedVersion(try SHA256Digest.of(bytes).hex)
    }

    package func stream(
        _ name: String, maximumBytes: Int, _ body: (UnsafeRawBufferPointer) throws -> Void
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
                "\(file.path) has more than the \(maximumBytes) bytes that are expected of it: restore it, or publish it again."
            )
        }
        _ = try file.forEachBlock(body)
        return true
    }

    package func create(_ name: String, _ content: FeedContent) throws -> Bool {
        try alone(FeedWait()) {
            let (above, last) = try location(of: name)
            if try above.kind(of: last) != nil { return false }
            let aside = last + Self.aside
            try above.removeFile(aside)
            do {
                switch content {
                case .bytes(let bytes): try above.createDurableFile(aside, bytes)
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
        try alone(FeedWait()) {
            let present = try root?.contents(name, maximumBytes: Self.largestDocument)
            guard try present.map(Self.version) == version else { throw FeedConflict(name, in: self) }
            let (above, last) = try location(of: name)
            try above.replaceFile(last, with: bytes)
            if name.contains("/") { try existing().sync() }
        }
    }

    package func remove(_ name: String) throws {
        try alone(FeedWait()) {
            guard try root != nil, case (let above?, let last) = try location(of: name, making: false) else { return }
            try above.removeFile(last)
            try above.sync()
        }
    }

    package func removeFolder(_ folder: String) throws {
        try alone(FeedWait()) {
            guard try root != nil, case (let above?, let last) = try location(of: folder, making: false) else { return }
            guard case .directory? = try above.kind(of: last) else { return }
            try above.removeTree(last)
            try above.sync()
        }
    }

    package func removeRelease(_ release: String) throws {
        try alone(FeedWait()) {
            guard let root = try root, case .directory? = try root.kind(of: ReleaseFeed.releasesName) else { return }
            let releases = try root.directory(ReleaseFeed.releasesName)
            guard try releases.kind(of: release) != nil else { return }
            let aside = randomName(FolderDraft.prefix)
            try releases.rename(release, to: aside)
            try releases.sync()
            try releases.removeTree(aside)
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

    package func settle(_ folder: String) throws {
        let root = try existing()
        if !folder.isEmpty, case .directory? = try root.kind(of: folder) { try root.directory(folder).sync() }
        try root.sync()
    }

    package func isIncomplete(_ release: String) throws -> Bool {
        guard let root = try root, case .directory? = try root.kind(of: ReleaseFeed.releasesName) else { return false }
        return try root.directory(ReleaseFeed.releasesName).kind(of: release) != nil
    }

    /// The folder that `name` is in, and its name there.
    private func location(of name: String) throws -> (Directory, String) {
        guard case (let above?, let last) = try location(of: name, making: true) else {
            throw DiskError("create", "\(address)/\(name)", code: ENOENT)
        }
        return (above, last)
    }

    private func location(of name: String, making: Bool) throws -> (Directory?, String) {
        var above = try existing()
        var parts = name.split(separator: "/").map(String.init)
        let last = parts.popLast() ?? ""
        for part in parts {
            if making {
                above = try above.directory(creating: part)
            } else if case .directory? = try above.kind(of: part) {
                above = try above.directory(part)
            } else {
                return (nil, last)
            }
        }
        return (above, last)
    }

    private static let aside = ".new"
    /// More than any document may have: what is there is refused by whoever reads it.
    private static let largestDocument = 64 << 20

    // MARK: The lock

    package func alone<Answer>(_ wait: FeedWait, _ work: () throws -> Answer) throws -> Answer {
        if lock != nil { return try work() }
        lock = try take(wait)
        defer { lock = nil }
        try removeAsides()
        return try work()
    }

    /// What somebody who was stopped has left beside its documents would be copied with them.
    private func removeAsides() throws {
        let root = try existing()
        try Self.removeAsides(in: root)
        if case .directory? = try root.kind(of: ReleaseFeed.releasesName) {
            try FolderDraft.removeAbandoned(in: root.directory(ReleaseFeed.releasesName))
        }
        for name in ["channels", "trust"] {
            guard case .directory? = try root.kind(of: name) else { continue }
            let folder = try root.directory(name)
            try Self.removeAsides(in: folder)
            // A channel's copies are in a folder of its name.
            for below in try folder.list() {
                if case .directory? = try folder.kind(of: below) { try Self.removeAsides(in: folder.directory(below)) }
            }
        }
    }

    private static func removeAsides(in folder: Directory) throws {
        for left in try folder.list() where left.hasSuffix(".json" + aside) {
            if case .file? = try folder.kind(of: left) { try folder.removeFile(left) }
        }
    }

    /// Waits for those who are at work.
    private func take(_ wait: FeedWait) throws -> FileLock {
        let root = try existing()
        if let lock = try FileLock.take(root) { return lock }
        let other = "another clientctl" + (try FileLock.holder(of: root).map { " (pid \($0))" } ?? "")
        if wait.limit > .zero { wait.report("waiting for \(other), which changes \(address)") }
        guard let lock = try FileLock.take(root, waiting: Int(min(wait.limit / .milliseconds(1), 1e9))) else {
            throw UpdateFailure(
                .storeLocked, subject: address,
                "The feed \(address) is being changed by \(other): let it finish, or give --wait more than \(DurationText(wait.limit))."
            )
        }
        return lock
    }

    // MARK: Drafts

    package func draft(_ wait: FeedWait) throws -> any ReleaseDraft {
        try make()
        return try alone(wait) {
            try FolderDraft(in: try existing().directory(creating: ReleaseFeed.releasesName), of: self)
        }
    }
}

/// A release under construction: in the feed's folder, but under no name that anybody asks for. Gone with this value unless it was given
/// its name, and with the next publisher where this one was stopped.
private final class FolderDraft: ReleaseDraft {
    static let prefix = ".publish-"

    let scratch: Directory
    private(set) var isCommitted = false
    private let feed: FeedFolder
    private let releases: Directory
    private let name: String
    /// Says that somebody is at work on it.
    private let lock: FileLock

    /// Makes one in `releases` of `feed`, which is locked.
    init(in releases: Directory, of feed: FeedFolder) throws {
        self.feed = feed
        self.releases = releases
        name = randomName(Self.prefix)
        try releases.makeDirectory(name)
        scratch = try releases.directory(name)
        guard let lock = try FileLock.take(scratch) else { throw DiskError("lock", scratch.path, code: EWOULDBLOCK) }
        self.lock = lock
    }

    deinit {
        if !isCommitted { try? releases.removeTree(name) }
    }

    /// Removes from `releases` what nobody is at work on any more.
    static func removeAbandoned(in releases: Directory) throws {
        for name in try releases.list() where name.hasPrefix(prefix) { try removeAbandoned(name, releases) }
    }

    private static func removeAbandoned(_ name: String, _ releases: Directory) throws {
        guard case .directory? = try releases.kind(of: name) else { return try releases.removeTree(name) }
        guard let lock = try FileLock.take(releases.directory(name)) else { return }
        try withExtendedLifetime(lock) { try releases.removeTree(name) }
    }

    /// Gives it its name, durably. All its files are on the disk by then.
    func commit(_ name: String, archive: String, besides others: [String], manifest: [UInt8]) throws {
        try feed.alone(FeedWait()) {
            try scratch.replaceFile(ReleaseFeed.manifestName, with: manifest)
            try releases.move(self.name, to: releases, as: name)
            isCommitted = true
            try releases.sync()
            try feed.settle("")
        }
    }
}
