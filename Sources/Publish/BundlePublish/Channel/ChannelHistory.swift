package import ArchiveSource
import BundleCore
package import BundleValues

/// What became of a channel: one entry for each document that was ever signed for it, by the numbered copies that stay.
package struct ChannelHistory: Sendable {
    /// One document.
    package struct Entry: Sendable {
        package let document: ChannelDocument
        /// The ids of the keys that it claims to be signed with.
        package let keyIds: [String]
        /// Whether what the reader trusts vouches for it; nil where nothing was named.
        package let isVerified: Bool?
        /// What is different from the one before, for people.
        package let changes: [String]
    }

    /// The oldest first.
    package let entries: [Entry]
    /// How many older copies were left out.
    package let older: Int

    /// Reads the history of `channel` in `feed`, the `newest` copies of it, judged by `trust` where one is given.
    package init(
        _ channel: String, in feed: any FeedPlace, newest: Int = .max, trust: TrustAnchor?, clock: Timestamp
    ) throws {
        try feed.requireThere()
        var entries: [Entry] = []
        let sequences = try Self.sequences(of: channel, in: feed)
        // One more, which the oldest of them is compared with.
        for sequence in sequences.suffix(newest == .max ? newest : newest + 1) {
            let path = ChannelDesk.copyPath(of: channel, sequence)
            guard let record = try feed.read(path, maximumBytes: ChannelFormat.maximumBytes) else { continue }
            let (envelope, document) = try Self.parse(record.bytes, of: path)
            let isVerified = try trust.map { try Self.vouches($0, for: envelope, channel, clock) }
            entries.append(
                Entry(
                    document: document, keyIds: envelope.signatures.compactMap(\.keyId), isVerified: isVerified,
                    changes: document.changes(since: entries.last?.document)))
        }
        self.entries = entries.suffix(newest)
        older = max(0, sequences.count - newest)
    }

    private static func parse(
        _ bytes: [UInt8], of path: String
    ) throws -> (SignedEnvelope, ChannelDocument) {
        do {
            let envelope = try ChannelFormat.envelope(parsing: bytes)
            return (envelope, try ChannelFormat.parse(envelope).claims)
        } catch {
            throw UpdateFailure(
                .manifestMalformed, subject: path,
                "The copy \(path) is damaged, so the history cannot be told: restore or remove it. "
                    + UpdateFailure(error).message)
        }
    }

    private static func vouches(
        _ trust: TrustAnchor, for envelope: SignedEnvelope, _ channel: String, _ clock: Timestamp
    ) throws -> Bool {
        do {
            _ = try ChannelVerifier.verify(envelope, channel: channel, trusted: trust.keys(for: .channel, at: clock))
            return true
        } catch let failure as UpdateFailure where [.signatureInvalid, .keyUnknown].contains(failure.code) {
            return false
        }
    }

    /// The channels that have a document, or copies of one.
    static func channels(in feed: any FeedPlace) throws -> [String] {
        let names = try feed.list(ChannelDesk.folder).compactMap { entry -> String? in
            let parts = entry.name.split(separator: "/")
            return parts.count == 3 && ChannelFileName.isName(String(parts[1])) ? String(parts[1]) : nil
        }
        return Set(try names + ChannelDesk.channels(in: feed)).sorted()
    }

    /// The sequences of the copies, rising.
    static func sequences(of channel: String, in feed: any FeedPlace) throws -> [Int] {
        let folder = "\(ChannelDesk.folder)/\(channel)"
        return try feed.list(folder).compactMap { entry in
            let file = entry.name.dropFirst(folder.utf8.count + 1)
            return file.hasSuffix(".json") ? Int(file.dropLast(".json".utf8.count)) : nil
        }.sorted()
    }
}

extension ChannelDocument {
    /// What is different from `before`, in words. A pure rule.
    func changes(since before: ChannelDocument?) -> [String] {
        guard let before else {
            return releases.isEmpty
                ? ["begins without a release"]
                : [
                    "begins with \(releases.map { "\($0.version) for \(Self.share(of: $0))" }.joined(separator: ", "))"
                ]
        }
        let gap = sequence == before.sequence + 1 ? [] : ["copies from \(before.sequence + 1) on are missing"]
        let words = gap + differences(from: before)
        return words.isEmpty ? ["signed anew"] : words
    }

    private func differences(from before: ChannelDocument) -> [String] {
        var words = releaseChanges(since: before) + recallChanges(since: before)
        if poll != before.poll { words.append(Self.words(poll)) }
        if busyLimit != before.busyLimit { words.append(Self.words(busyLimit: busyLimit)) }
        return words
    }

    private func releaseChanges(since before: ChannelDocument) -> [String] {
        let gone = before.releases.filter { old in !releases.contains { $0.version == old.version } }
        return gone.map { "\($0.version): no longer in the channel" }
            + releases.flatMap { release in
                Self.changes(of: release, since: before.releases.first { $0.version == release.version })
            }
    }

    private static func changes(of release: Release, since old: Release?) -> [String] {
        let version = release.version
        guard let old else {
            let more = (release.isUrgent ? ", urgent" : "") + (release.isPaused ? ", paused" : "")
            return ["\(version) added, for \(share(of: release))\(more)"]
        }
        var words: [String] = []
        if !old.hasDevices(of: release) { words.append("\(version): for \(share(of: old)) → \(share(of: release))") }
        if old.isUrgent != release.isUrgent { words.append("\(version): \(Self.words(isUrgent: release.isUrgent))") }
        if old.retries < release.retries { words.append("\(version): \(Self.words(retries: release.retries))") }
        if old.isPaused != release.isPaused {
            words.append(release.isPaused ? "\(version): paused" : "\(version): no longer paused")
        }
        return words
    }

    private func recallChanges(since before: ChannelDocument) -> [String] {
        var lines: [String] = []
        for recall in revoked where !before.revoked.contains(recall) {
            lines.append("\(recall.version): recalled, \(UntrustedName.display(recall.reason))")
        }
        for entry in reinstated where !before.reinstated.contains(entry) {
            lines.append("\(entry.version): no longer recalled")
        }
        for old in before.revoked
        where !revoked.contains(where: { $0.version == old.version })
            && !reinstated.contains(where: { $0.version == old.version })
        {
            lines.append("\(old.version): its recall is left out; devices that have it keep it")
        }
        if let minimumVersion, minimumVersion != before.minimumVersion {
            lines.append("nothing below \(minimumVersion) may run")
        }
        return lines
    }
}

extension ChannelDocument {
    /// Offers again what `earlier` did. Recalls made since stay, so that no device gets a recalled release by a restored copy.
    mutating func restore(_ earlier: ChannelDocument) -> [String] {
        let before = self
        (releases, poll, busyLimit) = (earlier.releases, earlier.poll, earlier.busyLimit)
        revoked += earlier.revoked.filter { recall in !revoked.contains { $0.version == recall.version } }
        reinstated.removeAll { entry in revoked.contains { $0.version == entry.version } }
        minimumVersion = [minimumVersion, earlier.minimumVersion].compactMap { $0 }.max()
        let words = differences(from: before)
        return words.isEmpty ? [] : ["restored from copy \(earlier.sequence)"] + words
    }
}

extension ChannelDocument.Release {
    /// Whether `other` is for the same devices; what a pause moves is told as the pause.
    fileprivate func hasDevices(of other: Self) -> Bool {
        rollout == other.rollout && ramp?.steps == other.ramp?.steps && groups == other.groups
            && isOnlyForGroups == other.isOnlyForGroups
    }
}
