package import ArchiveSource
package import BundleValues

/// Changes channel documents of a feed, one at a time: whoever else changes one waits, or looks again, so no change is lost.
package struct ChannelEditor {
    private let feed: any FeedPlace
    /// What a dry run works on.
    private let rehearsal: RehearsalPlace?
    private let options: ChannelTerms

    /// Edits `feed`.
    package init(feed: any FeedPlace, _ options: ChannelTerms) {
        rehearsal = options.isDryRun ? RehearsalPlace(feed) : nil
        self.feed = rehearsal ?? feed
        self.options = options
    }

    /// The names of the channels in `feed`.
    package static func channels(in feed: any FeedPlace) throws -> [String] {
        try feed.requireThere()
        return try ChannelDesk.channels(in: feed)
    }

    /// The releases in `feed`, the highest first, and the one that its `manifest.json` offers.
    package static func releases(
        in feed: any FeedPlace
    ) throws -> (versions: [SemanticVersion], offered: SemanticVersion?) {
        (
            try ReleaseFeed.versions(in: feed).sorted(by: >), try ReleaseFeed.newest(in: feed)?.claims.version
        )
    }

    /// The document of `channel`, checked by `trust` where one is given, with what a guard holds.
    package static func read(
        _ channel: String, in feed: any FeedPlace, trust: TrustAnchor?, clock: Timestamp
    ) throws -> ChannelDocument {
        try look(at: channel, in: feed, trust: trust, clock: clock).document
    }

    /// The same, and the releases that a guard holds.
    package static func look(
        at channel: String, in feed: any FeedPlace, trust: TrustAnchor?, clock: Timestamp
    ) throws -> (document: ChannelDocument, held: [SemanticVersion]) {
        try feed.requireThere()
        guard let record = try ChannelDesk.record(of: channel, in: feed) else { throw missing(channel, feed) }
        let envelope = try ChannelFormat.envelope(parsing: record.bytes)
        let document =
            try trust.map {
                try ChannelVerifier.verify(envelope, channel: channel, trusted: $0.keys(for: .channel, at: clock))
                    .document
            } ?? ChannelFormat.parse(envelope).claims
        let rule = try HoldDesk.judge(document, in: feed, trust: trust, clock: clock)
        guard case .holds(let versions, _) = rule else { return (document, []) }
        return (document.held(by: rule), versions)
    }

    /// Applies `change` to `channel`.
    package func apply(_ change: ChannelChange, to channel: String) throws -> ChannelReport {
        try edit([channel]) { desk in
            let (base, present) = try self.base(of: channel, desk)
            if case .revoke(let version, _) = change { try requireKnown(version, present.document) }
            return try desk.prepare(channel, creatingFor: nil, onto: base, resumed: change.resumed) {
                try change.apply(to: &$0, at: options.issuedAt)
            }
        }
    }

    /// Refuses signers whose documents of `channel` devices would refuse, before there is anything to sign.
    package func requireSigners(of channel: String) throws {
        _ = try base(of: channel, ChannelDesk(place: feed, options: options))
        try FeedTrust(in: feed, clock: options.clock)?.require(options.signers, as: .channel)
    }

    /// Signs `channel` anew if its document expires within `time`; else leaves it as it is.
    package func resign(_ channel: String, ifExpiresWithin time: Duration) throws -> ChannelReport {
        try edit([channel]) { desk in
            let (base, present) = try self.base(of: channel, desk)
            let isDue = present.document.expires <= options.clock.adding(time)
            return try desk.prepare(channel, creatingFor: nil, onto: base) {
                isDue ? try ChannelChange.resign.apply(to: &$0, at: options.issuedAt) : []
            }
        }
    }

    /// Removes from `channel` the releases that no device takes any more, but the `keep` highest of them.
    package func prune(_ channel: String, keeping keep: Int) throws -> ChannelReport {
        try edit([channel]) { desk in
            let base = try base(of: channel, desk).base
            return try desk.prepare(channel, creatingFor: nil, onto: base) {
                $0.prune(keeping: keep, at: options.issuedAt)
            }
        }
    }

    /// Signs what the copy `sequence` of `channel` offered, the newest where it is nil, with a sequence above every copy's: devices take it.
    /// Recalls made since stay.
    package func restore(_ channel: String, to sequence: Int?) throws -> ChannelReport {
        try edit([channel]) { desk in
            let (base, isShown) = try desk.restoredBase(of: channel)
            guard let newest = base.document?.document else { throw Self.missing(channel, feed) }
            let chosen = try sequence.map { try desk.copy(of: channel, $0).document } ?? newest
            try requireReleases(of: chosen, besides: newest)
            return try desk.prepare(channel, creatingFor: nil, onto: base) { document in
                let changes = document.restore(chosen)
                return changes.isEmpty && !isShown ? ["restored from copy \(chosen.sequence)"] : changes
            }
        }
    }

    /// Refuses a copy that offers what `feed gc` has removed since.
    private func requireReleases(of document: ChannelDocument, besides present: ChannelDocument) throws {
        for release in document.releases
        where release.manifest.claims.url.hasPrefix("../")
            && !present.releases.contains(where: { $0.version == release.version })
        {
            if try ReleaseFeed.published(release.version, in: feed) != nil { continue }
            throw UpdateFailure(
                .configInvalid, subject: "\(release.version)",
                "Copy \(document.sequence) offers \(release.version), which the feed \(feed.address) has no more: publish the same content "
                    + "as \(release.version) again, or choose another copy.")
        }
    }

    /// Copies the release `version` of `source` to the channel `target`, which is created where it is missing.
    ///
    /// It stays paused where it is, and its ramp goes on. `rollout` is in thousandths of all devices; nil for those that have it in `source`.
    package func promote(
        _ version: SemanticVersion, from source: String, to target: String, rollout: Int?
    ) throws -> ChannelReport {
        try edit([target, source]) { desk in
            var document = try base(of: source, desk.withoutExpectation).present.document
            // What a guard holds there stays held here.
            let hold = try HoldDesk.judge(document, in: feed, trust: options.trust, clock: options.clock)
            _ = try document.takeIn(hold, at: options.issuedAt)
            let release = document.releases[try document.index(of: version)]
            try document.requireAllowed(version)
            try requireTrusted(release, in: source)
            let base = try desk.base(of: target, appId: document.appId)
            return try desk.prepare(target, creatingFor: document.appId, onto: base) {
                try $0.addPruning(at: options.issuedAt) { try $0.add(release, rollout: rollout) }
            }
        }
    }

    /// The document of `channel` that an edit builds on. Throws if there is none.
    private func base(
        of channel: String, _ desk: ChannelDesk
    ) throws -> (base: ChannelBase, present: VerifiedChannelDocument) {
        let base = try desk.base(of: channel, appId: nil)
        guard let present = base.document else { throw Self.missing(channel, feed) }
        return (base, present)
    }

    /// Refuses a release that no device of the feed's trust root would install, such as one of a revoked key.
    private func requireTrusted(_ release: ChannelDocument.Release, in channel: String) throws {
        guard let trust = try FeedTrust(in: feed, clock: options.clock), !trust.vouches(for: release.manifest) else {
            return
        }
        throw UpdateFailure(
            .keyUnknown, subject: release.version.description,
            "\(trust.refusal(of: release.version)): publish its content under a higher version, and take it out with "
                + "`clientctl release remove --version \(release.version) --channel \(channel)`.")
    }

    /// Changes one of `channels`, which `work` reads.
    private func edit(
        _ channels: [String], _ work: (ChannelDesk) throws -> ChannelDesk.Prepared
    ) throws -> ChannelReport {
        try feed.requireThere()
        let desk = ChannelDesk(place: feed, options: options)
        let isQuick = options.signers.areQuick
        var report = try feed.change(
            options.wait, channels: isQuick ? [] : channels, draft: { isQuick ? nil : try work(desk) }
        ) { drafted in
            try desk.put(try drafted ?? work(desk))
        }
        report.writes = rehearsal?.writes
        return report
    }

    /// A version that was never published is a slip of the pen, and the bad one would go on.
    private func requireKnown(_ version: SemanticVersion, _ document: ChannelDocument) throws {
        if document.releases.contains(where: { $0.version == version }) { return }
        if try ReleaseFeed.published(version, in: feed) != nil { return }
        _ = try document.index(of: version)
    }

    /// Refuses a channel that `feed` does not have.
    package static func requireChannel(_ channel: String, in feed: any FeedPlace) throws {
        if try ChannelDesk.record(of: channel, in: feed) == nil { throw missing(channel, feed) }
    }

    private static func missing(_ channel: String, _ feed: any FeedPlace) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "channel \(channel)",
            "The feed \(feed.address) has no channel \(channel): `clientctl publish --channel \(channel) --create` makes it, or "
                + "`clientctl release promote --to \(channel) --create`. If its document was lost, `clientctl release restore` "
                + "brings it back.")
    }
}
