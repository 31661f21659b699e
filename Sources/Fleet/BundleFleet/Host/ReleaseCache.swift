import ArchiveSource
import BundleCore
import BundleDisk
import BundleSigning
import BundleTransport
import BundleValues
import Synchronization

/// The result of a request to a cache for a file.
enum FillOutcome: Sendable, Equatable {
    /// The folder has the file.
    case present
    /// The feed has no such file.
    case missing
    /// The file is being fetched. The client may ask again after this number of seconds.
    case later(seconds: Int)
}

/// A cache of the files below `releases/` of a feed on another server.
///
/// A file is fetched once, compared with the digest that the feed's documents name, and kept until the space is needed for another, or
/// the documents name another digest. The cache checks no signatures: devices compare each file with a signed digest.
actor ReleaseCache {
    /// The longest wait of a request for a file that is being fetched.
    private static let longestWait = Duration.seconds(4)
    /// The time for which the documents of the feed are used.
    private static let freshness = Duration.seconds(10)
    private static let releases = "releases"
    /// The folder of downloads, beside `releases`.
    private static let downloads = "downloads"

    private let upstream: Upstream
    private let root: Directory
    private let limit: Int
    private let environment: Environment
    /// A file that the cache has. Its digest is not known until a request for it after a restart.
    private struct KeptFile {
        let size: Int
        var sha256: SHA256Digest?
    }

    private var files: [String: KeptFile] = [:]
    /// The bytes that running downloads will need.
    private var expected: [String: Int] = [:]
    private var isReading = false
    /// The requests that wait for each file that is being fetched.
    private var running: [String: [ObjectIdentifier: Promised<Void>]] = [:]
    private var offered: [String: ReleaseFile] = [:]
    private var readAt: SuspendingClock.Instant?
    /// The time at which the list of deltas in a folder was read. Only folders of offered releases are read.
    private var listsReadAt: [String: SuspendingClock.Instant] = [:]
    private let uses = Mutex<(count: Int, last: [String: Int])>((0, [:]))

    /// Creates a cache of at most `limit` bytes in `folder`, with the files that an earlier run left.
    init(
        of upstream: Upstream, in folder: Directory, limit: Int, environment: Environment
    ) throws(DiskError) {
        self.upstream = upstream
        root = folder
        self.limit = limit
        self.environment = environment
        do throws(DiskError) {
            try folder.removeTree(Self.downloads)
        } catch {
            environment.log("\(UpdateFailure(error).message) The next start tries again.")
        }
        let releases = try folder.directory(creating: Self.releases)
        for version in try releases.list() {
            guard case .directory? = try releases.kind(of: version) else { continue }
            let release = try releases.directory(version)
            for name in try release.list() {
                guard case .file(let size)? = try release.kind(of: name) else { continue }
                files["\(Self.releases)/\(version)/\(name)"] = KeptFile(size: size)
            }
        }
    }

    /// Records that the file at `path` was requested.
    nonisolated func used(_ path: String) {
        uses.withLock { uses in
            uses.count += 1
            uses.last[path] = uses.count
        }
    }

    /// Fetches the file at `path`, such as `releases/v1.5.0/client.tar.zst`, into the served folder, once for all requests at the same time.
    func fill(_ path: String) async -> FillOutcome {
        if files[path] != nil {
            await learnDigest(of: path)
            dropChanged()
            // The documents are read for later requests: this one must not wait for a feed that does not respond.
            if !isReading, !isFresh(readAt) || offered[path] == nil { Task { await refresh(path) } }
            if files[path] != nil { return .present }
        }
        if running[path] == nil {
            running[path] = [:]
            Task { await fetch(path) }
        }
        let end = Promised<Void>()
        running[path]?[ObjectIdentifier(end)] = end
        defer { running[path]?[ObjectIdentifier(end)] = nil }
        do {
            try await within(Self.longestWait, else: .timedOut(.connecting), on: environment.clock) {
                try await end.value
            }
        } catch {
            return .later(seconds: 5)
        }
        return files[path] == nil ? .missing : .present
    }

    private func fetch(_ path: String) async {
        defer { for end in running.removeValue(forKey: path)?.values ?? [:].values { end.settle(.success(())) } }
        do {
            guard let file = try await file(at: path) else { return }
            let parts = path.split(separator: "/").map(String.init)
            guard parts.count == 3 else { return }
            defer { expected[path] = nil }
            expected[path] = file.size ?? 0
            try makeRoom()
            let folder = try root.directory(creating: Self.downloads).directory(creating: file.sha256.hex)
            let size = try await file.download(with: upstream.fetcher, into: folder, atMost: limit)
            expected[path] = size
            do { try makeRoom(isOnDisk: true) } catch {
                try root.directory(Self.downloads).removeTree(file.sha256.hex)
                throw error
            }
            let release = try root.directory(creating: Self.releases).directory(creating: parts[1])
            try folder.rename(file.partName, to: release, as: parts[2])
            try root.directory(Self.downloads).removeTree(file.sha256.hex)
            files[path] = KeptFile(size: size, sha256: file.sha256)
            environment.log("cached \(path) (\(ByteCount(bytes: size)))")
        } catch {
            environment.log("\(path) was not cached: \(UpdateFailure(error).message)")
        }
    }

    // MARK: Changed files

    /// Computes the digest of a file that an earlier run left, which the disk may have damaged since.
    private func learnDigest(of path: String) async {
        guard let file = files[path], file.sha256 == nil, let (folder, name) = try? place(of: path) else { return }
        let found = try? await onThread { try folder.file(name).sha256() }
        // Another request may have replaced the file.
        if files[path]?.sha256 == nil { files[path]?.sha256 = found }
    }

    private func refresh(_ path: String) async {
        if isReading { return }
        isReading = true
        defer { isReading = false }
        if !isFresh(readAt) { try? await readDocuments() }
        if offered[path] == nil { _ = try? await file(at: path) }
        dropChanged()
    }

    /// Removes the files for which the documents name another digest.
    private func dropChanged() {
        for (path, file) in files {
            guard let own = file.sha256, let named = offered[path]?.sha256, own != named else { continue }
            do { try remove(path, because: "the feed names another digest") } catch {
                environment.log("\(path) was not removed: \(UpdateFailure(error).message)")
            }
        }
    }

    private func place(of path: String) throws -> (folder: Directory, name: String)? {
        let parts = path.split(separator: "/").map(String.init)
        guard parts.count == 3 else { return nil }
        return (try root.directory(Self.releases).directory(parts[1]), parts[2])
    }

    private func remove(_ path: String, because reason: String) throws {
        guard let (folder, name) = try place(of: path) else { return }
        try folder.removeFile(name)
        files[path] = nil
        environment.log("removed \(path) from the cache: \(reason)")
    }

    // MARK: The feed's documents

    /// Returns the file that the documents of the feed name at `path`; nil if none does.
    private func file(at path: String) async throws -> ReleaseFile? {
        if let known = offered[path] { return known }
        if !isFresh(readAt) { try await readDocuments() }
        if let known = offered[path] { return known }
        // The list of a release names its deltas.
        let folder = path.split(separator: "/").dropLast().joined(separator: "/")
        let isOffered = offered.keys.contains { $0.hasPrefix(folder + "/") }
        if !isOffered || isFresh(listsReadAt[folder]) { return nil }
        listsReadAt[folder] = .now
        let list = try upstream.url.resolve(relative: "\(folder)/\(DeltaListFormat.fileName)")
        for file in try await ReleaseFile.deltas(at: list, with: upstream.fetcher) {
            if let path = file.path(below: upstream.url) { offered[path] = file }
        }
        return offered[path]
    }

    private func isFresh(_ time: SuspendingClock.Instant?) -> Bool {
        time.map { $0.duration(to: .now) < Self.freshness } ?? false
    }

    private func readDocuments() async throws {
        readAt = .now
        var found: [ReleaseFile] = []
        let channels = upstream.channels.isEmpty ? [ChannelFileName.standard] : upstream.channels
        for channel in channels {
            found +=
                (try? await ReleaseFile.offered(in: .channel(upstream.document(of: channel)), with: upstream.fetcher))
                ?? []
        }
        let manifest = FeedAddress.manifest(try upstream.url.resolve(relative: "manifest.json"))
        found += (try? await ReleaseFile.offered(in: manifest, with: upstream.fetcher)) ?? []
        // A feed that does not respond keeps its earlier offers.
        if found.isEmpty { return }
        offered = [:]
        for file in found { if let path = file.path(below: upstream.url) { offered[path] = file } }
    }

    // MARK: Space

    /// The bytes that stay free on the disk, if it is not small.
    private static let reserve = 64 << 20

    /// Removes files until those that remain and the expected ones fit into the limit and onto the disk: first the least recently used ones
    /// that the feed does not offer, then the others. Throws if the expected ones alone do not fit.
    private func makeRoom(isOnDisk: Bool = false) throws {
        let coming = expected.values.reduce(0, +)
        let space = try root.freeSpace()
        let held = files.values.reduce(0) { $0 + $1.size }
        let reserve = min(Self.reserve, space.totalBytes / 20)
        let excess = max(held + coming - limit, isOnDisk ? 0 : coming + reserve - space.bytes)
        if excess <= 0 { return }
        if excess > held {
            throw UpdateFailure(
                .diskFull, subject: root.path,
                "\(ByteCount(bytes: coming)) do not fit into the cache. Give a larger --cache-size, or a larger disk.")
        }
        let last = uses.withLock { $0.last }
        for victim in CacheRule.victims(
            files.map { CacheRule.CachedFile(path: $0.key, size: $0.value.size, use: last[$0.key] ?? 0) },
            offered: Set(offered.keys), excess: excess)
        {
            do {
                try remove(victim, because: "the space is needed")
            } catch {
                environment.log("\(UpdateFailure(error).message) It stays in the cache.")
            }
        }
    }
}

/// Chooses the files that leave a full cache. Pure.
enum CacheRule {
    /// A file of a cache. A higher `use` is a later one.
    struct CachedFile {
        let path: String
        let size: Int
        let use: Int
    }

    /// Returns the paths to remove so that at least `excess` bytes become free, the least recently used first. Files in a folder with an
    /// `offered` file go last.
    static func victims(_ files: [CachedFile], offered: Set<String>, excess: Int) -> [String] {
        func folder(_ path: String) -> Substring { path[..<(path.lastIndex(of: "/") ?? path.startIndex)] }
        let kept = Set(offered.map(folder))
        func rank(_ file: CachedFile) -> (Int, Int, String) {
            (kept.contains(folder(file.path)) ? 1 : 0, file.use, file.path)
        }
        var left = excess
        var victims: [String] = []
        for file in files.sorted(by: { rank($0) < rank($1) }) {
            if left <= 0 { break }
            left -= file.size
            victims.append(file.path)
        }
        return victims
    }
}
