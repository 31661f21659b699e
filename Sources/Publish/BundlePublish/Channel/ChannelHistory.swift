package import BundleFormats
import BundleSigning
package import BundleValues

/// The history of a channel: one entry for each channel file, from its numbered copies.
package struct ChannelHistory: Sendable {
    package struct Record: Sendable {
        package let document: ChannelDocument
        /// The key IDs in the file's signatures, unverified.
        package let keyIds: [String]
        /// The trusted keys that signed the file, none if they are too few; nil if no keys were given.
        package let signers: [String]?
        /// The changes since the previous entry, in words.
        package let changes: [String]

        /// Whether trusted keys signed the file; nil if no keys were given.
        package var isVerified: Bool? { signers.map { !$0.isEmpty } }
    }

    /// The entries, oldest first.
    package let entries: [Record]
    /// The number of older copies that were omitted.
    package let older: Int

    /// Reads the `newest` copies of `channel` in `feed`, and verifies them with `trust` if it is given.
    package init(
        _ channel: String, in feed: any FeedLocation, newest: Int = .max, trust: TrustAnchor?, clock: Timestamp
    ) throws {
        try feed.address.requireExists()
        var entries: [Record] = []
        let sequences = try Self.sequences(of: channel, in: feed)
        // Reads one more copy, which the oldest entry is compared with.
        for sequence in sequences.suffix(newest == .max ? newest : newest + 1) {
            let path = ChannelWriter.copyPath(of: channel, sequence: sequence)
            guard let record = try feed.read(path, maximumBytes: ChannelFormat.maximumBytes) else { continue }
            let (envelope, document) = try Self.parse(record.bytes, of: path)
            let signers = try trust.map { try Self.signers(of: envelope, by: $0, of: channel, at: clock) }
            entries.append(
                Record(
                    document: document, keyIds: envelope.signatures.compactMap(\.keyId), signers: signers,
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
                "The copy \(path) is damaged, so the history cannot be shown. Restore or remove it. "
                    + UpdateFailure(error).message)
        }
    }

    private static func signers(
        of envelope: SignedEnvelope, by trust: TrustAnchor, of channel: String, at clock: Timestamp
    ) throws -> [String] {
        do {
            return try ChannelVerifier.verify(
                envelope, channel: channel, trusted: trust.keys(for: .channel, at: clock)
            ).signers.map(\.id)
        } catch let failure as UpdateFailure where [.signatureInvalid, .keyUnknown].contains(failure.code) {
            return []
        }
    }

    /// Returns the channels that have a file or copies.
    package static func channels(in feed: any FeedLocation) throws -> [String] {
        let names = try feed.list(ChannelWriter.folder).compactMap { entry -> String? in
            let parts = entry.name.split(separator: "/")
            return parts.count == 3 && ChannelFileName.isName(String(parts[1])) ? String(parts[1]) : nil
        }
        return Set(try names + ChannelWriter.channels(in: feed)).sorted()
    }

    /// Returns the sequences of the copies, in ascending order.
    static func sequences(of channel: String, in feed: any FeedLocation) throws -> [Int] {
        let folder = "\(ChannelWriter.folder)/\(channel)"
        return try feed.list(folder).compactMap { entry in
            let file = entry.name.dropFirst(folder.utf8.count + 1)
            return file.hasSuffix(".json") ? Int(file.dropLast(".json".utf8.count)) : nil
        }.sorted()
    }
}

extension ChannelDocument {
    /// Returns the changes since `before`, in words.
    func changes(since before: ChannelDocument?) -> [String] {
        guard let before else {
            let first = releases.map { "\($0.version) for \(Self.audience(of: $0))" }
            return [first.isEmpty ? "starts without a release" : "starts with \(first.joined(separator: ", "))"]
        }
        let gap = sequence == before.sequence + 1 ? [] : ["the copies from \(before.sequence + 1) are missing"]
        let words = gap + differences(from: before)
        return words.isEmpty ? ["signed again"] : words
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
            return ["\(version) added, for \(audience(of: release))\(more)"]
        }
        var words: [String] = []
        if !old.hasAudience(of: release) {
            words.append("\(version): for \(audience(of: old)) → \(audience(of: release))")
        }
        if old.isUrgent != release.isUrgent { words.append("\(version): \(Self.words(isUrgent: release.isUrgent))") }
        if old.retries < release.retries { words.append("\(version): \(Self.words(retries: release.retries))") }
        if old.isPaused != release.isPaused {
            words.append(release.isPaused ? "\(version): paused" : "\(version): no longer paused")
        }
        return words
    }

    private func recallChanges(since before: ChannelDocument) -> [String] {
        var lines: [String] = []
        for recall in recalled where !before.recalled.contains(recall) {
            lines.append("\(recall.version): recalled, \(UntrustedName.display(recall.reason))")
        }
        for entry in reinstated where !before.reinstated.contains(entry) {
            lines.append("\(entry.version): no longer recalled")
        }
        for old in before.recalled
        where !recalled.contains(where: { $0.version == old.version })
            && !reinstated.contains(where: { $0.version == old.version })
        {
            lines.append("\(old.version): its recall is omitted; devices that have the recall keep it")
        }
        if let minimumVersion, minimumVersion != before.minimumVersion {
            lines.append("nothing below \(minimumVersion) may run")
        }
        if minimumVersion == nil, let undone = before.minimumVersion { lines.append(Self.words(undone: undone)) }
        return lines
    }
}

extension ChannelDocument {
    /// Offers the releases of `earlier` again. Recalls made since then stay, so that no device gets a recalled
    /// release from a restored copy.
    mutating func restore(_ earlier: ChannelDocument) -> [String] {
        let before = self
        (releases, poll, busyLimit) = (earlier.releases, earlier.poll, earlier.busyLimit)
        recalled += earlier.recalled.filter { recall in !recalled.contains { $0.version == recall.version } }
        reinstated.removeAll { entry in recalled.contains { $0.version == entry.version } }
        let floor = earlier.minimumVersion.flatMap { floor in undoneMinimum.map { floor <= $0 } == true ? nil : floor }
        minimumVersion = [minimumVersion, floor].compactMap { $0 }.max()
        let words = differences(from: before)
        return words.isEmpty ? [] : ["restored from copy \(earlier.sequence)"] + words
    }
}

extension ChannelDocument.Release {
    /// Returns whether both have the same audience. A ramp moved by a pause counts as the same.
    fileprivate func hasAudience(of other: Self) -> Bool {
        rollout == other.rollout && ramp?.steps == other.ramp?.steps && groups == other.groups
            && isOnlyForGroups == other.isOnlyForGroups
    }
}
