import BundleFormats
import BundleSigning
import BundleValues

extension ChannelWriter {
    /// A signed channel file that devices would accept. Only `verifySigned` creates one.
    struct SignedChannel {
        let bytes: [UInt8]
        let envelope: SignedEnvelope
        let payloadSha256: SHA256Digest

        fileprivate init(_ bytes: [UInt8], envelope: SignedEnvelope, payloadSha256: SHA256Digest) {
            self.bytes = bytes
            self.envelope = envelope
            self.payloadSha256 = payloadSha256
        }
    }

    /// A channel file that is ready to be written.
    struct PreparedChannel {
        let name: String
        /// The signed file; nil if the channel file stays as it is.
        let file: SignedChannel?
        var report: ChannelReport
        let base: ChannelBase
        /// The change of the feed's `manifest.json`; nil if it stays as it is.
        let newest: NewestManifest.Replacement?
        /// The time of the preparation, which devices will measure the file by.
        let clock: Timestamp

        init(
            name: String, file: SignedChannel?, base: ChannelBase, _ report: ChannelReport,
            in location: any FeedLocation,
            at clock: Timestamp
        ) throws {
            self.name = name
            self.file = file
            self.base = base
            self.clock = clock
            var report = report
            (report.newest, newest) = try NewestManifest.change(
                for: report.document, after: base.document?.document, in: location, at: clock)
            if file == nil { report.outcome = newest == nil ? .unchanged : .completed }
            self.report = report
        }
    }

    /// Prepares the next channel file: `base`, or an empty file for `appId`, with `change` applied. Nothing is
    /// written if `change` returns no changes.
    /// Releases that a guard holds are paused before and after `change`, except `resumed`. A restored file is paused
    /// after it only.
    func prepare(
        _ name: String, creatingFor appId: String?, onto base: ChannelBase, resumed: SemanticVersion? = nil,
        change: (inout ChannelDocument) throws -> [String]
    ) throws -> PreparedChannel {
        let present = base.document
        try requireChannel(name, present: present)
        let issuedAt = self.issuedAt(after: present)
        let unchanged =
            present?.document
            ?? ChannelDocument(
                appId: appId, channel: name, sequence: 0, issuedAt: issuedAt,
                expires: issuedAt.adding(options.lifetime))
        var document = unchanged
        document.sequence = present == nil ? firstSequence ?? 1 : base.taken + 1
        let held = try HoldEditor.judge(unchanged, in: location, trust: options.trust, clock: options.clock)
        var changes = base.isRestored ? [] : try document.apply(held, at: issuedAt)
        changes += try change(&document)
        changes += try document.apply(held.releasing(resumed), at: issuedAt)
        let stillHeld = try resumed.flatMap { try holdWarning(for: $0, in: changes.isEmpty ? unchanged : document) }
        if changes.isEmpty {
            return try PreparedChannel(
                name: name, file: nil, base: base,
                ChannelReport(
                    outcome: .unchanged, document: unchanged, previousSequence: present?.document.sequence, changes: [],
                    warnings: expiryWarnings(unchanged) + [stillHeld].compactMap(\.self)),
                in: location, at: options.clock)
        }
        (document.issuedAt, document.expires) = (issuedAt, issuedAt.adding(options.lifetime))
        return try sign(document, changes: base.losses + changes, onto: base, stillHeld: stillHeld)
    }

    /// Signs `document`, which continues `base` by `changes`, if devices would accept it.
    private func sign(
        _ draft: ChannelDocument, changes: [String], onto base: ChannelBase, stillHeld: String?
    ) throws -> PreparedChannel {
        let (name, present) = (draft.channel, base.document)
        try FeedRecalls(in: location).require(draft, after: present?.document)
        try requirePlausibleTime(of: name, after: present)
        try requireKeptKeys(name, after: base)
        var document = draft
        document.previous = present?.payloadSha256
        let bytes = try options.signers.sign(ChannelFormat.envelope(document)).document
        let known = Set(present?.document.releases.map(\.version) ?? [])
        let size = try ChannelSize.require(
            bytes.count, of: name, adds: !document.releases.allSatisfy { known.contains($0.version) })
        let file = try verifySigned(bytes, of: name, after: present)
        return try PreparedChannel(
            name: name, file: file, base: base,
            ChannelReport(
                outcome: options.isDryRun ? .dryRun : .changed, document: document,
                previousSequence: present?.document.sequence, changes: changes,
                warnings: warnings(after: present, expires: document.expires)
                    + [
                        size, stillHeld, similarityWarning(name, present: present),
                        creationWarning(present: present),
                    ].compactMap(\.self)
                    + document.warnings(after: present?.document, at: options.clock)),
            in: location, at: options.clock)
    }

    /// Returns a warning about a new channel whose name is similar to that of another channel.
    private func similarityWarning(_ name: String, present: VerifiedChannelDocument?) throws -> String? {
        guard present == nil, let other = SimilarWord.closest(to: name, in: try Self.channels(in: location)) else {
            return nil
        }
        return
            "it is new, and the feed already has \(other): no device follows \(name) yet. If it is misspelled, remove it with "
            + "`clientctl channel delete \(name)`."
    }

    /// Returns a warning if a guard's hold still covers `version` in `document`.
    private func holdWarning(for version: SemanticVersion, in document: ChannelDocument) throws -> String? {
        let rule = try HoldEditor.judge(document, in: location, trust: options.trust, clock: options.clock)
        guard rule.isHolding(version) else { return nil }
        return
            "a guard's hold still blocks \(version) on further devices, because it names later sequences than \(document.sequence). See "
            + "\(HoldEditor.path(of: document.channel)); it expires on its own, and `clientctl trust rotate` replaces a stolen guard key"
    }

    // MARK: Time

    /// Returns a time that is never earlier than that of `present`, because devices refuse such a file. If other keys
    /// signed `present`, devices ignore its time.
    private func issuedAt(after present: VerifiedChannelDocument?) -> Timestamp {
        let own = Set(options.signers.map(\.publicKey.id))
        guard let present, present.signers.contains(where: { own.contains($0.id) }) else { return options.issuedAt }
        return max(options.issuedAt, present.document.issuedAt)
    }

    private func requirePlausibleTime(of name: String, after present: VerifiedChannelDocument?) throws {
        if options.isClockAccepted { return }
        let verdict = PublisherClock.judge(
            issuedAt: options.issuedAt, clock: options.clock, before: present?.document.expires)
        if let failure = verdict.failure(of: "channel \(name)", issuedAt: options.issuedAt) { throw failure }
    }

    private func expiryWarnings(_ document: ChannelDocument) -> [String] {
        guard document.expires <= options.clock else { return [] }
        return [
            "its file expired at \(document.expires), so devices install nothing from it. Sign it again with `clientctl channel renew`."
        ]
    }

    private func warnings(after present: VerifiedChannelDocument?, expires: Timestamp) -> [String] {
        guard let before = present?.document.issuedAt, before > options.clock.adding(PublisherClock.tolerance) else {
            return []
        }
        return [
            "this machine's clock says \(options.clock), and the previous channel file was issued at \(before), which devices accept as the "
                + "time: set the clock. If it is right, replace the channel key (guide, page on channels, \"When a publisher's clock was "
                + "wrong\"); the new file is valid until \(expires)"
        ]
    }

    // MARK: Verification

    /// Verifies the signed file as a device would.
    private func verifySigned(
        _ bytes: [UInt8], of name: String, after present: VerifiedChannelDocument?
    ) throws -> SignedChannel {
        let envelope = try ChannelFormat.envelope(parsing: bytes)
        let own = options.signers.trusted
        let verified = try ChannelVerifier.verify(envelope, channel: name, trusted: own)
        do {
            try ChannelVerifier.requireFresh(verified, after: present, trusted: own, now: options.clock)
        } catch let failure as UpdateFailure where failure.code == .expired {
            throw UpdateFailure(
                .expired, subject: failure.subject,
                "Channel \(name) would already be expired (\(verified.document.expires)). Give a longer "
                    + "--expires-in.")
        }
        try FeedTrust(in: location, clock: options.clock)?.require(envelope, channel: name)
        return SignedChannel(bytes, envelope: envelope, payloadSha256: verified.payloadSha256)
    }
}
