package import ArchiveSource
package import BundleCore
import BundleArchive
import BundleDisk
import BundleSigning
package import BundleValues
import Glibc

/// Which deltas lead to a release.
package struct DeltaTerms: Sendable {
    /// What a delta builds on.
    package enum Base: Sendable, Equatable {
        /// So many of the feed's releases, the highest below the new one.
        case latest(Int)
        /// A release of the feed.
        case release(SemanticVersion)
        /// A folder that devices have, such as the seed.
        case folder(String)
    }

    /// What they build on.
    package var bases: [Base]

    /// Those that `bases` name, by default the last three releases.
    package init(bases: [Base] = [.latest(3)]) { self.bases = bases }
}

/// What became of a delta.
package struct DeltaReport: Sendable {
    /// What it builds on: a version, or a folder.
    package let base: String
    /// The delta; nil where none was made.
    package let entry: DeltaList.Delta?
    /// Why none was made.
    package let refusal: String?
    /// Its bytes.
    var file: File?
}

/// Makes deltas to a release.
struct DeltaBuilder {
    let feed: any FeedLocation
    let terms: DeltaTerms
    let limits: ArchiveLimits
    let report: @Sendable (UpdateEvent) -> Void

    /// What lies in a release's folder while a delta is made.
    private static let scratch = "base"

    /// One base that was asked for.
    private struct Candidate {
        let version: SemanticVersion?
        let name: String
        /// Whether it was asked for by name: that it cannot be had is a failure then.
        let isNamed: Bool
    }

    /// Makes the deltas to the release of `manifest`, whose files are `target`, into `folder`, but for those that `known` has.
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

    /// Whether a release that is no base is at fault: one that nobody has named is left out then. What this machine could not do is
    /// no reason to publish less than the next run would.
    static func blamesBase(_ code: FailureCode) -> Bool {
        switch code {
        case .archiveRejected, .digestMismatch, .sizeMismatch, .manifestMalformed, .configInvalid: true
        default: false
        }
    }

    private func make(
        from base: DeltaTree, _ candidate: Candidate, to target: DeltaTree, of manifest: Manifest,
        into folder: Directory, besides known: [DeltaList.Delta]
    ) throws -> DeltaReport {
        func none(_ why: String) -> DeltaReport { .init(base: candidate.name, entry: nil, refusal: why) }
        if known.contains(where: { $0.baseContentSha256 == base.contentSha256 }) {
            return none("there is a delta from the same content already")
        }
        let name = "from-\(base.contentSha256.hex.prefix(16)).delta"
        try folder.removeFile(name)
        let file = try folder.file(creating: name)
        var options = DeltaMaker.Options()
        options.memory = min(options.memory, limits.deltaMemory)
        options.workers = sysconf(Int32(_SC_NPROCESSORS_ONLN))
        let archive = manifest.size ?? .max
        options.largestSize = archive / 2
        let made = try DeltaMaker(options) { [report] in report(.comparing(bytes: $0, of: $1, base: candidate.name)) }
            .make(from: base, to: target, into: file)
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

    private func candidates(below manifest: Manifest) throws -> [Candidate] {
        let released = try ReleaseFeed.versions(in: feed).filter { $0 < manifest.version }.sorted(by: >)
        var found: [Candidate] = []
        for base in terms.bases {
            let more: [Candidate] =
                switch base {
                case .latest(let count):
                    released.prefix(count).map { Candidate(version: $0, name: "\($0)", isNamed: false) }
                case .release(let version): [Candidate(version: version, name: "\(version)", isNamed: true)]
                case .folder(let path): [Candidate(version: nil, name: path, isNamed: true)]
                }
            found += more.filter { candidate in !found.contains { $0.name == candidate.name } }
        }
        return found
    }

    private func tree(of candidate: Candidate, scratch: Directory) throws -> DeltaTree {
        guard let version = candidate.version else {
            return try DeltaTree(CanonicalTree(Directory.open(candidate.name)))
        }
        guard let release = try ReleaseFeed.published(version, in: feed) else {
            throw UpdateFailure(
                .configInvalid, subject: candidate.name,
                "The feed \(feed.address) has no release \(version): name one that it has, or the folder that was published."
            )
        }
        return try DeltaTree(ReleaseFeed.unpack(release.claims, in: feed, limits, into: scratch))
    }
}

/// Signs the list that tells of a release's deltas, and puts both beside a release that is published.
struct DeltaPublisher {
    private let feed: any FeedLocation
    private let signers: [Signer]
    private let anchor: TrustAnchor?

    /// For `feed`; the list is signed by `signers`. `anchor` is what devices trust, where the feed has no trust root.
    init(_ feed: any FeedLocation, signers: [Signer], anchor: TrustAnchor?) {
        self.feed = feed
        self.signers = signers
        self.anchor = anchor
    }

    /// The signed list of what was made for `release`, which no feed has yet; nil where nothing was made.
    func list(of reports: [DeltaReport], for release: UnverifiedManifest) throws -> [UInt8]? {
        let entries = reports.compactMap(\.entry)
        return entries.isEmpty ? nil : try document(entries, of: release)
    }

    /// Adds what was made for `release` and is not there yet; the list comes last. Nobody else changes the feed meanwhile, or it is a
    /// `FeedConflict`.
    func put(_ reports: [DeltaReport], of release: UnverifiedManifest) throws {
        let folder = "\(ReleaseFeed.releasesName)/\(release.claims.version.folderName)"
        let (present, record) = try known(of: release)
        var list = present
        for report in reports {
            guard let entry = report.entry, let file = report.file,
                !list.contains(where: { $0.baseContentSha256 == entry.baseContentSha256 })
            else { continue }
            // One that no list names was left by somebody who was stopped.
            let name = "\(folder)/\(entry.url)"
            if try !feed.create(name, .file(file)), try feed.holds(name, entry.sha256, size: entry.size) != true {
                try feed.remove(name)
                _ = try feed.create(name, .file(file))
            }
            list.append(entry)
        }
        if list == present { return }
        try feed.replace(
            "\(folder)/\(DeltaListFormat.fileName)", with: try document(list, of: release), version: record?.version)
    }

    /// What the release's list says; it is signed anew, so it has to be signed by somebody who is known.
    func known(of release: UnverifiedManifest) throws -> (deltas: [DeltaList.Delta], record: FeedRecord?) {
        guard let record = try ReleaseFeed.deltas(of: release.claims.version, in: feed) else { return ([], nil) }
        let envelope = try DeltaListFormat.envelope(parsing: record.bytes)
        return (try DeltaListFormat.verify(envelope, of: release.claims, trusted: try keys()).deltas, record)
    }

    /// The signed list, which devices that believe the release believe, too.
    private func document(_ deltas: [DeltaList.Delta], of release: UnverifiedManifest) throws -> [UInt8] {
        let manifest = release.claims
        guard let content = manifest.contentSha256 else {
            throw UpdateFailure(
                .configInvalid, subject: "\(manifest.version)",
                "The manifest of \(manifest.version) does not state its content: no delta can lead to it.")
        }
        let list = DeltaList(version: manifest.version, contentSha256: content, deltas: deltas)
        let envelope = try signers.sign(DeltaListFormat.envelope(of: list))
        _ = try DeltaListFormat.verify(envelope, of: manifest, trusted: try keys())
        _ = try ManifestVerifier.verify(release, trusted: try keys())
        return envelope.document
    }

    /// Whose signatures devices believe, as far as that is known.
    private func keys() throws -> TrustedKeys {
        try FeedTrust(in: feed, clock: .now)?.root.trusted(for: .release, at: .now)
            ?? anchor?.keys(for: .release, at: .now) ?? signers.trusted
    }
}

/// Adds deltas to a release that was published before.
package struct DeltaEditor {
    private let builder: DeltaBuilder
    private let wait: FeedWait
    private let trust: TrustAnchor?

    /// For `feed`; `trust` is what devices trust, where the feed has no trust root.
    package init(
        feed: any FeedLocation, _ terms: DeltaTerms, limits: ArchiveLimits, trust: TrustAnchor?, wait: FeedWait,
        report: @escaping @Sendable (UpdateEvent) -> Void
    ) {
        builder = DeltaBuilder(feed: feed, terms: terms, limits: limits, report: report)
        self.wait = wait
        self.trust = trust
    }

    /// Makes the deltas to `version` that are not there yet; the list that tells of them is signed by `signers`.
    package func add(to version: SemanticVersion, signers: [Signer]) throws -> [DeltaReport] {
        let feed = builder.feed
        guard let release = try ReleaseFeed.published(version, in: feed) else {
            throw UpdateFailure(
                .configInvalid, subject: "\(version)",
                "The feed \(feed.address) has no release \(version): publish it first, and its deltas with it.")
        }
        let publisher = DeltaPublisher(feed, signers: signers, anchor: trust)
        let temporary = try TemporaryDirectory()
        let target = try ReleaseFeed.unpack(
            release.claims, in: feed, builder.limits, into: temporary.directory.directory(creating: "target"))
        let reports = try builder.make(
            to: target, of: release.claims, into: temporary.directory, besides: try publisher.known(of: release).deltas)
        if reports.contains(where: { $0.entry != nil }) {
            try feed.change(
                wait, channels: [], draft: { nil as Bool? }, { _ in try publisher.put(reports, of: release) })
        }
        return reports
    }

    /// What the feed says of the deltas to `version`, unverified; nil where it has no list that can be read.
    package static func list(of version: SemanticVersion, in feed: any FeedLocation) -> DeltaList? {
        guard let record = try? ReleaseFeed.deltas(of: version, in: feed),
            let envelope = try? DeltaListFormat.envelope(parsing: record.bytes)
        else { return nil }
        return try? DeltaListFormat.parse(envelope)
    }
}
