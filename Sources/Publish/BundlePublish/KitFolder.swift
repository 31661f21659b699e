import BundleFormats
import BundleDisk
import BundleSigning
import BundleValues
import CLibrary

/// A folder that gets its name when it is complete. Until then it is a hidden folder beside it.
final class KitFolder {
    private static let prefix = ".clientctl-kit-"

    private let parent: Directory
    private let name: String
    private let aside: String
    private let folder: Directory
    /// Marks the folder as in use.
    private let lock: FileLock
    private var isPublished = false

    /// Prepares the folder at `path`, which must be missing or an empty folder of the same file system.
    init(_ path: String) throws {
        var trimmed = path
        while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
        let parts = trimmed.split(separator: "/")
        guard let last = parts.last.map(String.init), ![".", ".."].contains(last) else { throw Self.refusal(path) }
        let above = parts.dropLast().joined(separator: "/")
        let top = (trimmed.hasPrefix("/") ? "/" : "") + above
        name = last
        parent = try Directory.open(top.isEmpty ? "." : top)
        // A kit that cannot be removed does not concern this one; the next export tries again.
        for left in try parent.list() where left.hasPrefix(Self.prefix) { try? Self.removeAbandoned(left, in: parent) }
        try Self.requireRoom(for: last, in: parent, path)
        aside = randomName(Self.prefix)
        try parent.makeDirectory(aside)
        folder = try parent.directory(aside)
        guard let lock = try FileLock.take(folder) else { throw DiskError("lock", at: folder.path, code: EWOULDBLOCK) }
        self.lock = lock
        EndingSignals.remove(aside, in: parent)
    }

    deinit {
        if !isPublished { try? parent.removeTree(aside) }
        EndingSignals.keep(aside)
    }

    /// The absolute path of the hidden folder.
    var path: String {
        get throws {
            guard let found = realpath("\(parent.path)/\(aside)", nil) else {
                throw DiskError("find", at: folder.path, code: errno)
            }
            defer { free(found) }
            return String(cString: found)
        }
    }

    private static func removeAbandoned(_ name: String, in parent: Directory) throws {
        guard case .directory? = try parent.kind(of: name), let lock = try FileLock.take(parent.directory(name)) else {
            return
        }
        try withExtendedLifetime(lock) { try parent.removeTree(name) }
    }

    private static func requireRoom(for name: String, in parent: Directory, _ path: String) throws {
        guard let kind = try parent.kind(of: name) else { return }
        guard case .directory = kind, try parent.directory(name).list().isEmpty else { throw refusal(path) }
        // A rename to a mount point fails.
        var (own, above) = (stat(), stat())
        guard stat("\(parent.path)/\(name)", &own) == 0, stat(parent.path, &above) == 0, own.st_dev == above.st_dev
        else { throw refusal(path) }
    }

    private static func refusal(_ path: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: path,
            "\(UntrustedName.display(path)) already exists and is not empty, or is a mount point. Name a new folder below it, such as "
                + "\(UntrustedName.display(path))/kit.")
    }

    // MARK: Files

    func write(_ bytes: [UInt8], to name: String) throws -> FeedEntry {
        let file = try create(name)
        try bytes.withUnsafeBytes { try file.write($0) }
        return FeedEntry(name: name, size: bytes.count)
    }

    /// Copies a file, and verifies its size and digest.
    func copy(_ name: String, from source: any FeedLocation, claim: FeedExport.FileClaim) throws -> FeedEntry {
        let file = try create(name)
        var hasher = try SHA256Hasher()
        var size = 0
        do {
            let isThere = try source.stream(name, maximumBytes: claim.maximumBytes) {
                try hasher.update($0)
                try file.write($0)
                size += $0.count
            }
            guard isThere else { throw FeedCopy.missing(name, in: source) }
        } catch  where UpdateFailure(error).code == .sizeMismatch {
            throw Self.altered(name, from: source)
        }
        let digest = try hasher.finish()
        guard claim.sha256.map({ $0 == digest }) ?? true, claim.size.map({ $0 == size }) ?? true else {
            throw Self.altered(name, from: source)
        }
        return FeedEntry(name: name, size: size)
    }

    private static func altered(_ name: String, from source: any FeedLocation) -> UpdateFailure {
        UpdateFailure(
            .digestMismatch, subject: "\(source.address)/\(name)",
            "\(source.address)/\(name) differs from its signed size or digest, so no kit was made. Restore it, or publish it again."
        )
    }

    private func create(_ name: String) throws -> File {
        var above = folder
        var parts = name.split(separator: "/").map(String.init)
        let last = parts.popLast() ?? ""
        for part in parts { above = try above.directory(creating: part) }
        return try above.file(creating: last)
    }

    /// Returns the kit's own trust root; nil if it has none.
    func root() throws -> TrustAnchor? {
        guard case .file? = try folder.kind(of: FeedTrust.fileName) else { return nil }
        return try TrustAnchor.read(at: "\(folder.path)/\(FeedTrust.fileName)")
    }

    /// Renames the folder durably.
    func publish() throws {
        try folder.syncFileSystem()
        EndingSignals.keep(aside)
        if try parent.kind(of: name) == nil {
            try parent.move(aside, to: parent, as: name)
        } else {
            // The rename fails if the target is not empty by now.
            try parent.rename(aside, to: name)
        }
        isPublished = true
        try parent.sync()
    }
}
