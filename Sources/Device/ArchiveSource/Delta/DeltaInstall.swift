import BundleArchive
import BundleCore
import BundleDisk
import BundleTransport
import BundleSigning
import BundleValues

/// Installs a release by a delta to an installed client, with one attempt before the archive.
struct DeltaInstall {
    enum DeltaOutcome {
        case staged(StagedBundle)
        /// The staging area is empty, and the archive is needed. `bytes` were downloaded without use.
        case archive(DownloadRoute, bytes: Int)
    }

    let release: VerifiedManifest
    let trusted: TrustedKeys
    let archiveURL: FetchURL
    let limits: ArchiveLimits
    let seed: String?
    let fetcher: any Fetcher
    let report: UpdateObserver
    let admission: DownloadAdmission

    /// Tries the delta. Throws only errors that would fail the archive too, or that the next run resumes after.
    func run(in area: StagingArea, reusing installed: ReuseIndex) async throws -> DeltaOutcome {
        let list: DeltaList
        switch try await self.list() {
        case .success(let found): list = found
        case .failure(let why): return .archive(why.route, bytes: 0)
        }
        let memory = DeltaMemory(area.downloads)
        let bases = Bases(
            installed.sources(of: .archive), seed: seed, wanted: list)
        switch try DeltaRule.choose(list, bases: bases.digests, memory: limits.deltaMemory, tried: memory.refusal) {
        case .archive(let route): return .archive(route, bytes: 0)
        case .delta(let delta):
            try memory.forgetOthers(than: delta.sha256)
            return try await install(delta, from: bases, in: area, reusing: installed, within: memory)
        }
    }

    /// Returns the choice of `run` for installed archives with the digests `installed`. `downloads` contains the record
    /// of refused deltas.
    func plan(_ installed: [SHA256Digest], in downloads: Directory?) async throws -> PlannedRoute {
        let archive = release.manifest.size
        let list: DeltaList
        switch try await self.list() {
        case .success(let found): list = found
        case .failure(let why): return PlannedRoute(why.route, bytes: archive)
        }
        let seed = Bases.seed(seed, besides: installed, wanted: list)
        let bases = installed + (seed.map { [$0.contentSha256] } ?? [])
        let memory = downloads.map(DeltaMemory.init)
        let choice = try DeltaRule.choose(list, bases: bases, memory: limits.deltaMemory) {
            try memory?.refusal(of: $0)
        }
        switch choice {
        case .archive(let route): return PlannedRoute(route, bytes: archive)
        case .delta(let delta):
            return PlannedRoute(DownloadRoute(.taken, "from \(delta.baseName)"), bytes: delta.size)
        }
    }

    private struct NoList: Error { let route: DownloadRoute }

    private func list() async throws -> Result<DeltaList, NoList> {
        let manifest = release.manifest
        guard manifest.contentSha256 != nil, manifest.installedSize != nil, manifest.fileCount != nil else {
            return .failure(NoList(route: DownloadRoute(.noDeltas)))
        }
        do {
            let url = try archiveURL.file(DeltaListFormat.fileName)
            let bytes = try await fetcher.fetchDocument(url, maximumBytes: DeltaListFormat.maximumBytes)
            let envelope = try DeltaListFormat.envelope(parsing: bytes)
            return .success(try DeltaListFormat.verify(envelope, of: manifest, trusted: trusted))
        } catch let error as CancellationError {
            throw error
        } catch let error as FetchError {
            if error.isAbsence { return .failure(NoList(route: DownloadRoute(.noDeltas))) }
            return .failure(NoList(route: DownloadRoute(.notFetched, UpdateFailure(error).message)))
        } catch {
            return .failure(NoList(route: DownloadRoute(.refused, UpdateFailure(error).message)))
        }
    }

    private func install(
        _ delta: DeltaList.Delta, from bases: Bases, in area: StagingArea, reusing installed: ReuseIndex,
        within memory: DeltaMemory
    ) async throws -> DeltaOutcome {
        var bytes = 0
        do {
            let url = try archiveURL.file(delta.url)
            guard archiveURL.isFile || archiveURL.mayLead(to: url) else { throw FetchError.fileMissing(url) }
            let download = ArchiveDownload(delta, at: url, fetcher: fetcher, into: area.downloads, report: report)
            let file = try await admission.run(download, load: .delta, at: url)
            bytes = file.bytesDownloaded
            let route = DownloadRoute(.taken, "from \(delta.baseName)")
            let staged = try await onThread {
                try ArchiveUnpacker(limits: limits, report: report).unpack(
                    file, applying: delta, on: try bases.tree(of: delta), of: release, into: area, reusing: installed,
                    route: route)
            }
            try download.remove()
            report(.routed(route))
            return .staged(staged)
        } catch {
            guard let (route, isPermanent) = try route(after: error, delta, in: area) else { throw error }
            try area.clear()
            if isPermanent { try memory.remember(delta.sha256, route: route) }
            return .archive(route, bytes: bytes)
        }
    }

    /// Returns the reason why the archive is used instead of the delta, and whether that is permanent. Returns nil if the delta is
    /// not the cause: the disk is full, or the next run resumes the download.
    private func route(
        after error: any Error, _ delta: DeltaList.Delta, in area: StagingArea
    ) throws -> (DownloadRoute, isPermanent: Bool)? {
        switch error {
        case is CancellationError, is DiskError, is FetchPause: return nil
        case let error as FetchError:
            if try ArchiveDownload.hasPart(of: delta.sha256, in: area.downloads), error.isTemporary { return nil }
            return (DownloadRoute(.notFetched, UpdateFailure(error).message), false)
        case let rejection as ArchiveRejection where rejection.rule == "damaged-base":
            return (DownloadRoute(.damagedBase, rejection.reason), true)
        default:
            let failure = UpdateFailure(error)
            switch failure.code {
            case .archiveRejected, .digestMismatch, .sizeMismatch, .resourcesExhausted:
                return (DownloadRoute(.refused, failure.message), true)
            // A fault of this machine, which may be temporary.
            case .internal: return (DownloadRoute(.refused, failure.message), false)
            default: return nil
            }
        }
    }
}

extension FetchError {
    /// Whether the server reports that the file does not exist.
    var isAbsence: Bool {
        switch self {
        case .httpStatus(404, _, _), .httpStatus(410, _, _), .fileMissing: true
        default: false
        }
    }

    /// Whether a later attempt may succeed.
    fileprivate var isTemporary: Bool {
        switch self {
        case .unreachable, .tooSlow, .timedOut: true
        default: false
        }
    }
}

/// The possible bases of deltas: installed archives, or the seed if no archive fits.
private struct Bases: Sendable {
    private let sources: [ReuseIndex.ReuseSource]
    private let seed: DeltaTree?

    init(_ sources: [ReuseIndex.ReuseSource], seed: String?, wanted list: DeltaList) {
        self.sources = sources
        self.seed = Self.seed(seed, besides: sources.map(\.contentSha256), wanted: list)
    }

    /// Returns the seed at `path` if a delta builds on it and none builds on an `installed` archive. Returns nil for a
    /// folder that is not a client.
    static func seed(_ path: String?, besides installed: [SHA256Digest], wanted list: DeltaList) -> DeltaTree? {
        guard let path, !list.deltas.isEmpty, !list.deltas.contains(where: { installed.contains($0.baseContentSha256) })
        else { return nil }
        return try? DeltaTree(CanonicalTree(Directory.open(path)))
    }

    var digests: [SHA256Digest] { sources.map(\.contentSha256) + (seed.map { [$0.contentSha256] } ?? []) }

    func tree(of delta: DeltaList.Delta) throws -> DeltaTree {
        if let source = sources.first(where: { $0.contentSha256 == delta.baseContentSha256 }) {
            do {
                let files = try source.records().values.map {
                    DeltaTree.TreeFile(path: $0.path, size: $0.size, digest: $0.digest)
                }
                return DeltaTree(tree: source.tree, files: files, contentSha256: source.contentSha256)
            } catch {
                throw ArchiveRejection("damaged-base", "\(error)")
            }
        }
        guard let seed else { throw ArchiveRejection("damaged-base", "\(delta.baseName) is no longer installed") }
        return seed
    }
}

/// The digests of refused deltas, so that none is tried twice.
private struct DeltaMemory {
    private let folder: Directory

    init(_ downloads: Directory) { folder = downloads }

    func refusal(of digest: SHA256Digest) throws -> String? {
        let bytes = try folder.contents(digest.hex + ArchiveSpool.refusedSuffix, maximumBytes: 64 << 10)
        return bytes.map { String(decoding: $0, as: UTF8.self) }
    }

    func remember(_ digest: SHA256Digest, route: DownloadRoute) throws {
        try folder.replaceFile(
            digest.hex + ArchiveSpool.refusedSuffix, with: Array("\(route.detail ?? route.reason.rawValue)".utf8),
            mode: 0o600)
    }

    func forgetOthers(than digest: SHA256Digest) throws {
        for name in try folder.list() where name.hasSuffix(ArchiveSpool.refusedSuffix) && !name.hasPrefix(digest.hex) {
            try? folder.removeFile(name)
        }
    }
}
