import ArchiveSource
import BundleCore
package import BundleValues

/// Which releases of a feed somebody still needs, and why. A pure rule.
package enum FeedSweepRule {
    /// Why a release stays.
    package enum Reason: Sendable, Equatable, CustomStringConvertible {
        /// `manifest.json` offers it.
        case offered
        /// It is one of the newest.
        case newest
        /// The document of this channel offers it.
        case channel(String)
        /// The document of this channel recalls it.
        case recalled(String)
        /// A copy of this channel's document offers it, so that `release restore` may.
        case history(String, sequence: Int)
        /// A delta of this release builds on it.
        case base(of: SemanticVersion)

        /// For people.
        package var description: String {
            switch self {
            case .offered: "manifest.json offers it"
            case .newest: "it is one of the newest"
            case .channel(let name): "channel \(name) offers it"
            case .recalled(let name): "channel \(name) recalls it"
            case .history(let name, let sequence): "copy \(sequence) of channel \(name) offers it"
            case .base(let version): "a delta of \(version) builds on it"
            }
        }
    }

    /// What is known of a feed.
    struct Facts {
        /// Its releases, in no order.
        var versions: [SemanticVersion] = []
        /// What `manifest.json` offers.
        var offered: SemanticVersion?
        /// The documents of its channels.
        var documents: [ChannelDocument] = []
        /// The last copies of them.
        var copies: [ChannelDocument] = []
        /// What the deltas of a release build on.
        var bases: [SemanticVersion: [SemanticVersion]] = [:]
    }

    /// Why each release that stays does, `newest` of them in any case. A base stays for the releases that others need, and not
    /// for other bases.
    static func reasons(_ facts: Facts, newest: Int) -> [SemanticVersion: Reason] {
        var all: [SemanticVersion: Reason] = [:]
        func keep(_ version: SemanticVersion, _ reason: Reason) {
            if all[version] == nil { all[version] = reason }
        }
        if let offered = facts.offered { keep(offered, .offered) }
        for document in facts.documents {
            for recall in document.revoked { keep(recall.version, .recalled(document.channel)) }
            for release in document.releases { keep(release.version, .channel(document.channel)) }
        }
        for copy in facts.copies {
            for release in copy.releases { keep(release.version, .history(copy.channel, sequence: copy.sequence)) }
        }
        for version in facts.versions.sorted(by: >).prefix(newest) { keep(version, .newest) }
        for version in all.keys.sorted(by: >) {
            for base in facts.bases[version] ?? [] { keep(base, .base(of: version)) }
        }
        return all.filter { facts.versions.contains($0.key) }
    }
}

/// Removes from a feed what nobody needs any more: releases, and deltas that no list names.
package struct FeedSweep: Sendable {
    /// A release that stays.
    package struct Kept: Sendable {
        package let version: SemanticVersion
        package let reason: FeedSweepRule.Reason
    }

    /// Lowest first.
    package let kept: [Kept]
    /// The releases that go, lowest first.
    package let removed: [SemanticVersion]
    /// Files of releases that stay, which nothing names.
    package let strays: [String]
    /// Bytes of everything that goes.
    package let bytes: Int

    /// What may go from `feed`: `newest` releases stay in any case, and so does what one of the last `history` copies of a
    /// channel's document offers.
    private init(_ feed: any FeedPlace, newest: Int, history: Int) throws {
        let entries = try feed.list(ReleaseFeed.releasesName)
        var facts = FeedSweepRule.Facts()
        var lists: [SemanticVersion: DeltaList] = [:]
        facts.versions = try ReleaseFeed.versions(in: feed)
        facts.offered = try ReleaseFeed.newest(in: feed)?.claims.version
        for channel in try Self.channels(of: feed) {
            if let record = try ChannelDesk.record(of: channel, in: feed) {
                facts.documents.append(try Self.document(record, channel))
            }
            for sequence in try ChannelHistory.sequences(of: channel, in: feed).suffix(history) {
                let path = ChannelDesk.copyPath(of: channel, sequence)
                guard let record = try feed.read(path, maximumBytes: ChannelFormat.maximumBytes) else { continue }
                facts.copies.append(try Self.document(record, path))
            }
        }
        for version in facts.versions {
            guard let record = try ReleaseFeed.deltas(of: version, in: feed) else { continue }
            let list = try DeltaListFormat.parse(DeltaListFormat.envelope(parsing: record.bytes))
            lists[version] = list
            facts.bases[version] = list.deltas.compactMap(\.baseVersion)
        }
        if facts.offered == nil && facts.documents.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: feed.address,
                "The feed \(feed.address) has no manifest.json and no channel, so nobody can say what devices need: check the path."
            )
        }
        let reasons = FeedSweepRule.reasons(facts, newest: newest)
        kept = reasons.sorted { $0.key < $1.key }.map { Kept(version: $0.key, reason: $0.value) }
        removed = facts.versions.filter { reasons[$0] == nil }.sorted()
        let going = Set(removed.map { "\(ReleaseFeed.releasesName)/\($0.folderName)" })
        let named = Dictionary(grouping: entries) { $0.name.split(separator: "/").prefix(2).joined(separator: "/") }
        var sizes: [String: Int] = [:]
        for entry in entries { sizes[entry.name] = entry.size }
        strays = reasons.keys.flatMap { version -> [String] in
            // Where others may write meanwhile, a delta comes before its list.
            guard feed.keepsOthersOut, let list = lists[version] else { return [] }
            let folder = "\(ReleaseFeed.releasesName)/\(version.folderName)"
            let wanted = Set(list.deltas.map { "\(folder)/\($0.url)" })
            return (named[folder] ?? []).map(\.name).filter { $0.hasSuffix(DeltaDesk.suffix) && !wanted.contains($0) }
        }.sorted()
        let files = strays + going.flatMap { (named[$0] ?? []).map(\.name) }
        bytes = files.reduce(0) { $0 + (sizes[$1] ?? 0) }
    }

    private static func channels(of feed: any FeedPlace) throws -> [String] {
        let names = try feed.list(ChannelDesk.folder).compactMap { entry -> String? in
            let parts = entry.name.split(separator: "/").map(String.init)
            switch parts.count {
            case 2: return parts[1].hasSuffix(".json") ? String(parts[1].dropLast(".json".count)) : nil
            case 3: return parts[1]
            default: return nil
            }
        }
        return Set(names).sorted()
    }

    private static func document(_ record: FeedRecord, _ name: String) throws -> ChannelDocument {
        do {
            return try ChannelFormat.parse(ChannelFormat.envelope(parsing: record.bytes)).claims
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: name,
                "What \(name) offers cannot be read (\(error)), so nothing was removed: restore it first.")
        }
    }

    /// Looks at `feed`, tells the plan, and removes what may go unless `isDryRun`. Nobody else changes the feed meanwhile, where
    /// the place can keep others out.
    package static func run(
        in feed: any FeedPlace, newest: Int, history: Int, wait: FeedWait, isDryRun: Bool,
        plan: (FeedSweep) -> Void
    ) throws -> FeedSweep {
        try feed.requireThere()
        return try feed.alone(wait) {
            let sweep = try FeedSweep(feed, newest: newest, history: history)
            plan(sweep)
            if isDryRun { return sweep }
            try feed.clear()
            for stray in sweep.strays { try feed.remove(stray) }
            for version in sweep.removed {
                // Somebody may have offered it again where nobody is kept out.
                let isStillFree =
                    try feed.keepsOthersOut
                    || FeedSweep(feed, newest: newest, history: history).removed.contains(version)
                if isStillFree { try feed.withdraw(version.folderName) }
            }
            return sweep
        }
    }
}
