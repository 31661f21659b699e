package import BundleFormats
import BundleArchive
import BundleDisk
import BundleSigning
package import BundleValues
import CLibrary

/// The options for the deltas to a release.
package struct DeltaTerms: Sendable {
    /// The base of a delta.
    package enum Base: Sendable, Equatable {
        /// The given number of releases in the feed, the highest below the new one.
        case latest(Int)
        case release(SemanticVersion)
        /// A folder that devices have, such as the seed.
        case folder(String)
    }

    package var bases: [Base]

    /// Uses `bases`, by default the last three releases.
    package init(bases: [Base] = [.latest(3)]) { self.bases = bases }
}

/// The result of making a delta.
package struct DeltaReport: Sendable {
    /// The base: a version or a folder.
    package let base: String
    /// The delta; nil if none was made.
    package let entry: DeltaList.Delta?
    /// The reason why no delta was made.
    package let refusal: String?
    /// The file of the delta.
    var file: File?
}

/// Makes deltas to a release.
struct DeltaBuilder {
    let feed: any FeedLocation
    let terms: DeltaTerms
    let limits: ArchiveLimits
    let report: UpdateObserver

    /// The folder for the base while a delta is made.
    private static let scratch = "base"

    /// A requested base.
    private struct DeltaBase {
        let version: SemanticVersion?
        let name: String
        /// Whether the base was requested by name, so that a failure to use it is an error.
        let isNamed: Bool
    }

    /// Makes the deltas to the release of `manifest`, whose files are `target`, into `folder`, except for those in
    /// `known`.
    func make(
        to target: CanonicalTree, of manifest: Manifest, into folder: Directory, besides known: [DeltaList.Delta] = []
    ) throws -> [DeltaReport] {
        let candidates = try self.candidates(below: manifest)
        if candidates.isEmpty { return [] }
        let target = try DeltaTree(target, contentSha256: manifest.contentSha256).withDigests()
        var (reports, made): ([DeltaReport], [DeltaList.Delta]) = ([], known)
        for candidate in candidates {
            do {
                let base = try tree(of: candidate, scratch: folder.directory(creating: Self.scratch))
                let answer = try make(from: base, candidate, to: target, of: manifest, into: folder, besides: made)
                if let entry = answer.entry { made.append(entry) }
                reports.append(answer)
            } catch {
                let failure = UpdateFailure(error)
                if candidate.isNamed || !Self.blamesBase(failure.code) { throw error }
                reports.append(DeltaReport(base: candidate.name, entry: nil, refusal: failure.message))
            }
            try folder.removeTree(Self.scratch)
        }
        return reports
    }

    /// Returns whether a failure is the fault of the base, so that an unnamed base can be skipped. A failure of this
    /// machine is an error, because the next run would publish more.
    static func blamesBase(_ code: FailureCode) -> Bool {
        switch code {
        case .archiveRejected, .digestMismatch, .sizeMismatch, .manifestMalformed, .configInvalid: true
        default: false
        }
    }

    private func make(
        from base: DeltaTree, _ candidate: DeltaBase, to target: DeltaTree, of manifest: Manifest,
        into folder: Directory, besides known: [DeltaList.Delta]
    ) throws -> DeltaReport {
        func none(_ why: String) -> DeltaReport { .init(base: candidate.name, entry: nil, refusal: why) }
        if known.contains(where: { $0.baseContentSha256 == base.contentSha256 }) {
            return none("a delta from the same content exists")
        }
        let name = "from-\(base.contentSha256.hex.prefix(16)).delta"
        try folder.removeFile(name)
        let file = try folder.file(creating: name)
        var options = DeltaMaker.Options()
        options.memory = min(options.memory, limits.deltaMemory)
        options.workers = sysconf(Int32(_SC_NPROCESSORS_ONLN))
        let archive = manifest.size ?? .max
        options.largestSize = archive / 2
        let made = try DeltaMaker(options).make(from: base, to: target, into: file) { [report] in
            report(.comparing(bytes: $0, of: $1, base: candidate.name))
        }
        guard let made, made.memory <= limits.deltaMemory else {
            try folder.removeFile(name)
            return none(
                made.map { "it would need \(ByteCount(bytes: $0.memory)) of a device's memory (--max-delta-memory)" }
                    ?? "it would have more than half of the archive's \(ByteCount(bytes: archive))")
        }
        let entry = DeltaList.Delta(
            baseVersion: candidate.version, baseContentSha256: base.contentSha256, url: name, size: made.size,
            sha256: made.sha256, memory: made.memory)
        try ArchiveVerifier.check(file, entry, on: base, of: manifest, limits: limits)
        try file.sync()
        return DeltaReport(base: candidate.name, entry: entry, refusal: nil, file: file)
    }

    // MARK: Bases

    private func candidates(below manifest: Manifest) throws -> [DeltaBase] {
        let released = try ReleaseFeed.versions(in: feed).filter { $0 < manifest.version }.sorted(by: >)
        var found: [DeltaBase] = []
        for base in terms.bases {
            let more: [DeltaBase] =
                switch base {
                case .latest(let count):
                    released.prefix(count).map { DeltaBase(version: $0, name: "\($0)", isNamed: false) }
                case .release(let version): [DeltaBase(version: version, name: "\(version)", isNamed: true)]
                case .folder(let path): [DeltaBase(version: nil, name: path, isNamed: true)]
                }
            found += more.filter { candidate in !found.contains { $0.name == candidate.name } }
        }
        return found
    }

    private func tree(of candidate: DeltaBase, scratch: Directory) throws -> DeltaTree {
        guard let version = candidate.version else {
            return try DeltaTree(CanonicalTree(Directory.open(candidate.name)))
        }
        guard let release = try ReleaseFeed.published(version, in: feed) else {
            throw UpdateFailure(
                .configInvalid, subject: candidate.name,
                "The feed \(feed.address) has no release \(version). Give one of its releases, or the published folder."
            )
        }
        return try DeltaTree(ReleaseFeed.unpack(release.claims, in: feed, limits: limits, into: scratch))
    }
}

/// Signs the list of a release's deltas, and adds deltas to a published release.
struct DeltaPublisher {
    private let feed: any FeedLocation
    private let signers: [Signer]
    private let anchor: TrustAnchor?

    /// Publishes to `feed` with lists signed by `signers`. `anchor` is what devices trust, if the feed has no trust
    /// root.
    init(_ feed: any FeedLocation, signers: [Signer], anchor: TrustAnchor?) {
        self.feed = feed
        self.signers = signers
        self.anchor = anchor
    }

    /// Returns the signed list of the deltas to `release`, which the feed does not have yet; nil if there are none.
    func list(of reports: [DeltaReport], for release: UnverifiedManifest) throws -> [UInt8]? {
        let entries = reports.compactMap(\.entry)
        return entries.isEmpty ? nil : try document(entries, of: release)
    }

    /// Adds the deltas to `release` that the feed does not have, then the list. The caller locks out other
    /// publishers; a conflict throws `FeedConflict`.
    func put(_ reports: [DeltaReport], of release: UnverifiedManifest) throws {
        let folder = "\(ReleaseFeed.releasesName)/\(release.claims.version.folderName)"
        let (present, record) = try known(of: release)
        var list = present
        for report in reports {
            guard let entry = report.entry, let file = report.file,
                !list.contains(where: { $0.baseContentSha256 == entry.baseContentSha256 })
            else { continue }
            // A stopped publisher left the file, which no list names.
            let name = "\(folder)/\(entry.url)"
            if try !feed.create(name, with: .file(file)),
                try feed.holds(name, digest: entry.sha256, size: entry.size) != true
            {
                try feed.remove(name)
                _ = try feed.create(name, with: .file(file))
            }
            list.append(entry)
        }
        if list == present { return }
        try feed.replace(
            "\(folder)/\(DeltaListFormat.fileName)", with: try document(list, of: release), version: record?.version)
    }

    /// Returns the deltas in the release's list. The list is about to be signed again, so its current signature must
    /// verify.
    func known(of release: UnverifiedManifest) throws -> (deltas: [DeltaList.Delta], record: FeedRecord?) {
        guard let record = try ReleaseFeed.deltas(of: release.claims.version, in: feed) else { return ([], nil) }
        let envelope = try DeltaListFormat.envelope(parsing: record.bytes)
        return (
            try DeltaListFormat.verify(envelope, of: release.claims, trusted: try keys(release.claims.kind.role))
                .deltas, record
        )
    }

    /// Returns the signed list, verified like a device would with the keys of the release.
    private func document(_ deltas: [DeltaList.Delta], of release: UnverifiedManifest) throws -> [UInt8] {
        let manifest = release.claims
        guard let content = manifest.contentSha256 else {
            throw UpdateFailure(
                .configInvalid, subject: "\(manifest.version)",
                "The manifest of \(manifest.version) does not state its content digest, so it cannot have deltas.")
        }
        let list = DeltaList(version: manifest.version, contentSha256: content, deltas: deltas)
        let envelope = try signers.sign(DeltaListFormat.envelope(of: list))
        _ = try DeltaListFormat.verify(envelope, of: manifest, trusted: try keys(manifest.kind.role))
        _ = try ManifestVerifier.verify(release, trusted: try keys(manifest.kind.role))
        return envelope.document
    }

    /// The keys that devices trust, as far as they are known.
    private func keys(_ role: TrustRole) throws -> TrustedKeys {
        try FeedTrust(in: feed, clock: .now)?.root.trusted(for: role, at: .now)
            ?? anchor?.keys(for: role, at: .now) ?? signers.trusted
    }
}

/// Adds deltas to a published release.
package struct DeltaEditor {
    private let builder: DeltaBuilder
    private let wait: FeedWait
    private let trust: TrustAnchor?

    /// Edits `feed`; `trust` has the keys that devices trust, if the feed has no trust root.
    package init(
        feed: any FeedLocation, _ terms: DeltaTerms, limits: ArchiveLimits, trust: TrustAnchor?, wait: FeedWait,
        report: UpdateObserver
    ) {
        builder = DeltaBuilder(feed: feed, terms: terms, limits: limits, report: report)
        self.wait = wait
        self.trust = trust
    }

    /// Makes the missing deltas to `version`; `signers` sign the list.
    package func add(to version: SemanticVersion, signers: [Signer]) throws -> [DeltaReport] {
        let feed = builder.feed
        guard let release = try ReleaseFeed.published(version, in: feed) else {
            throw UpdateFailure(
                .configInvalid, subject: "\(version)",
                "The feed \(feed.address) has no release \(version). Publish it first, with its deltas.")
        }
        let publisher = DeltaPublisher(feed, signers: signers, anchor: trust)
        let temporary = try TemporaryDirectory()
        let target = try ReleaseFeed.unpack(
            release.claims, in: feed, limits: builder.limits, into: temporary.directory.directory(creating: "target"))
        let reports = try builder.make(
            to: target, of: release.claims, into: temporary.directory, besides: try publisher.known(of: release).deltas)
        if reports.contains(where: { $0.entry != nil }) {
            try feed.change(
                wait, channels: [], draft: { nil as Bool? }, work: { _ in try publisher.put(reports, of: release) })
        }
        return reports
    }

    /// Returns the deltas to `version` that the feed lists, unverified; nil if it has no readable list.
    package static func list(of version: SemanticVersion, in feed: any FeedLocation) -> DeltaList? {
        guard let record = try? ReleaseFeed.deltas(of: version, in: feed),
            let envelope = try? DeltaListFormat.envelope(parsing: record.bytes)
        else { return nil }
        return try? DeltaListFormat.parse(envelope)
    }
}
