import BundleFormats
import BundleSigning
import BundleValues

/// Reads, verifies, edits, signs and writes channel files. The caller holds the lock of the feed while it calls
/// `put`.
package struct ChannelWriter {
    static let folder = "channels"

    let location: any FeedLocation
    let options: ChannelTerms

    /// Returns the numbered copy of the channel file `name`. Throws if the trusted keys did not sign it.
    func copy(of name: String, sequence: Int) throws -> VerifiedChannelDocument {
        let path = Self.copyPath(of: name, sequence: sequence)
        guard let record = try location.read(path, maximumBytes: ChannelFormat.maximumBytes) else {
            throw UpdateFailure(
                .configInvalid, subject: "channel \(name)",
                "\(location.address)/\(path) does not exist. `clientctl channel log` lists the copies.")
        }
        return try verified(record.bytes, of: name)
    }

    /// Parses and verifies the channel file of `name` in `bytes`. Throws if the trusted keys did not sign it.
    func verified(_ bytes: [UInt8], of name: String) throws -> VerifiedChannelDocument {
        do {
            let envelope = try ChannelFormat.envelope(parsing: bytes)
            do {
                return try ChannelVerifier.verify(envelope, channel: name, trusted: trusted)
            } catch let failure as UpdateFailure where [.signatureInvalid, .keyUnknown].contains(failure.code) {
                // Damaged bytes have no valid signature either, but their remedy is another one.
                _ = try ChannelFormat.parse(envelope)
                throw UpdateFailure(
                    failure.code, subject: "channel \(name)",
                    failure.code == .keyUnknown
                        ? Self.unknownKeys(of: name, envelope) : "\(failure.message) Nothing was changed.")
            }
        } catch let refusal as DocumentRefusal {
            let file = "\(location.address)/\(Self.path(of: name))"
            throw UpdateFailure(
                .manifestMalformed, subject: file,
                "\(file) is damaged. Restore it from a copy: devices accept nothing older than they have seen. "
                    + UpdateFailure(refusal).message)
        }
    }

    /// The keys that verify the current channel file.
    var trusted: TrustedKeys { options.trust?.keys(for: .channel, at: options.clock) ?? options.signers.trusted }

    private static func unknownKeys(of name: String, _ envelope: SignedEnvelope) -> String {
        let ids = envelope.signatures.compactMap(\.keyId).map(KeyNames.beginning)
        let isOne = ids.count == 1
        return "Channel \(name) is signed by \(isOne ? "another key" : "other keys"), \(ids.joined(separator: ", ")). "
            + (isOne
                ? "Sign with that key. If it was replaced, give its public key with --trust."
                : "Sign with those keys. If they were replaced, give their public keys with --trust.")
            + " Nothing was changed."
    }

    /// The first sequence of a channel that may be created; nil if none may be.
    var firstSequence: Int? { options.firstSequence ?? (options.isFeedNew ? 1 : nil) }

    /// Throws if the channel does not exist and may not be created, or if it existed and its file was lost: devices
    /// would refuse the first file as an older one, and new devices would install recalled releases.
    func requireChannel(_ name: String, present: VerifiedChannelDocument?) throws {
        if present != nil { return }
        if let first = firstSequence {
            // The copy of the first channel file is written before the file itself.
            guard let last = try ChannelHistory.sequences(of: name, in: location).max(), last > first else { return }
            throw UpdateFailure(
                .configInvalid, subject: "channel \(name)",
                "The feed has copies of channel \(name) up to sequence \(last), so the channel file was lost. Restore it with "
                    + "`clientctl channel restore`, or recreate it with --sequence \(last + 1) or higher.")
        }
        throw Self.missing(
            name, in: location,
            create:
                "Create it with --create. If its file was lost, restore it, or recreate it with --create and a --sequence above the last "
                + "one: devices reject lower sequences.")
    }

    /// Returns the failure of a command about the channel `name`, which the feed does not have. `create` is the advice
    /// if no other channel has a similar name.
    static func missing(_ name: String, in location: any FeedLocation, create: String) -> UpdateFailure {
        let others = (try? channels(in: location)) ?? []
        let known = others.isEmpty ? "" : "; it has \(others.joined(separator: ", "))"
        let advice =
            SimilarWord.closest(to: name, in: others).map { "Did you mean \($0)? --create creates a new channel." }
            ?? create
        return UpdateFailure(
            .configInvalid, subject: "channel \(name)",
            "The feed \(location.address) has no channel \(name)\(known). \(advice)")
    }

    /// Returns a warning if the caller asked to create a channel that exists.
    private func creationWarning(present: VerifiedChannelDocument?) -> String? {
        guard let sequence = present?.document.sequence, options.firstSequence != nil else { return nil }
        return "it already exists, with sequence \(sequence), so --create had no effect"
    }

    /// Returns the path of the channel file of `name` in a feed.
    package static func path(of name: String) -> String { "\(folder)/\(ChannelFileName.file(of: name))" }

    /// Returns the path of the numbered copy of a channel file.
    static func copyPath(of name: String, sequence: Int) -> String { "\(folder)/\(name)/\(sequence).json" }

    /// Returns the channel file of `name`, unverified; nil if the feed has none.
    package static func record(of name: String, in location: any FeedLocation) throws -> FeedRecord? {
        guard ChannelFileName.isName(name) else {
            throw UpdateFailure(
                .usage, subject: "channel",
                "--channel must be a name of 1 to 64 characters from a to z, 0 to 9, dot, dash and underscore, not "
                    + "\(UntrustedName.display(name)).")
        }
        return try location.read(path(of: name), maximumBytes: ChannelFormat.maximumBytes)
    }

    /// Returns the names of the channels in a feed, sorted.
    static func channels(in location: any FeedLocation) throws -> [String] {
        try location.list(folder).map(\.name).sorted().compactMap { path in
            let file = path.dropFirst(folder.utf8.count + 1)
            let name = file.hasSuffix(".json") ? String(file.dropLast(5)) : ""
            return ChannelFileName.isName(name) ? name : nil
        }
    }
}

extension Timestamp {
    func adding(_ duration: Duration) -> Timestamp {
        Timestamp(clamping: secondsSinceEpoch + Int(clamping: duration.components.seconds))
    }
}

extension ChannelWriter {
    /// A signed channel file that devices would accept, or accept with more signatures. Only `verifySigned` creates one.
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

    /// What happens to the file of a proposal.
    enum ProposalStep {
        /// It is created, or replaces the one that was read as `version`.
        case write(path: String, version: FeedVersion?)
        /// It is removed, because its content is published.
        case remove(path: String)
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
        /// The proposal that it is or was; nil if there is none.
        let step: ProposalStep?

        init(
            name: String, file: SignedChannel?, base: ChannelBase, _ report: ChannelReport,
            in location: any FeedLocation, at clock: Timestamp, step: ProposalStep? = nil, isProposal: Bool = false
        ) throws {
            self.name = name
            self.file = file
            self.base = base
            self.clock = clock
            self.step = step
            var report = report
            if isProposal {
                newest = nil
            } else {
                (report.newest, newest) = try NewestManifest.change(
                    for: report.document, after: base.document?.document, in: location, at: clock)
            }
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
                in: location, at: options.clock, isProposal: options.proposes)
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
        try requirePlausibleTime(of: name, issuedAt: options.issuedAt, after: present)
        let missing = try missingSignatures(of: name)
        // Too few signatures are refused below, by a message that names --propose.
        let authority = try ChannelAuthority(in: location, trust: options.trust, clock: options.clock)
        if missing == 0, (try? authority?.missing(after: options.signers)) ?? 0 == 0 {
            try requireKeptKeys(name, after: base, signing: options.signers.map(\.publicKey.id))
        }
        var document = draft
        document.previous = present?.payloadSha256
        let bytes = try options.signers.sign(ChannelFormat.envelope(document)).document
        let known = Set(present?.document.releases.map(\.version) ?? [])
        let size = try ChannelSize.require(
            bytes.count, of: name, adds: !document.releases.allSatisfy { known.contains($0.version) })
        let file = try verifySigned(
            bytes, of: name, by: options.signers.trusted, after: present, isComplete: missing == 0)
        var report = ChannelReport(
            outcome: options.isDryRun ? .dryRun : .changed, document: document,
            previousSequence: present?.document.sequence, changes: changes,
            warnings: try warnings(after: present, expires: document.expires)
                + [
                    size, stillHeld, similarityWarning(name, present: present),
                    creationWarning(present: present),
                ].compactMap(\.self)
                + document.warnings(after: present?.document, at: options.clock))
        var step: ProposalStep?
        if missing > 0 {
            let id = ChannelProposal.id(document.sequence, file.payloadSha256)
            report.note(id, signedBy: options.signers.map(\.publicKey.id), missing: missing)
            step = .write(path: ChannelProposal.path(of: name, id: id), version: nil)
        }
        return try PreparedChannel(
            name: name, file: file, base: base, report, in: location, at: options.clock, step: step,
            isProposal: options.proposes)
    }

    /// Returns the number of signatures that a proposal lacks; 0 for a change that is published. Throws if the signers could publish it.
    private func missingSignatures(of name: String) throws -> Int {
        guard options.proposes else { return 0 }
        let missing =
            try ChannelAuthority(in: location, trust: options.trust, clock: options.clock)?
            .missing(after: options.signers) ?? 0
        if missing > 0 { return missing }
        throw UpdateFailure(
            .usage, subject: "propose",
            "Your keys are enough to publish a change of channel \(name), so nobody has to approve it. Leave out --propose."
        )
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

    func requirePlausibleTime(of name: String, issuedAt: Timestamp, after present: VerifiedChannelDocument?) throws {
        if options.isClockAccepted { return }
        let verdict = PublisherClock.judge(
            issuedAt: issuedAt, clock: options.clock, before: present?.document.expires)
        if let failure = verdict.failure(of: "channel \(name)", issuedAt: issuedAt) { throw failure }
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

    /// Verifies the signed file as a device would. Devices refuse one that is not complete for its missing signatures alone.
    func verifySigned(
        _ bytes: [UInt8], of name: String, by trusted: TrustedKeys, after present: VerifiedChannelDocument?,
        isComplete: Bool
    ) throws -> SignedChannel {
        let envelope = try ChannelFormat.envelope(parsing: bytes)
        let verified = try ChannelVerifier.verify(envelope, channel: name, trusted: trusted)
        do {
            try ChannelVerifier.requireFresh(verified, after: present, trusted: trusted, now: options.clock)
        } catch let failure as UpdateFailure where failure.code == .expired {
            throw UpdateFailure(
                .expired, subject: failure.subject,
                "Channel \(name) would already be expired (\(verified.document.expires)). Give a longer "
                    + "--expires-in.")
        }
        if isComplete { try requireAcceptance(of: envelope, channel: name) }
        return SignedChannel(bytes, envelope: envelope, payloadSha256: verified.payloadSha256)
    }
}

extension ChannelWriter {
    /// Throws if devices that follow the feed's trust root would refuse the file.
    private func requireAcceptance(of envelope: SignedEnvelope, channel name: String) throws {
        do {
            try FeedTrust(in: location, clock: options.clock)?.require(envelope, channel: name)
        } catch let failure as UpdateFailure where failure.code == .signatureInvalid {
            throw UpdateFailure(
                failure.code, subject: failure.subject,
                "\(failure.message) With --propose, where the command has it, the change waits in the feed for another person."
            )
        }
    }

    /// Writes a prepared channel file, then `manifest.json`; or a proposal.
    func put(_ prepared: PreparedChannel) throws -> ChannelReport {
        if case .write(let path, let version)? = prepared.step, let file = prepared.file {
            return try propose(file, at: path, replacing: version, prepared.report)
        }
        if options.proposes { return prepared.report }
        // The feed may have changed between the preparation and its lock.
        var current = try PreparedChannel(
            name: prepared.name, file: prepared.file, base: prepared.base, prepared.report, in: location,
            at: prepared.clock, step: prepared.step)
        if let file = current.file {
            try requireAcceptance(of: file.envelope, channel: current.name)
            try intend(file, of: current.report.document)
            try writeCopy(file.bytes, of: current)
            try replaceFile(with: file.bytes, of: current)
            // Keeping every copy would let a feed grow with the square of its releases.
            let old = current.report.document.sequence - ChannelUpkeep.keptCopies
            if old > 0 { try location.remove(Self.copyPath(of: current.name, sequence: old)) }
        }
        // A previous run may have stopped before it wrote `manifest.json`.
        if let newest = current.newest { try writeNewest(newest, of: current) }
        if case .remove(let path)? = current.step { try location.remove(path) }
        if !options.isDryRun { remember(&current) }
        return current.report
    }

    /// Writes a proposal. This publisher does not remember it as signed, because the channel may never have it.
    private func propose(
        _ file: SignedChannel, at path: String, replacing version: FeedVersion?, _ report: ChannelReport
    ) throws -> ChannelReport {
        var report = report
        if !options.isDryRun { report.outcome = .proposed }
        if let version {
            try location.replace(path, with: file.bytes, version: version)
        } else if try !location.create(path, with: .bytes(file.bytes)),
            try location.read(path, maximumBytes: ChannelFormat.maximumBytes)?.bytes != file.bytes
        {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "Another person proposed the same change at the same time. Approve it: `clientctl release approve "
                    + "\(report.proposal?.id ?? "") --channel \(report.document.channel)`.")
        }
        return report
    }

    /// Stores the current channel file as the last one that this publisher signed. The feed has changed by now, so a
    /// failure is a warning.
    private func remember(_ prepared: inout PreparedChannel) {
        do {
            if let file = prepared.file {
                let document = prepared.report.document
                try remember(
                    sequence: document.sequence, digest: file.payloadSha256, of: document,
                    hadFile: prepared.base.document != nil, signers: options.signers.map(\.publicKey.id))
            } else if let seen = prepared.base.document {
                try remember(seen)
            }
        } catch {
            prepared.report.warnings.append(
                "the signed file could not be recorded on this machine, so the next change cannot be compared with it: "
                    + UpdateFailure(error).message)
        }
    }

    /// Writes the numbered copy of a channel file, which records who signed what. It is written before the file, so
    /// that no signed file is lost.
    private func writeCopy(_ bytes: [UInt8], of prepared: PreparedChannel) throws {
        let path = Self.copyPath(of: prepared.name, sequence: prepared.report.document.sequence)
        if try location.create(path, with: .bytes(bytes)) { return }
        guard let record = try location.read(path, maximumBytes: ChannelFormat.maximumBytes) else {
            throw FeedConflict(path, in: location)
        }
        if record.bytes == bytes { return }
        // Another publisher wrote the copy and stopped, or is about to write the file. Its signed copy goes first.
        guard try verified(record.bytes, of: prepared.name).document.sequence == prepared.report.document.sequence
        else {
            throw UpdateFailure(
                .manifestMalformed, subject: "\(location.address)/\(path)",
                "\(location.address)/\(path) contains a sequence that differs from its name. It was placed there by hand: remove it."
            )
        }
        try location.replace(Self.path(of: prepared.name), with: record.bytes, version: prepared.base.version)
        throw FeedConflict(path, in: location)
    }

    /// Replaces the channel file that `prepared` was made from.
    private func replaceFile(with bytes: [UInt8], of prepared: PreparedChannel) throws {
        do {
            try location.replace(Self.path(of: prepared.name), with: bytes, version: prepared.base.version)
        } catch let conflict as FeedConflict {
            // Another publisher that found the copy may have written the file, and newer ones after it.
            guard let record = try Self.record(of: prepared.name, in: location),
                try record.bytes == bytes
                    || verified(record.bytes, of: prepared.name).document.sequence > prepared.report.document.sequence
            else { throw conflict }
        }
    }

    /// Writes or removes `manifest.json`. Where other publishers are not locked out, one of them may have replaced it or followed it: the
    /// current channel file then decides.
    private func writeNewest(_ first: NewestManifest.Replacement, of prepared: PreparedChannel) throws {
        var next = Optional(first)
        var bytes = try Self.record(of: prepared.name, in: location)?.bytes
        // A removal cannot be conditional, so it follows the current channel file.
        if first.bytes == nil, let bytes { next = try newest(after: prepared, by: bytes) }
        for _ in 0..<Self.attempts {
            do {
                if let next { try write(next) }
                let now = try Self.record(of: prepared.name, in: location)?.bytes
                if now == bytes { return }
                bytes = now
            } catch is FeedConflict {
                bytes = try Self.record(of: prepared.name, in: location)?.bytes
            }
            guard let bytes else { return }
            next = try newest(after: prepared, by: bytes)
        }
        throw FeedConflict(ReleaseFeed.manifestName, in: location)
    }

    private func write(_ next: NewestManifest.Replacement) throws {
        if let bytes = next.bytes { return try ReleaseFeed.setNewest(bytes, in: location, after: next.present) }
        try location.remove(ReleaseFeed.manifestName)
    }

    /// Returns the change of `manifest.json` that the channel file `bytes` causes.
    private func newest(after prepared: PreparedChannel, by bytes: [UInt8]) throws -> NewestManifest.Replacement? {
        try NewestManifest.change(
            for: ChannelFormat.document(in: bytes),
            after: prepared.base.document?.document, in: location, at: prepared.clock
        ).next
    }

    private static let attempts = 6
}
