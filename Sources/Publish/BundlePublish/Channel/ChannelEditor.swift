package import BundleFormats
package import BundleValues

/// Changes the channel files of a feed. Concurrent editors wait for the lock or retry, so no change is lost.
package struct ChannelEditor {
    private let feed: any FeedLocation
    /// The location of a dry run; nil otherwise.
    private let dryRun: DryRunLocation?
    private let options: ChannelTerms

    package init(feed: any FeedLocation, _ options: ChannelTerms) {
        dryRun = options.isDryRun ? DryRunLocation(feed) : nil
        self.feed = dryRun ?? feed
        self.options = options
    }

    package static func channels(in feed: any FeedLocation) throws -> [String] {
        try feed.address.requireExists()
        return try ChannelWriter.channels(in: feed)
    }

    /// Returns the releases in `feed`, highest first, and the release that its `manifest.json` offers.
    package static func releases(
        in feed: any FeedLocation
    ) throws -> (versions: [SemanticVersion], offered: SemanticVersion?) {
        (
            try ReleaseFeed.versions(in: feed).sorted(by: >), try ReleaseFeed.newest(in: feed)?.claims.version
        )
    }

    /// Returns the channel file of `channel` with a guard's holds applied, verified with `trust` if it is given.
    package static func read(
        _ channel: String, in feed: any FeedLocation, trust: TrustAnchor?, clock: Timestamp
    ) throws -> ChannelDocument {
        try inspect(channel, in: feed, trust: trust, clock: clock).document
    }

    /// Returns the channel file with a guard's holds applied, and the releases that are held.
    package static func inspect(
        _ channel: String, in feed: any FeedLocation, trust: TrustAnchor?, clock: Timestamp
    ) throws -> (document: ChannelDocument, held: [SemanticVersion]) {
        try feed.address.requireExists()
        guard let record = try ChannelWriter.record(of: channel, in: feed) else { throw missing(channel, in: feed) }
        let envelope = try ChannelFormat.envelope(parsing: record.bytes)
        let document =
            try trust.map {
                try ChannelVerifier.verify(envelope, channel: channel, trusted: $0.keys(for: .channel, at: clock))
                    .document
            } ?? ChannelFormat.parse(envelope).claims
        let rule = try HoldEditor.judge(document, in: feed, trust: trust, clock: clock)
        guard case .holds(let versions, _) = rule else { return (document, []) }
        return (document.held(by: rule), versions)
    }

    package func apply(_ change: ChannelChange, to channel: String) throws -> ChannelReport {
        try edit([channel]) { writer in
            let (base, present) = try self.base(of: channel, writer)
            if case .recall(let version, _) = change { try requireKnown(version, in: present.document) }
            return try writer.prepare(channel, creatingFor: nil, onto: base, resumed: change.resumed) {
                try change.apply(to: &$0, at: options.issuedAt)
            }
        }
    }

    /// Throws if devices would refuse a channel file signed by these signers, or if the channel is not the one that this publisher knows.
    /// Stores the channel file as known, so that a later run can compare.
    package func requireSigners(of channel: String) throws {
        let writer = ChannelWriter(location: feed, options: options)
        let (_, present) = try base(of: channel, writer)
        if !options.isDryRun { try writer.remember(present) }
        try FeedTrust(in: feed, clock: options.clock)?.require(options.signers, as: .channel)
    }

    /// Returns the number of signatures that are missing if these signers sign; 0 if they can publish. Throws if none of them has a channel
    /// key.
    package func missingSignatures() throws -> Int {
        try ChannelAuthority(in: feed, trust: options.trust, clock: options.clock)?.missing(after: options.signers) ?? 0
    }

    /// Adds a signature to the proposal of `channel` with this ID, and publishes it if no signature is missing any longer. The start of the ID
    /// is enough for a dry run.
    package func approve(_ id: String, of channel: String) throws -> ChannelReport {
        try edit([channel]) { writer in
            let proposal = try ChannelProposal.find(id, of: channel, in: feed, byStart: options.isDryRun)
            let prepared = try writer.prepareApproval(of: proposal)
            if let present = prepared.base.document?.document {
                try requireReleases(
                    of: proposal.document, besides: present, named: "The proposal \(proposal.shortID)")
            }
            return prepared
        }
    }

    /// Signs `channel` again if its file expires within `time`.
    package func renew(_ channel: String, ifExpiresWithin time: Duration) throws -> ChannelReport {
        try edit([channel]) { writer in
            let (base, present) = try self.base(of: channel, writer)
            let isDue = present.document.expires <= options.clock.adding(time)
            return try writer.prepare(channel, creatingFor: nil, onto: base) {
                isDue ? try ChannelChange.renew.apply(to: &$0, at: options.issuedAt) : []
            }
        }
    }

    /// Removes the releases that no device installs any longer, except the `keep` highest.
    package func prune(_ channel: String, keeping keep: Int) throws -> ChannelReport {
        try edit([channel]) { writer in
            let base = try base(of: channel, writer).base
            return try writer.prepare(channel, creatingFor: nil, onto: base) {
                $0.prune(keeping: keep, at: options.issuedAt)
            }
        }
    }

    /// Signs the content of copy `sequence`, or of the newest copy, with a sequence above all copies. Later recalls
    /// stay.
    package func restore(_ channel: String, to sequence: Int?) throws -> ChannelReport {
        try edit([channel]) { writer in
            let (base, isShown) = try writer.restoredBase(of: channel)
            guard let newest = base.document?.document else { throw Self.missing(channel, in: feed) }
            let chosen = try sequence.map { try writer.copy(of: channel, sequence: $0).document } ?? newest
            try requireReleases(of: chosen, besides: newest, named: "Copy \(chosen.sequence)")
            return try writer.prepare(channel, creatingFor: nil, onto: base) { document in
                let changes = document.restore(chosen)
                return changes.isEmpty && !isShown ? ["restored from copy \(chosen.sequence)"] : changes
            }
        }
    }

    /// Throws if `document` offers a release that `feed prune` has removed.
    private func requireReleases(
        of document: ChannelDocument, besides present: ChannelDocument, named name: String
    ) throws {
        for release in document.releases
        where release.manifest.claims.url.hasPrefix("../")
            && !present.releases.contains(where: { $0.version == release.version })
        {
            if try ReleaseFeed.published(release.version, in: feed) != nil { continue }
            throw UpdateFailure(
                .configInvalid, subject: "\(release.version)",
                "\(name) offers \(release.version), which is no longer in the feed \(feed.address). Publish the same content "
                    + "as \(release.version) again, or choose another copy.")
        }
    }

    /// Copies the release `version` of `source` to the channel `target`, which is created if it is missing.
    ///
    /// A paused release stays paused, and a ramp continues. `rollout` is in thousandths of all devices; nil keeps the
    /// audience of `source`.
    package func promote(
        _ version: SemanticVersion, from source: String, to target: String, rollout: Int?
    ) throws -> ChannelReport {
        try edit([target, source]) { writer in
            var document = try base(of: source, writer.withoutExpectation).present.document
            // A release that a guard holds in the source stays paused in the target.
            let hold = try HoldEditor.judge(document, in: feed, trust: options.trust, clock: options.clock)
            _ = try document.apply(hold, at: options.issuedAt)
            let release = document.releases[try document.index(of: version)]
            try document.requireAllowed(version)
            try requireTrusted(release, in: source)
            let base = try writer.base(of: target, appId: document.appId)
            return try writer.prepare(target, creatingFor: document.appId, onto: base) {
                try $0.addPruning(at: options.issuedAt) { try $0.add(release, rollout: rollout) }
            }
        }
    }

    /// Returns the current file of `channel`, which an edit builds on. Throws if there is none.
    private func base(
        of channel: String, _ writer: ChannelWriter
    ) throws -> (base: ChannelBase, present: VerifiedChannelDocument) {
        let base = try writer.base(of: channel, appId: nil)
        guard let present = base.document else { throw Self.missing(channel, in: feed) }
        return (base, present)
    }

    /// Throws if no device would install `release`, for example because its key is revoked.
    private func requireTrusted(_ release: ChannelDocument.Release, in channel: String) throws {
        guard let trust = try FeedTrust(in: feed, clock: options.clock), !trust.accepts(release.manifest) else {
            return
        }
        throw UpdateFailure(
            .keyUnknown, subject: release.version.description,
            "\(trust.refusal(of: release.version)). Publish its content under a higher version, and remove this one with "
                + "`clientctl release withdraw --version \(release.version) --channel \(channel)`.")
    }

    /// Prepares and writes a change of one of `channels`. Slow signers, such as a token, sign before the feed is locked; quick ones sign under
    /// the lock, where no other change can make their draft outdated.
    private func edit(
        _ channels: [String], prepare: (ChannelWriter) throws -> ChannelWriter.PreparedChannel
    ) throws -> ChannelReport {
        try feed.address.requireExists()
        let writer = ChannelWriter(location: feed, options: options)
        let isQuick = options.signers.areQuick
        var report = try feed.change(
            options.wait, channels: isQuick ? [] : channels, draft: { isQuick ? nil : try prepare(writer) }
        ) { drafted in
            try writer.put(try drafted ?? prepare(writer))
        }
        report.writes = dryRun?.writes
        return report
    }

    /// Throws if `version` was never published: a mistyped version would leave the bad release live.
    private func requireKnown(_ version: SemanticVersion, in document: ChannelDocument) throws {
        if document.releases.contains(where: { $0.version == version }) { return }
        if try ReleaseFeed.published(version, in: feed) != nil { return }
        _ = try document.index(of: version)
    }

    package static func requireChannel(_ channel: String, in feed: any FeedLocation) throws {
        if try ChannelWriter.record(of: channel, in: feed) == nil { throw missing(channel, in: feed) }
    }

    private static func missing(_ channel: String, in feed: any FeedLocation) -> UpdateFailure {
        ChannelWriter.missing(
            channel, in: feed,
            create:
                "Create it with `clientctl publish --channel \(channel) --create` or `clientctl release promote --to \(channel) --create`; if "
                + "its file was lost, run `clientctl channel restore`.")
    }
}
