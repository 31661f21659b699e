import ArchiveSource
import BundleCore
import BundleValues
import BundleSigning

/// Reads, checks, edits, signs, checks again and writes channel documents. The feed's lock is its owner's.
struct ChannelDesk {
    /// A document that is ready to be written.
    struct Prepared {
        let name: String
        /// nil where nothing is to be written.
        let bytes: [UInt8]?
        fileprivate(set) var report: ChannelReport
        /// What it was made of.
        let base: ChannelBase
        /// The feed's `manifest.json`; nil where it stays as it is.
        let newest: NewestManifest.Step?
        /// The time that it was made at, as devices measure it.
        let clock: Timestamp

        init(
            name: String, bytes: [UInt8]?, base: ChannelBase, _ report: ChannelReport, in place: any FeedPlace,
            at clock: Timestamp
        ) throws {
            self.name = name
            self.bytes = bytes
            self.base = base
            self.clock = clock
            var report = report
            (report.newest, newest) = try NewestManifest.step(report.document, in: place, at: clock)
            if bytes == nil { report.outcome = newest == nil ? .unchanged : .completed }
            self.report = report
        }
    }

    static let folder = "channels"

    let place: any FeedPlace
    let options: ChannelTerms

    /// The copy of the channel's document with that sequence, if what vouches for the document does.
    func copy(of name: String, _ sequence: Int) throws -> VerifiedChannelDocument {
        let path = Self.copyPath(of: name, sequence)
        guard let record = try place.read(path, maximumBytes: ChannelFormat.maximumBytes) else {
            throw UpdateFailure(
                .configInvalid, subject: "channel \(name)",
                "\(place.address)/\(path) is not there: `clientctl release log` lists the copies that are.")
        }
        return try verified(record.bytes, name)
    }

    /// The document in `bytes`, if what vouches for the channel `name` has signed it.
    func verified(_ bytes: [UInt8], _ name: String) throws -> VerifiedChannelDocument {
        let envelope: SignedEnvelope
        do {
            envelope = try ChannelFormat.envelope(parsing: bytes)
            _ = try ChannelFormat.parse(envelope)
        } catch {
            let file = "\(place.address)/\(Self.path(of: name))"
            throw UpdateFailure(
                .manifestMalformed, subject: file,
                "\(file) is damaged. Restore it from a copy: devices accept nothing older than they have seen. "
                    + UpdateFailure(error).message)
        }
        do {
            return try ChannelVerifier.verify(envelope, channel: name, trusted: trusted)
        } catch let failure as UpdateFailure where [.signatureInvalid, .keyUnknown].contains(failure.code) {
            throw UpdateFailure(
                failure.code, subject: "channel \(name)",
                failure.code == .keyUnknown
                    ? Self.signedByOthers(name, envelope) : "\(failure.message) Nothing was changed.")
        }
    }

    /// The keys that vouch for the present document.
    var trusted: TrustedKeys { options.trust?.keys(for: .channel, at: options.clock) ?? options.signers.trusted }

    private static func signedByOthers(_ name: String, _ envelope: SignedEnvelope) -> String {
        let ids = envelope.signatures.compactMap(\.keyId).map { id in
            let shown = UntrustedName.display(id)
            return "\(shown.prefix(12))\(shown.utf8.count > 12 ? "…" : "")"
        }
        let isOne = ids.count == 1
        return "Channel \(name) is signed by \(isOne ? "another key" : "other keys"), \(ids.joined(separator: ", ")). "
            + (isOne
                ? "Sign with that key. If it was replaced, give its public key with --trust."
                : "Sign with those keys. If they were replaced, give their public keys with --trust.")
            + " Nothing was changed."
    }

    /// Refuses a channel that is not there where none may be made, and one that was there: devices would take its first document for
    /// an old one, and new ones would get what it recalled.
    func requirePlace(for name: String, _ present: VerifiedChannelDocument?) throws {
        if present != nil { return }
        if let first = options.firstSequence {
            // The copy of the first document may be there before it.
            guard let last = try ChannelHistory.sequences(of: name, in: place).max(), last > first else { return }
            throw UpdateFailure(
                .configInvalid, subject: "channel \(name)",
                "The feed has copies of channel \(name) up to sequence \(last), so its document was lost: bring it back with "
                    + "`clientctl release restore`. To begin anew, say --sequence \(last + 1) or more.")
        }
        throw UpdateFailure(
            .configInvalid, subject: "channel \(name)",
            "The feed has no channel \(name). Make it with --create if it is new. If its document was lost, restore that, or say with "
                + "--create and --sequence where it goes on: devices take nothing below the sequence that they have seen."
        )
    }

    /// Refuses to create a channel that the feed has.
    func requireNoCreation(of name: String, _ present: VerifiedChannelDocument?) throws {
        guard let sequence = present?.document.sequence, options.firstSequence != nil else { return }
        throw UpdateFailure(
            .configInvalid, subject: "channel \(name)",
            "The feed has a channel \(name), with sequence \(sequence): leave --create out.")
    }

    /// Where the document of the channel `name` is in a feed.
    static func path(of name: String) -> String { "\(folder)/\(ChannelFileName.file(of: name))" }

    /// Where the copy of its document with that sequence stays.
    static func copyPath(of name: String, _ sequence: Int) -> String { "\(folder)/\(name)/\(sequence).json" }

    /// The document of the channel `name`; nil where there is none.
    static func record(of name: String, in place: any FeedPlace) throws -> FeedRecord? {
        guard ChannelFileName.isName(name) else {
            throw UpdateFailure(
                .usage, subject: "channel",
                "--channel takes a channel's name here, 1 to 64 of a to z, 0 to 9, dot, dash and underscore, not "
                    + "\(UntrustedName.display(name)).")
        }
        return try place.read(path(of: name), maximumBytes: ChannelFormat.maximumBytes)
    }

    /// The names of the channels in `place`.
    static func channels(in place: any FeedPlace) throws -> [String] {
        try place.list(folder).map(\.name).sorted().compactMap { path in
            let file = path.dropFirst(folder.utf8.count + 1)
            let name = file.hasSuffix(".json") ? String(file.dropLast(5)) : ""
            return ChannelFileName.isName(name) ? name : nil
        }
    }

    /// The next document: that of `base`, or an empty one for `appId`, with `change` applied. An empty list of changes leaves it as it is.
    /// What a guard holds is paused before and after, unless that is `resumed`; of a restored document, after.
    func prepare(
        _ name: String, creatingFor appId: String?, onto base: ChannelBase, resumed: SemanticVersion? = nil,
        _ change: (inout ChannelDocument) throws -> [String]
    ) throws -> Prepared {
        let present = base.document
        try requirePlace(for: name, present)
        let issuedAt = self.issuedAt(after: present)
        let expires = issuedAt.adding(options.lifetime)
        var document =
            present?.document
            ?? ChannelDocument(appId: appId, channel: name, sequence: 0, issuedAt: issuedAt, expires: expires)
        let held = try HoldDesk.judge(document, in: place, trust: options.trust, clock: options.clock)
        // The number of the document that the changes make.
        let (unchanged, next) = (document, present == nil ? options.firstSequence ?? 1 : base.taken + 1)
        document.sequence = next
        var changes = base.isRestored ? [] : try document.takeIn(held, at: issuedAt)
        changes += try change(&document)
        changes += try document.takeIn(held.releasing(resumed), at: issuedAt)
        let stillHeld = try resumed.flatMap { try holdWarning($0, changes.isEmpty ? unchanged : document) }
        if changes.isEmpty {
            return try Prepared(
                name: name, bytes: nil, base: base,
                ChannelReport(
                    outcome: .unchanged, document: unchanged, previousSequence: present?.document.sequence, changes: [],
                    warnings: expiryWarnings(unchanged) + [stillHeld].compactMap(\.self)),
                in: place, at: options.clock)
        }
        try FeedRecalls(in: place).require(document, after: present?.document)
        try requireNoCreation(of: name, present)
        try requirePlausibleTime(name, present)
        (document.issuedAt, document.expires) = (issuedAt, expires)
        document.previous = present?.payloadSha256
        let bytes = try options.signers.sign(ChannelFormat.envelope(document)).document
        let known = Set(present?.document.releases.map(\.version) ?? [])
        let size = try ChannelSize.require(
            bytes.count, of: name, adds: !document.releases.allSatisfy { known.contains($0.version) })
        try check(bytes, name, after: present)
        return try Prepared(
            name: name, bytes: bytes, base: base,
            ChannelReport(
                outcome: options.isDryRun ? .dryRun : .changed, document: document,
                previousSequence: present?.document.sequence, changes: base.losses + changes,
                warnings: warnings(present, expires) + [size, stillHeld].compactMap(\.self)
                    + document.warnings(after: present?.document, at: options.clock)),
            in: place, at: options.clock)
    }

    /// What the operator should know if a guard's hold still holds `version` in `document`; nil if it does not.
    private func holdWarning(_ version: SemanticVersion, _ document: ChannelDocument) throws -> String? {
        let rule = try HoldDesk.judge(document, in: place, trust: options.trust, clock: options.clock)
        guard rule.isHolding(version) else { return nil }
        return
            "a guard's hold still keeps further devices from \(version), because it names later sequences than \(document.sequence). Look at "
            + "\(HoldDesk.path(of: document.channel)); it ends by itself, and `clientctl trust rotate` replaces a stolen guard's key"
    }

    // MARK: The time

    /// Never earlier than before, for devices do not let time go back, unless with other keys: what replaced ones have signed
    /// counts for nothing then.
    private func issuedAt(after present: VerifiedChannelDocument?) -> Timestamp {
        let own = Set(options.signers.map(\.publicKey.id))
        guard let present, present.signers.contains(where: { own.contains($0.id) }) else { return options.issuedAt }
        return max(options.issuedAt, present.document.issuedAt)
    }

    private func requirePlausibleTime(_ name: String, _ present: VerifiedChannelDocument?) throws {
        if options.isClockChecked { return }
        let verdict = PublisherClock.judge(
            issuedAt: options.issuedAt, clock: options.clock, before: present?.document.expires)
        if let failure = verdict.failure(of: "channel \(name)", issuedAt: options.issuedAt) { throw failure }
    }

    private func expiryWarnings(_ document: ChannelDocument) -> [String] {
        guard document.expires <= options.clock else { return [] }
        return [
            "its document expired at \(document.expires), so devices install nothing by it. Sign it again: clientctl release resign."
        ]
    }

    private func warnings(_ present: VerifiedChannelDocument?, _ expires: Timestamp) -> [String] {
        guard let before = present?.document.issuedAt, before > options.clock.adding(PublisherClock.tolerance) else {
            return []
        }
        return [
            "the document before was issued at \(before), which this machine's clock has not reached; devices take that for the time. "
                + "Unless the clock here is wrong, replace the channel key (guide, page on channels, \"When a publisher's clock was "
                + "wrong\"); this one counts until \(expires)"
        ]
    }

    /// Puts a prepared document in place, and `manifest.json` after it; says what became of them.
    func put(_ prepared: Prepared) throws -> ChannelReport {
        // It may have been prepared before the feed was locked.
        var current = try Prepared(
            name: prepared.name, bytes: prepared.bytes, base: prepared.base, prepared.report, in: place,
            at: prepared.clock)
        if let bytes = current.bytes {
            try FeedTrust(in: place, clock: options.clock)?.require(
                try ChannelFormat.envelope(parsing: bytes), channel: current.name)
            try keep(bytes, of: current)
            try show(bytes, of: current)
            // Without an end, the copies of a channel would grow with the square of its releases.
            let old = current.report.document.sequence - ChannelUpkeep.keptCopies
            if old > 0 { try place.remove(Self.copyPath(of: current.name, old)) }
        } else {
            try place.settle(Self.folder)
        }
        // An unchanged document may be that of a run that was stopped before this.
        if let newest = current.newest {
            try showNewest(newest, of: current)
        } else {
            try place.settle("")
        }
        if !options.isDryRun { remember(&current) }
        return current.report
    }

    /// Stores what is in the feed now as what was signed last. The feed is changed by then, so a failure is a warning.
    private func remember(_ prepared: inout Prepared) {
        do {
            if let bytes = prepared.bytes {
                let envelope = try ChannelFormat.envelope(parsing: bytes)
                let document = prepared.report.document
                try remember(
                    document.sequence, try SHA256Digest.of(envelope.payload), of: document,
                    signers: options.signers.map(\.publicKey.id))
            } else if let seen = prepared.base.document {
                try remember(
                    seen.document.sequence, seen.payloadSha256, of: seen.document, signers: seen.signers.map(\.id))
            }
        } catch {
            prepared.report.warnings.append(
                "what was signed is not remembered here, so the next change cannot be compared with it: "
                    + UpdateFailure(error).message)
        }
    }

    /// Makes the numbered copy of a document, which stays: who signed what, and when. It comes first, so that none is lost.
    private func keep(_ bytes: [UInt8], of prepared: Prepared) throws {
        let path = Self.copyPath(of: prepared.name, prepared.report.document.sequence)
        if try place.create(path, .bytes(bytes)) { return }
        guard let record = try place.read(path, maximumBytes: ChannelFormat.maximumBytes) else {
            throw FeedConflict(path, in: place)
        }
        if record.bytes == bytes { return }
        // Of somebody who was stopped before the document, or is about to replace it. What was signed goes first.
        guard try verified(record.bytes, prepared.name).document.sequence == prepared.report.document.sequence else {
            throw UpdateFailure(
                .manifestMalformed, subject: "\(place.address)/\(path)",
                "\(place.address)/\(path) has another sequence than its name says: somebody put it there by hand. Remove it."
            )
        }
        try place.replace(Self.path(of: prepared.name), with: record.bytes, version: prepared.base.version)
        throw FeedConflict(path, in: place)
    }

    /// Puts a document in the place of the one that it was made of.
    private func show(_ bytes: [UInt8], of prepared: Prepared) throws {
        do {
            try place.replace(Self.path(of: prepared.name), with: bytes, version: prepared.base.version)
        } catch let conflict as FeedConflict {
            // Whoever came upon the copy has put it in place, and may have gone on from there.
            guard let record = try Self.record(of: prepared.name, in: place),
                try record.bytes == bytes
                    || verified(record.bytes, prepared.name).document.sequence > prepared.report.document.sequence
            else { throw conflict }
        }
    }

    /// Puts `manifest.json` in place. Where others cannot be kept out, one who came between may have been misled by it or have replaced it:
    /// then the document that is there by now says what it is to be.
    private func showNewest(_ first: NewestManifest.Step, of prepared: Prepared) throws {
        var (step, bytes) = (Optional(first), try Self.record(of: prepared.name, in: place)?.bytes)
        for _ in 0..<Self.attempts {
            do {
                if let step { try ReleaseFeed.setNewest(step.bytes, in: place, after: step.present) }
                if place.keepsOthersOut { return }
                let now = try Self.record(of: prepared.name, in: place)?.bytes
                if now == bytes { return }
                bytes = now
            } catch is FeedConflict {
                bytes = try Self.record(of: prepared.name, in: place)?.bytes
            }
            guard let bytes else { return }
            step = try NewestManifest.step(
                ChannelFormat.parse(ChannelFormat.envelope(parsing: bytes)).claims, in: place, at: prepared.clock
            ).step
        }
        throw FeedConflict(ReleaseFeed.manifestName, in: place)
    }

    private static let attempts = 6

    // MARK: The devices' check

    /// What no device would take does not leave here.
    private func check(_ bytes: [UInt8], _ name: String, after present: VerifiedChannelDocument?) throws {
        let envelope = try ChannelFormat.envelope(parsing: bytes)
        let own = options.signers.trusted
        let verified = try ChannelVerifier.verify(envelope, channel: name, trusted: own)
        do {
            try ChannelVerifier.requireFresh(verified, after: present, trusted: own, now: options.clock)
        } catch let failure as UpdateFailure where failure.code == .expired {
            throw UpdateFailure(
                .expired, subject: failure.subject,
                "The document of channel \(name) would be expired already (\(verified.document.expires)): give a longer "
                    + "--expires-in.")
        }
        try FeedTrust(in: place, clock: options.clock)?.require(envelope, channel: name)
    }
}

extension Timestamp {
    /// The moment `duration` later, in whole seconds.
    func adding(_ duration: Duration) -> Timestamp {
        Timestamp(clamping: secondsSinceEpoch + Int(clamping: duration.components.seconds))
    }
}
