package import BundlePublish
package import BundleFormats
import BundleSigning
package import BundleValues

/// Reads a feed for its release page. A damaged or unverified file is shown on the page; a feed that cannot be
/// reached is a failure.
package struct PageReader {
    private let feed: any FeedLocation
    private let trust: TrustAnchor?
    private let clock: Timestamp

    /// Reads `feed` at the time `clock`. Nothing is verified without `trust`.
    package init(_ feed: any FeedLocation, trust: TrustAnchor?, clock: Timestamp) {
        (self.feed, self.trust, self.clock) = (feed, trust, clock)
    }

    /// Returns the content of the page, without reports.
    package func page() throws -> ReleasePage {
        try feed.address.requireExists()
        var page = ReleasePage(clock: clock)
        page.root = try root()
        page.names = try KeyNames(in: feed, trust: trust, clock: clock)
        page.offered = try offered()
        let withDeltas = try withDeltas()
        // Most readers look for the default channel, so it is first.
        let names = try ChannelHistory.channels(in: feed)
        let (first, others) = (
            names.filter { $0 == ChannelFileName.standard }, names.filter { $0 != ChannelFileName.standard }
        )
        page.channels = try (first + others).map { name in
            ReleasePage.ChannelSection(
                name: name, content: try reading { try content(of: name, withDeltas) },
                history: try reading {
                    try ChannelHistory(
                        name, in: feed, newest: PageLimits.mostEntries, trust: trust, clock: clock)
                })
        }
        return page
    }

    // MARK: Documents

    private func root() throws -> ReleasePage.ChannelReading<ReleasePage.Root>? {
        guard let record = try feed.read(FeedTrust.fileName, maximumBytes: TrustRootFormat.maximumBytes) else {
            return nil
        }
        return try reading {
            let found = try TrustRootFormat.parse(record.bytes)
            let claimed = found.envelope.signatures.compactMap(\.keyId)
            return ReleasePage.Root(root: found.claims, proof: try proof(of: found, claimed))
        }
    }

    /// A root is verified with itself or the root before it; other keys do not verify a root.
    private func proof(of found: UnverifiedTrustRoot, _ claimed: [String]) throws -> ReleasePage.Proof {
        guard case .root(let known) = trust else { return .unchecked(claimed: claimed) }
        return try judged(claimed) { _ in
            if found.envelope.payload != (try TrustRootFormat.parse(known.document)).envelope.payload {
                _ = try TrustChain.step(from: known, to: found)
            }
            let keys = found.claims.trusted(for: .root, at: nil).keys.map(\.id)
            return keys.filter(claimed.contains)
        }
    }

    private func offered() throws -> ReleasePage.ChannelReading<ReleasePage.Offer>? {
        let found = try reading { try ReleaseFeed.newest(in: feed) }
        switch found {
        case .unreadable(let why): return .unreadable(why)
        case .read(nil): return nil
        case .read(let manifest?):
            return .read(ReleasePage.Offer(manifest: manifest.claims, proof: try proof(of: manifest)))
        }
    }

    private func content(
        of name: String, _ withDeltas: Set<SemanticVersion>
    ) throws -> ReleasePage.PageContent {
        guard let record = try ChannelWriter.record(of: name, in: feed) else {
            throw UpdateFailure(
                .configInvalid, subject: name,
                "\(ChannelWriter.path(of: name)) is missing. Restore it with `clientctl channel restore`.")
        }
        let envelope = try ChannelFormat.envelope(parsing: record.bytes)
        let claims = try ChannelFormat.parse(envelope).claims
        // An unreadable trust root has its own place on the page.
        let hold = try reading { try HoldEditor.judge(claims, in: feed, trust: trust, clock: clock) }.content ?? .none
        let document = claims.held(by: hold)
        let proof = try judged(envelope.signatures.compactMap(\.keyId)) { trust in
            try ChannelVerifier.verify(envelope, channel: name, trusted: trust.keys(for: .channel, at: clock)).signers
                .map(\.id)
        }
        let sorted = document.releases.sorted { $0.version > $1.version }
        let releases = try sorted.enumerated().map { index, release in
            var shown = ReleasePage.ReleaseRow(
                release: release, proof: try self.proof(of: release.manifest),
                isRecalled: document.recalls(release.version), permille: release.share(at: clock),
                audience: release.audience(at: clock))
            if index < PageLimits.mostFull {
                shown.notes = try ReleaseNotes.text(of: release.manifest.claims, in: feed)
            }
            shown.steps = (release.ramp?.remaining(at: clock) ?? []).map {
                ReleasePage.ReleaseRow.LaterStep(at: $0.at, permille: $0.rollout)
            }
            if case .holds(let versions, _) = hold { shown.isHeld = versions.contains(release.version) }
            if withDeltas.contains(release.version) { shown.deltas = try deltas(of: release.manifest.claims) }
            return shown
        }
        return ReleasePage.PageContent(document: document, proof: proof, releases: releases)
    }

    private func proof(of manifest: UnverifiedManifest) throws -> ReleasePage.Proof {
        try judged(manifest.claims.keyId.map { [$0] } ?? []) { trust in
            try ManifestVerifier.verify(manifest, trusted: trust.keys(for: .release, at: clock)).signers.map(\.id)
        }
    }

    // MARK: Deltas

    /// Returns the versions that have a list of deltas, with one listing: asking for each of hundreds is slow in a
    /// bucket.
    private func withDeltas() throws -> Set<SemanticVersion> {
        Set(
            try feed.list(ReleaseFeed.releasesName).compactMap { entry in
                let parts = entry.name.split(separator: "/")
                guard parts.count == 3, parts[2] == DeltaListFormat.fileName else { return nil }
                return try? SemanticVersion(parsingFolderName: String(parts[1]))
            })
    }

    private func deltas(of manifest: Manifest) throws -> ReleasePage.ChannelReading<[DeltaList.Delta]>? {
        guard let record = try ReleaseFeed.deltas(of: manifest.version, in: feed) else { return nil }
        return try reading {
            let envelope = try DeltaListFormat.envelope(parsing: record.bytes)
            guard let trust else { return try DeltaListFormat.parse(envelope).deltas }
            return try DeltaListFormat.verify(
                envelope, of: manifest, trusted: trust.keys(for: .release, at: clock)
            ).deltas
        }
    }

    // MARK: Damaged files

    private func reading<Content>(_ read: () throws -> Content) throws -> ReleasePage.ChannelReading<Content> {
        do {
            return .read(try read())
        } catch {
            return .unreadable(try flaw(error))
        }
    }

    private func judged(
        _ claimed: [String], _ check: (TrustAnchor) throws -> [String]
    ) throws -> ReleasePage.Proof {
        guard let trust else { return .unchecked(claimed: claimed) }
        do {
            return .verified(keyIds: try check(trust))
        } catch {
            return .refused(reason: try flaw(error), claimed: claimed)
        }
    }

    /// Returns the problem of a file; rethrows a failure of the location.
    private func flaw(_ error: any Error) throws -> String {
        let failure = UpdateFailure(error)
        switch failure.code {
        case .manifestMalformed, .configInvalid, .signatureInvalid, .keyUnknown, .sizeMismatch, .digestMismatch,
            .rollbackAttempt, .appMismatch:
            return failure.message
        default: throw error
        }
    }
}
