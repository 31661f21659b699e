import BundleFormats
import BundleDisk
package import BundleValues

/// The reason why a release stays in its feed.
package enum KeptReason: Sendable, Hashable, Comparable {
    case manifest
    /// A channel offers it.
    case channel(String)
    /// A channel recalls it, and a recall can be undone.
    case recalled(String)
    /// A recent copy of a channel file offers it, which `channel restore` may need.
    case copy(String, Int)
    /// A proposal that waits for another person offers it.
    case proposal(String, Int)
    /// It is one of the newest releases.
    case newest
    /// One of its files is recent: its publisher may reference it next.
    case young
    /// A delta to this release, which stays, is based on it.
    case base(of: SemanticVersion)

    /// The code for programs.
    package var code: String {
        switch self {
        case .manifest: "manifest"
        case .channel: "channel"
        case .recalled: "recalled"
        case .copy: "copy"
        case .proposal: "proposal"
        case .newest: "newest"
        case .young: "young"
        case .base: "base"
        }
    }

    /// The reason in words.
    package var words: String {
        switch self {
        case .manifest: "manifest.json offers it"
        case .channel(let name): "channel \(name) offers it"
        case .recalled(let name): "channel \(name) recalls it"
        case .copy(let name, let sequence): "copy \(sequence) of channel \(name) offers it"
        case .proposal(let name, let sequence): "a proposal for sequence \(sequence) of channel \(name) offers it"
        case .newest: "it is among the newest"
        case .young: "it is recent"
        case .base(let version): "a delta to \(version) is based on it"
        }
    }
}

/// The reason why a release or file is removed from its feed.
package enum RemovedReason: String, Sendable {
    /// No channel or manifest offers the release.
    case unnamed
    /// The draft of a stopped publisher.
    case incomplete
    /// The delta is not in its release's list.
    case unlisted
    /// The proposal has waited for too long.
    case waited
}

/// The result of a sweep.
package struct SweepPlan: Sendable {
    /// A release that stays.
    package struct Kept: Sendable {
        package let version: SemanticVersion
        package let bytes: Int
        package let reasons: [KeptReason]
    }

    /// A release's folder or a file that is removed.
    package struct Removed: Sendable {
        package let path: String
        /// The release; nil for a file.
        let release: String?
        package let bytes: Int
        package let reason: RemovedReason
    }

    /// The releases that stay, highest version first.
    package let kept: [Kept]
    /// The removed releases and files, largest first.
    package let removed: [Removed]
}

/// Decides which releases stay in a feed.
enum SweepRule {
    /// A folder below `releases` with the name of a release.
    struct StoredRelease {
        let folder: String
        let version: SemanticVersion
        var files: [FeedEntry] = []
        var isRelease = false
        /// The version that each delta of its list is based on, by the delta's file name. The version is nil if the
        /// base is not a release, and the dictionary is nil if there is no list.
        var deltas: [String: SemanticVersion?]?

        var bytes: Int { files.reduce(0) { $0 + $1.size } }

        func isYoung(since oldest: Timestamp) -> Bool { files.contains { isYoung($0, since: oldest) } }

        func isYoung(_ file: FeedEntry, since oldest: Timestamp) -> Bool { file.written.map { $0 > oldest } ?? true }
    }

    /// Plans for `stored` if channels and manifests name the versions `named`. The `keep` newest releases and files
    /// newer than `oldest` stay.
    static func plan(
        _ stored: [StoredRelease], named: [SemanticVersion: Set<KeptReason>], keep: Int, youngerThan oldest: Timestamp
    ) -> SweepPlan {
        var reasons = named
        for release in stored.filter(\.isRelease).sorted(by: { $0.version > $1.version }).prefix(keep) {
            reasons[release.version, default: []].insert(.newest)
        }
        for release in stored where release.isYoung(since: oldest) {
            reasons[release.version, default: []].insert(.young)
        }
        // Only the bases of releases that stay for another reason stay; the bases of bases do not.
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

    private static func unlisted(in release: StoredRelease, _ oldest: Timestamp) -> [SweepPlan.Removed] {
        release.files.filter { file in
            let name = String(file.name.split(separator: "/").last ?? "")
            return name.hasSuffix(".delta") && release.deltas?[name] == nil && !release.isYoung(file, since: oldest)
        }.map { .init(path: $0.name, release: nil, bytes: $0.size, reason: .unlisted) }
    }
}

/// Removes the releases and files of a feed that no channel or manifest needs.
package struct FeedSweep {
    /// The options of a sweep.
    package struct Terms: Sendable {
        /// The numbers of newest releases and of recent channel copies whose files stay.
        package var keep = 5
        /// The age below which nothing is removed.
        package var leastAge = Duration.seconds(86_400)
        package var isDryRun = true

        package init() {}
    }

    private let feed: any FeedLocation
    private let terms: Terms
    private let clock: Timestamp

    /// Sweeps `feed` at the time `clock`.
    package init(_ feed: any FeedLocation, terms: Terms, clock: Timestamp) {
        (self.feed, self.terms, self.clock) = (feed, terms, clock)
    }

    /// Removes the planned files unless it is a dry run. Removes nothing if a channel file cannot be read.
    package func run(_ wait: FeedWait) throws -> SweepPlan {
        try requireFeed()
        if terms.isDryRun { return try plan() }
        return try feed.exclusive(wait) {
            let plan = try plan()
            let removal = Result { try plan.removed.attemptEach(remove) }
            try requireNoneNamed(plan)
            try removal.get()
            return plan
        }
    }

    /// Throws if `feed` contains nothing of a feed, because its address may be mistyped.
    private func requireFeed() throws {
        try feed.address.requireExists()
        let isFeed =
            try !feed.list(ReleaseFeed.releasesName).isEmpty || !ChannelHistory.channels(in: feed).isEmpty
            || feed.read(ReleaseFeed.manifestName, maximumBytes: ManifestFormat.maximumBytes) != nil
            || feed.read(FeedTrust.fileName, maximumBytes: TrustRootFormat.maximumBytes) != nil
        if isFeed { return }
        throw UpdateFailure(
            .configInvalid, subject: "\(feed.address)",
            "\(feed.address) is not a feed: it has no release, no channel and no trust root. Check --feed.")
    }

    private func remove(_ removed: SweepPlan.Removed) throws {
        guard let release = removed.release else { return try feed.remove(removed.path) }
        // Where other publishers are not locked out, one may have offered the release since.
        if try named(copies: 1).keys.contains(where: { $0.folderName == release }) { return }
        try RetiredRelease.retire(release, in: feed)
        try feed.remove("\(ReleaseFeed.releasesName)/\(release)/")
    }

    /// Throws if another publisher offered a removed release during the sweep.
    private func requireNoneNamed(_ plan: SweepPlan) throws {
        let gone = Set(plan.removed.compactMap(\.release))
        let there = try ReleaseFeed.versions(in: feed)
        for version in try named(copies: 1).keys.sorted()
        where gone.contains(version.folderName) && !there.contains(version) {
            throw UpdateFailure(
                .configInvalid, subject: "\(version)",
                "Another publisher offered \(version) while it was being removed from \(feed.address). Publish it again with the same "
                    + "content.")
        }
    }

    // MARK: Plan

    private func plan() throws -> SweepPlan {
        // Read before the channel files, so that a release committed later is not in it.
        let stored = try stored()
        let named = try named(copies: terms.keep)
        if named.isEmpty, !stored.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: "\(feed.address)",
                "\(feed.address) has releases, but no manifest.json or channel that offers one, so nothing was removed. Check "
                    + "--feed, or restore its channel files.")
        }
        let oldest = Timestamp(clamping: clock.secondsSinceEpoch - Int(clamping: terms.leastAge.components.seconds))
        let plan = SweepRule.plan(stored, named: named, keep: terms.keep, youngerThan: oldest)
        return SweepPlan(kept: plan.kept, removed: try plan.removed + waited())
    }

    /// Returns the proposals that have waited for too long.
    private func waited() throws -> [SweepPlan.Removed] {
        let oldest = clock.adding(.zero - ChannelProposal.longestAge)
        return try feed.list(ChannelProposal.folder).filter { file in
            guard let entry = ChannelProposal.Entry(file.name) else { return false }
            // Some locations do not report when a file was written.
            let made = try file.written ?? entry.made(in: feed)
            return made.map { $0 <= oldest } ?? false
        }.map { .init(path: $0.name, release: nil, bytes: $0.size, reason: .waited) }
    }

    private func stored() throws -> [SweepRule.StoredRelease] {
        var found: [SemanticVersion: SweepRule.StoredRelease] = [:]
        for entry in try feed.list(ReleaseFeed.releasesName) {
            let parts = entry.name.split(separator: "/").map(String.init)
            guard parts.count > 2, let version = try? SemanticVersion(parsingFolderName: parts[1]) else { continue }
            var release = found[version] ?? SweepRule.StoredRelease(folder: parts[1], version: version)
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

    /// Returns the versions that channels and manifests name, with the reasons.
    private func named(copies: Int) throws -> [SemanticVersion: Set<KeptReason>] {
        var named: [SemanticVersion: Set<KeptReason>] = [:]
        if let newest = try ReleaseFeed.newest(in: feed) { named[newest.claims.version] = [.manifest] }
        func add(_ bytes: [UInt8], at path: String, reason: (ChannelDocument) -> KeptReason) throws {
            let document = try reading(path) { try ChannelFormat.document(in: bytes) }
            for release in document.releases { named[release.version, default: []].insert(reason(document)) }
            for recall in document.recalled { named[recall.version, default: []].insert(.recalled(document.channel)) }
        }
        for channel in try ChannelHistory.channels(in: feed) {
            if let record = try ChannelWriter.record(of: channel, in: feed) {
                try add(record.bytes, at: ChannelWriter.path(of: channel)) { .channel($0.channel) }
            }
            for sequence in try ChannelHistory.sequences(of: channel, in: feed).suffix(copies) {
                let path = ChannelWriter.copyPath(of: channel, sequence: sequence)
                guard let record = try feed.read(path, maximumBytes: ChannelFormat.maximumBytes) else { continue }
                try add(record.bytes, at: path) { .copy($0.channel, $0.sequence) }
            }
        }
        for entry in try ChannelProposal.entries(of: nil, in: feed) {
            // A damaged proposal can no longer be approved, so it needs no release.
            guard let document = try? entry.read(in: feed)?.document else { continue }
            for release in document.releases {
                named[release.version, default: []].insert(.proposal(document.channel, document.sequence))
            }
        }
        return named
    }

    /// An unreadable file could name any release, so nothing is removed.
    private func reading<Answer>(_ path: String, work: () throws -> Answer) throws -> Answer {
        do {
            return try work()
        } catch {
            throw UpdateFailure(
                .manifestMalformed, subject: "\(feed.address)/\(path)",
                "\(feed.address)/\(path) cannot be read, so nothing was removed. Restore it. "
                    + UpdateFailure(error).message)
        }
    }
}
