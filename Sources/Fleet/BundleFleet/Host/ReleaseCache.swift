import ArchiveSource
import BundleCore
package import BundleDisk
package import BundleServe
import BundleSigning
import BundleTransport
package import BundleValues
import Synchronization

/// A cache of the files below `releases/` of a feed on another server.
///
/// A file is fetched once, compared with the digest that the feed's documents name, and kept until the space is needed for another.
/// The cache checks no signatures: devices compare each file with a signed digest.
package actor ReleaseCache: FileFill {
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
    /// The sizes of the files that the cache has.
    private var files: [String: Int] = [:]
    /// The requests that wait for each file that is being fetched.
    private var running: [String: [ObjectIdentifier: Promised<Void>]] = [:]
    private var offered: [String: ReleaseFile] = [:]
    private var readAt: SuspendingClock.Instant?
    /// The time at which the list of deltas in a folder was read. Only folders of offered releases are read.
    private var listsReadAt: [String: SuspendingClock.Instant] = [:]
    private let uses = Mutex<(count: Int, last: [String: Int])>((0, [:]))

    /// Creates a cache of at most `limit` bytes in `folder`, with the files that an earlier run left.
    package init(
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
                files["\(Self.releases)/\(version)/\(name)"] = size
            }
        }
    }

    /// Records that the file at `path` was requested.
    nonisolated package func used(_ path: String) {
        uses.withLock { uses in
            uses.count += 1
            uses.last[path] = uses.count
        }
    }

    /// Fetches the file at `path`, once for all requests at the same time.
    package func fill(_ path: String) async -> FillOutcome {
        if files[path] != nil { return .present }
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
            try await makeRoom(for: file.size ?? 0, besides: path)
            let folder = try root.directory(creating: Self.downloads).directory(creating: file.sha256.hex)
            let size = try await file.download(with: upstream.fetcher, into: folder)
            let release = try root.directory(creating: Self.releases).directory(creating: parts[1])
            try folder.rename(file.partName, to: release, as: parts[2])
            try root.directory(Self.downloads).removeTree(file.sha256.hex)
            files[path] = size
            environment.log("cached \(path) (\(ByteCount(bytes: size)))")
        } catch {
            environment.log("\(path) was not cached: \(UpdateFailure(error).message)")
        }
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

    /// Removes the least recently used files until `size` bytes fit. Files of releases that the feed offers now stay.
    private func makeRoom(for size: Int, besides path: String) async throws {
        let total = files.values.reduce(size, +)
        if total <= limit { return }
        let last = uses.withLock { $0.last }
        for victim in CacheRule.victims(
            files.map { CacheRule.CachedFile(path: $0.key, size: $0.value, use: last[$0.key] ?? 0) },
            offered: Set(offered.keys),
            excess: total - limit)
        {
            let parts = victim.split(separator: "/").map(String.init)
            guard parts.count == 3 else { continue }
            // A file that cannot be removed is not tried again before the next start.
            files[victim] = nil
            do {
                try root.directory(Self.releases).directory(parts[1]).removeFile(parts[2])
                environment.log("removed \(victim) from the cache")
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
    /// `offered` file stay, even if the cache then exceeds its size.
    static func victims(_ files: [CachedFile], offered: Set<String>, excess: Int) -> [String] {
        func folder(_ path: String) -> Substring { path[..<(path.lastIndex(of: "/") ?? path.startIndex)] }
        let kept = Set(offered.map(folder))
        var left = excess
        var victims: [String] = []
        for file in files.filter({ !kept.contains(folder($0.path)) }).sorted(by: {
            ($0.use, $0.path) < ($1.use, $1.path)
        }) {
            if left <= 0 { break }
            left -= file.size
            victims.append(file.path)
        }
        return victims
    }
}
