import ArchiveSource
import BundleCore
package import BundleValues

/// Why a release stays in its feed.
package enum KeptReason: Sendable, Hashable, Comparable {
    /// `manifest.json` offers it.
    case manifest
    /// A channel's document has it.
    case channel(String)
    /// A channel recalls it, which can be taken back.
    case recalled(String)
    /// One of the newest copies of a channel's document has it: `release restore` may need it.
    case copy(String, Int)
    /// It is among the newest.
    case newest
    /// Something of it came too short a time ago: whoever put it there may name it next.
    case young
    /// A delta to this release, which stays, builds on it.
    case base(of: SemanticVersion)

    /// The word for programs.
    package var code: String {
        switch self {
        case .manifest: "manifest"
        case .channel: "channel"
        case .recalled: "recalled"
        case .copy: "copy"
        case .newest: "newest"
        case .young: "young"
        case .base: "base"
        }
    }

    /// The words for people.
    package var words: String {
        switch self {
        case .manifest: "manifest.json offers it"
        case .channel(let name): "channel \(name) has it"
        case .recalled(let name): "channel \(name) recalls it"
        case .copy(let name, let sequence): "copy \(sequence) of channel \(name) has it"
        case .newest: "it is among the newest"
        case .young: "it is young"
        case .base(let version): "a delta to \(version) builds on it"
        }
    }
}

/// Why something leaves its feed.
package enum RemovedReason: String, Sendable {
    /// A release that nothing names.
    case unnamed
    /// What somebody left who was stopped before it was a release.
    case incomplete
    /// A delta that its release's list does not have.
    case unlisted
}

/// What becomes of a feed.
package struct SweepPlan: Sendable {
    /// A release that stays.
    package struct Kept: Sendable {
        package let version: SemanticVersion
        package let bytes: Int
        package let reasons: [KeptReason]
    }

    /// What goes: a release's folder, or one file.
    package struct Removed: Sendable {
        package let path: String
        /// The release; nil for a file.
        let release: String?
        package let bytes: Int
        package let reason: RemovedReason
    }

    /// The highest version first.
    package let kept: [Kept]
    /// The largest first.
    package let removed: [Removed]
}

/// What stays in a feed. A pure rule.
enum SweepRule {
    /// A folder below `releases` that has a release's name.
    struct Stored {
        let folder: String
        let version: SemanticVersion
        var files: [FeedEntry] = []
        var isRelease = false
        /// The version that each delta of its list builds on, where that is a release, by the delta's file; nil where it has no list.
        var deltas: [String: SemanticVersion?]?

        var bytes: Int { files.reduce(0) { $0 + $1.size } }

        func isYoung(_ oldest: Timestamp) -> Bool { files.contains { isYoung($0, oldest) } }

        func isYoung(_ file: FeedEntry, _ oldest: Timestamp) -> Bool { file.written.map { $0 > oldest } ?? true }
    }

    /// What becomes of `stored` where documents name the versions `named`; the `keep` newest stay, and what is younger than `oldest`.
    static func plan(
        _ stored: [Stored], named: [SemanticVersion: Set<KeptReason>], keep: Int, youngerThan oldest: Timestamp
    ) -> SweepPlan {
        var reasons = named
        for release in stored.filter(\.isRelease).sorted(by: { $0.version > $1.version }).prefix(keep) {
            reasons[release.version, default: []].insert(.newest)
        }
        for release in stored where release.isYoung(oldest) { reasons[release.version, default: []].insert(.young) }
        // Of what stays by itself only: the bases of bases are nobody's.
        let alone = reasons
        for release in stored where alone[release.version] != nil {
            for case let base? in (release.deltas ?? [:]).values {
                reasons[base, default: []].insert(.base(of: release.version))
            }
        }
        let kept = stored.filter { reasons[$0.version] != nil }
        let gone = stored.filter { reasons[$0.version] == nil }.map { release in
            SweepPlan.Removed(
                path: "\(ReleaseFeed.releasesName)/\(release.folder)", release: release.folder, bytes: release.bytes,
                reason: release.isRelease ? .unnamed : .incomplete)
        }
        return SweepPlan(
            kept: kept.sorted { $0.version > $1.version }.map { release in
                .init(
                    version: release.version, bytes: release.bytes,
                    reasons: reasons[release.version].map { $0.sorted() } ?? [])
            },
            removed: (gone + kept.flatMap { unlisted(in: $0, oldest) }).sorted {
                ($1.bytes, $0.path) < ($0.bytes, $1.path)
            })
    }

    private static func unlisted(in release: Stored, _ oldest: Timestamp) -> [SweepPlan.Removed] {
        release.files.filter { file in
            let name = String(file.name.split(separator: "/").last ?? "")
            return name.hasSuffix(".delta") && release.deltas?[name] == nil && !release.isYoung(file, oldest)
        }.map { .init(path: $0.name, release: nil, bytes: $0.size, reason: .unlisted) }
    }
}

/// Removes from a feed what none of its documents needs.
package struct FeedSweep {
    /// What is decided about it.
    package struct Terms: Sendable {
        /// So many of the newest releases stay, and what so many of the newest copies of a channel's document have.
        package var keep = 5
        /// What came later than so long ago stays.
        package var leastAge = Duration.seconds(86_400)
        package var isDryRun = true

        package init() {}
    }

    private let feed: any FeedLocation
    private let terms: Terms
    private let clock: Timestamp

    /// For `feed`, at the moment `clock`.
    package init(_ feed: any FeedLocation, _ terms: Terms, clock: Timestamp) {
        (self.feed, self.terms, self.clock) = (feed, terms, clock)
    }

    /// Plans, and unless it is a dry run, removes what the plan says; nothing where a document cannot be read.
    package func run(_ wait: FeedWait) throws -> SweepPlan {
        try requireFeed()
        if terms.isDryRun { return try plan() }
        return try feed.alone(wait) {
            let plan = try plan()
            for removed in plan.removed { try remove(removed) }
            try requireNoneNamed(plan)
            try feed.settle("")
            return plan
        }
    }

    /// Refuses a place that holds nothing of a feed: its name may be a slip of the pen.
    private func requireFeed() throws {
        try feed.requireThere()
        let isFeed =
            try !feed.list(ReleaseFeed.releasesName).isEmpty || !ChannelHistory.channels(in: feed).isEmpty
            || feed.read(ReleaseFeed.manifestName, maximumBytes: ManifestFormat.maximumBytes) != nil
            || feed.read(FeedTrust.fileName, maximumBytes: TrustRootFormat.maximumBytes) != nil
        if isFeed { return }
        throw UpdateFailure(
            .configInvalid, subject: feed.address,
            "\(feed.address) is no feed: it has no release, no channel and no trust root. Check --feed.")
    }

    private func remove(_ removed: SweepPlan.Removed) throws {
        guard let release = removed.release else { return try feed.remove(removed.path) }
        // Where others are not kept out, one may have named it since.
        if !feed.keepsOthersOut, try named(copies: 1).keys.contains(where: { $0.folderName == release }) { return }
        try RetiredRelease.retire(release, in: feed)
        try feed.removeRelease(release)
    }

    /// Whether somebody named what was being removed, where that can be.
    private func requireNoneNamed(_ plan: SweepPlan) throws {
        if feed.keepsOthersOut { return }
        let gone = Set(plan.removed.compactMap(\.release))
        let there = try ReleaseFeed.versions(in: feed)
        for version in try named(copies: 1).keys.sorted()
        where gone.contains(version.folderName) && !there.contains(version) {
            throw UpdateFailure(
                .configInvalid, subject: "\(version)",
                "Somebody offered \(version) again while it was being removed from \(feed.address): publish it again, with the same "
                    + "content.")
        }
    }

    // MARK: The look

    private func plan() throws -> SweepPlan {
        // Before the documents: what is committed after this look is not in it.
        let stored = try stored()
        let named = try named(copies: terms.keep)
        if named.isEmpty, !stored.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: feed.address,
                "\(feed.address) has releases, but no manifest.json and no channel that offers any, so nothing is removed: check "
                    + "--feed, or restore its documents.")
        }
        let oldest = Timestamp(clamping: clock.secondsSinceEpoch - Int(clamping: terms.leastAge.components.seconds))
        return SweepRule.plan(stored, named: named, keep: terms.keep, youngerThan: oldest)
    }

    private func stored() throws -> [SweepRule.Stored] {
        var found: [SemanticVersion: SweepRule.Stored] = [:]
        for entry in try feed.list(ReleaseFeed.releasesName) {
            let parts = entry.name.split(separator: "/").map(String.init)
            guard parts.count > 2, let version = try? SemanticVersion(parsingFolderName: parts[1]) else { continue }
            var release = found[version] ?? SweepRule.Stored(folder: parts[1], version: version)
            release.files.append(entry)
            if parts.count == 3, parts[2] == ReleaseFeed.manifestName { release.isRelease = true }
            if parts.count == 3, parts[2] == DeltaListFormat.fileName { release.deltas = try deltas(of: version) }
            found[version] = release
        }
        return Array(found.values)
    }

    private func deltas(of version: SemanticVersion) throws -> [String: SemanticVersion?]? {
        guard let record = try ReleaseFeed.deltas(of: version, in: feed) else { return nil }
        let list = try reading("\(ReleaseFeed.releasesName)/\(version.folderName)/\(DeltaListFormat.fileName)") {
            try DeltaListFormat.parse(DeltaListFormat.envelope(parsing: record.bytes))
        }
        return Dictionary(list.deltas.map { ($0.url, $0.baseVersion) }, uniquingKeysWith: { first, _ in first })
    }

    /// The versions that documents name, each with why it stays.
    private func named(copies: Int) throws -> [SemanticVersion: Set<KeptReason>] {
        var named: [SemanticVersion: Set<KeptReason>] = [:]
        if let newest = try ReleaseFeed.newest(in: feed) { named[newest.claims.version] = [.manifest] }
        func add(_ bytes: [UInt8], _ path: String, _ reason: (ChannelDocument) -> KeptReason) throws {
            let document = try reading(path) { try ChannelFormat.parse(ChannelFormat.envelope(parsing: bytes)).claims }
            for release in document.releases { named[release.version, default: []].insert(reason(document)) }
            for recall in document.revoked { named[recall.version, default: []].insert(.recalled(document.channel)) }
        }
        for channel in try ChannelHistory.channels(in: feed) {
            if let record = try ChannelWriter.record(of: channel, in: feed) {
                try add(record.bytes, ChannelWriter.path(of: channel)) { .channel($0.channel) }
            }
            for sequence in try ChannelHistory.sequences(of: channel, in: feed).suffix(copies) {
                let path = ChannelWriter.copyPath(of: channel, sequence)
                guard let record = try feed.read(path, maximumBytes: ChannelFormat.maximumBytes) else { continue }
                try add(record.bytes, path) { .copy($0.channel, $0.sequence) }
            }
        }
        return named
    }

    /// A document that cannot be read names nobody knows what.
    private func reading<Answer>(_ path: String, _ work: () throws -> Answer) throws -> Answer {
        do {
            return try work()
        } catch {
            throw UpdateFailure(
                .manifestMalformed, subject: "\(feed.address)/\(path)",
                "\(feed.address)/\(path) cannot be read, so nothing is removed: restore it. "
                    + UpdateFailure(error).message)
        }
    }
}
