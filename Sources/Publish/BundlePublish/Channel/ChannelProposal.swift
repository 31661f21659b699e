package import BundleFormats
import BundleSigning
package import BundleValues

/// A channel file with too few signatures, which waits in `proposals/CHANNEL/SEQUENCE-DIGEST.json` of a feed for another person.
///
/// It has the bytes of the channel file that it becomes. No device accepts it, and no device requests it.
package struct ChannelProposal: Sendable {
    static let folder = "proposals"
    /// The age from which `feed prune` removes proposals.
    package static let longestAge = Duration.seconds(7 * 86_400)
    /// A feed with more is not the work of people.
    private static let most = 100

    /// The path below the feed.
    let path: String
    let version: FeedVersion
    /// The channel of the folder.
    let channel: String
    let envelope: SignedEnvelope
    /// The content, unverified.
    package let document: ChannelDocument
    let payloadSha256: SHA256Digest

    static func path(of channel: String, id: String) -> String { "\(folder)/\(channel)/\(id).json" }

    static func id(_ sequence: Int, _ digest: SHA256Digest) -> String { "\(sequence)-\(digest.hex)" }

    /// The sequence and the digest of the content, so that nobody can approve other content than they have seen.
    package var id: String { Self.id(document.sequence, payloadSha256) }

    /// The start of the ID, for messages.
    package var shortID: String { Self.short(id) }

    fileprivate static func short(_ id: String) -> String {
        let sequence = id.prefix { $0 != "-" }
        return String(id.prefix(sequence.count + 13))
    }

    /// Parses the file at `path`. Throws `manifestMalformed` if it is damaged, and `proposalForeign` if its content belongs elsewhere.
    private init(_ record: FeedRecord, at path: String, of channel: String, in location: any FeedLocation) throws {
        let place = "\(location.address)/\(path)"
        do {
            var envelope = try ChannelFormat.envelope(parsing: record.bytes)
            // Each key counts once, by the ID that stays in the file.
            var keyIds: Set<String> = []
            envelope.signatures.removeAll { $0.keyId.map { !keyIds.insert($0).inserted } ?? true }
            document = try ChannelFormat.parse(envelope).claims
            self.envelope = envelope
        } catch {
            throw UpdateFailure(
                .manifestMalformed, subject: place,
                "The proposal \(place) is damaged. Remove it, and make the change again with --propose. "
                    + UpdateFailure(error).message)
        }
        payloadSha256 = try SHA256Digest.of(envelope.payload)
        (self.path, version, self.channel) = (path, record.version, channel)
        if document.channel != channel {
            throw UpdateFailure(
                .proposalForeign, subject: place,
                "The proposal \(place) is for the channel \(document.channel), not for \(channel). Make the change again with --propose."
            )
        }
        guard path == Self.path(of: channel, id: id) else {
            throw UpdateFailure(
                .manifestMalformed, subject: place,
                "The proposal \(place) has other content than its name states. Remove it, and make the change again with --propose."
            )
        }
    }

    /// A file in the folder of proposals.
    package struct Entry: Sendable {
        let path: String
        let channel: String
        /// The ID in the name of the file.
        let id: String

        /// Returns nil if the file is no proposal.
        init?(_ path: String) {
            let parts = path.split(separator: "/").map(String.init)
            guard parts.count == 3, parts[0] == ChannelProposal.folder, ChannelFileName.isName(parts[1]),
                let id = parts[2].dropping(suffix: ".json"), Self.isID(id)
            else { return nil }
            (self.path, channel, self.id) = (path, parts[1], id)
        }

        private static func isID(_ text: String) -> Bool {
            let parts = text.split(separator: "-", omittingEmptySubsequences: false)
            return parts.count == 2 && Int(parts[0]).map { "\($0)" == parts[0] } == true
                && (try? SHA256Digest(parsingHex: String(parts[1]))) != nil
        }

        /// Returns the time that the proposal states; nil if it cannot be read.
        func made(in location: any FeedLocation) throws -> Timestamp? {
            try location.read(path, maximumBytes: ChannelFormat.maximumBytes).flatMap {
                try? ChannelFormat.document(in: $0.bytes).issuedAt
            }
        }

        /// Reads the proposal; nil if another publisher has removed it.
        func read(in location: any FeedLocation) throws -> ChannelProposal? {
            try location.read(path, maximumBytes: ChannelFormat.maximumBytes).map {
                try ChannelProposal($0, at: path, of: channel, in: location)
            }
        }
    }

    /// Returns the proposals of `channel`, nil for all channels, the newest sequence first.
    static func entries(of channel: String?, in location: any FeedLocation) throws -> [Entry] {
        let found = try location.list(channel.map { "\(folder)/\($0)" } ?? folder).compactMap { Entry($0.name) }
        func sequence(_ entry: Entry) -> Int { Int(entry.id.prefix { $0 != "-" }) ?? 0 }
        return Array(
            found.sorted { (sequence($1), $0.channel, $0.id) < (sequence($0), $1.channel, $1.id) }.prefix(most))
    }

    /// Returns the proposal of `channel` with the ID `text`. If nothing is signed, the start of the ID is enough: another proposal with the
    /// same start can be made, so only the whole ID names the content that a person has read.
    static func find(
        _ text: String, of channel: String, in location: any FeedLocation, byStart: Bool
    ) throws -> ChannelProposal {
        let shown = UntrustedName.display(text)
        func refused(_ problem: String) -> UpdateFailure {
            UpdateFailure(
                .usage, subject: "proposal \(shown)", "\(problem). `clientctl release proposals` lists them.")
        }
        let found = try entries(of: channel, in: location).filter { $0.id.hasPrefix(text) && text.contains("-") }
        if found.count > 1 { throw refused("Several proposals of channel \(channel) begin with \(shown)") }
        if let found = found.first {
            if !byStart, found.id != text {
                throw refused(
                    "\(shown) is only the start of an ID. Give the whole ID of the proposal that you have read")
            }
            // Another person may have approved it in the meantime.
            if let proposal = try found.read(in: location) { return proposal }
        }
        if let sequence = try published(text, of: channel, in: location) {
            throw publishedFailure(shown, of: channel, as: sequence)
        }
        throw refused("Channel \(channel) has no proposal \(shown)")
    }

    fileprivate static func publishedFailure(_ id: String, of channel: String, as sequence: Int) -> UpdateFailure {
        UpdateFailure(
            .proposalOutdated, subject: "proposal \(id)",
            "The proposal \(id) was published as sequence \(sequence) of channel \(channel). Nothing is left to approve."
        )
    }

    /// Returns the sequence of the channel file that the proposal with this ID became; nil if there is none.
    private static func published(_ id: String, of channel: String, in location: any FeedLocation) throws -> Int? {
        guard let sequence = Int(id.prefix { $0 != "-" }), id.contains("-"),
            let copy = try location.read(
                ChannelWriter.copyPath(of: channel, sequence: sequence), maximumBytes: ChannelFormat.maximumBytes),
            let envelope = try? ChannelFormat.envelope(parsing: copy.bytes)
        else { return nil }
        return try Self.id(sequence, SHA256Digest.of(envelope.payload)).hasPrefix(id) ? sequence : nil
    }
}

/// The keys that must sign a channel, as devices of the feed count them.
struct ChannelAuthority {
    /// The channel keys and their threshold.
    let trusted: TrustedKeys
    let rootVersion: Int

    /// Follows the trust root of `trust`. Without one, reads that of the feed, which anyone who can write to the feed can replace. Returns nil
    /// without a trust root: one key is enough then.
    init?(in location: any FeedLocation, trust: TrustAnchor?, clock: Timestamp) throws {
        var root: TrustRoot?
        if case .root? = trust, let trust,
            case .root(let newest) = try NewDevice(following: trust, in: location, clock: clock).anchor
        {
            root = newest.root
        } else {
            root = try FeedTrust(in: location, clock: clock)?.root
        }
        guard let root else { return nil }
        trusted = root.trusted(for: .channel, at: clock)
        rootVersion = root.version
    }

    /// Returns the number of signatures that are missing if `signers` sign. Throws `keyUnknown` if none of them is a channel key.
    func missing(after signers: [Signer]) throws -> Int {
        let count = trusted.count(of: signers)
        if count > 0 { return max(0, trusted.threshold - count) }
        let ids = trusted.keys.map(\.id).joined(separator: " or ")
        throw UpdateFailure(
            .keyUnknown, subject: "trust root \(rootVersion)",
            "Your key is no channel key of trust root \(rootVersion), so its signature would not count. Sign with \(ids)."
        )
    }

    /// Returns the channel keys that signed the proposal. Throws `proposalForeign` if none did, and `signatureInvalid` if a signature does not
    /// match.
    func signers(of proposal: ChannelProposal) throws -> [PublicKey] {
        do {
            return try ChannelVerifier.verify(
                proposal.envelope, channel: proposal.channel, trusted: trusted.requiring(1)
            ).signers
        } catch let failure as UpdateFailure
            where failure.code == .keyUnknown || proposal.envelope.signatures.isEmpty
        {
            throw UpdateFailure(
                .proposalForeign, subject: "proposal \(proposal.shortID)",
                "The proposal \(proposal.shortID) of channel \(proposal.channel) has no signature of a channel key of trust root \(rootVersion). "
                    + "Make the change again with --propose and a channel key.")
        }
    }
}

/// Decides whether a proposal continues a channel file.
enum ProposalRule: Equatable {
    case follows
    /// The proposal is the channel file with this sequence.
    case published(Int)
    /// The channel has this sequence, so the proposal builds on an older file.
    case outdated(Int)
    /// The proposal builds on a file that the channel never had.
    case foreign

    /// Compares a proposal with the file that it should continue, whose digest is `digest`.
    static func judge(
        _ document: ChannelDocument, _ payloadSha256: SHA256Digest, onto present: ChannelDocument?,
        digest: SHA256Digest?
    ) -> ProposalRule {
        if let present, payloadSha256 == digest { return .published(present.sequence) }
        if let present, document.sequence <= present.sequence { return .outdated(present.sequence) }
        if let present, present.appId.map({ Array($0.utf8) }) != document.appId.map({ Array($0.utf8) }) {
            return .foreign
        }
        return document.previous == digest ? .follows : .foreign
    }

    /// Returns the reason why the proposal cannot be approved; nil if it can.
    func failure(of proposal: ChannelProposal, in location: any FeedLocation) -> UpdateFailure? {
        let (id, channel) = (proposal.shortID, proposal.channel)
        switch self {
        case .follows: return nil
        case .published(let sequence):
            return ChannelProposal.publishedFailure(id, of: channel, as: sequence)
        case .outdated(let sequence):
            return UpdateFailure(
                .proposalOutdated, subject: "proposal \(id)",
                "The proposal \(id) builds on an older file: channel \(channel) has sequence \(sequence) by now. Make the change again with "
                    + "--propose.")
        case .foreign:
            return UpdateFailure(
                .proposalForeign, subject: "proposal \(id)",
                "The proposal \(id) does not continue channel \(channel) of \(location.address): it was made for another feed, or for a file "
                    + "that was replaced. Make the change again with --propose.")
        }
    }
}

extension ChannelReport {
    mutating func note(_ id: String, signedBy keyIds: [String], missing: Int) {
        proposal = ProposalNote(id: id, shortID: ChannelProposal.short(id), keyIds: keyIds, missing: missing)
    }
}

extension ChannelWriter {
    /// Adds the signatures of this publisher to a proposal. The result is the next channel file if no signature is missing any longer.
    func prepareApproval(of proposal: ChannelProposal) throws -> PreparedChannel {
        let (name, document, clock) = (proposal.channel, proposal.document, options.clock)
        let base = try proposalBase(of: proposal)
        let present = base.document
        try requireUntouchedHolds(proposal, after: present?.document)
        try requirePlausibleTime(of: name, issuedAt: document.issuedAt, after: present)
        try requireOwnClock(proposal)
        guard case .root? = options.trust else {
            throw UpdateFailure(
                .configInvalid, subject: "trust",
                "Approving needs --trust with the trust root: without it, anyone who can write to the feed could say whose signatures "
                    + "count.")
        }
        guard let authority = try ChannelAuthority(in: location, trust: options.trust, clock: clock) else {
            throw UpdateFailure(
                .configInvalid, subject: "\(location.address)",
                "The feed \(location.address) has no trust root, so one key is enough for its channels. Make the change without --propose."
            )
        }
        _ = try authority.missing(after: options.signers)
        let before = try authority.signers(of: proposal).map(\.id)
        let added = options.signers.filter { signer in
            authority.trusted.keys.contains(signer.publicKey) && !before.contains(signer.publicKey.id)
        }
        if added.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: "proposal \(proposal.shortID)",
                "Your key has signed the proposal \(proposal.shortID) already. Another person must approve it, with another channel key."
            )
        }
        let keyIds = before + added.map(\.publicKey.id)
        let missing = max(0, authority.trusted.threshold - keyIds.count)
        var envelope = proposal.envelope
        // A signature of a key that is not trusted would only take space.
        envelope.signatures.removeAll { signature in signature.keyId.map { !before.contains($0) } ?? true }
        envelope.signatures += try added.map { try $0.signature(of: envelope) }
        if missing == 0 {
            try FeedRecalls(in: location).require(document, after: present?.document)
            try requireKeptKeys(name, after: base, signing: keyIds)
        }
        let bytes = envelope.document
        let size = try ChannelSize.require(bytes.count, of: name, adds: false)
        let file = try verifyApproved(
            bytes, of: proposal, by: authority.trusted.requiring(keyIds.count), after: present, isComplete: missing == 0
        )
        var report = ChannelReport(
            outcome: options.isDryRun ? .dryRun : .changed, document: document,
            previousSequence: present?.document.sequence, changes: document.changes(since: present?.document),
            warnings: document.rampWarnings(at: clock) + [size].compactMap(\.self)
                + document.warnings(after: present?.document, at: clock))
        report.note(proposal.id, signedBy: keyIds, missing: missing)
        return try PreparedChannel(
            name: name, file: file, base: base, report, in: location, at: clock,
            step: missing == 0
                ? .remove(path: proposal.path) : .write(path: proposal.path, version: proposal.version),
            isProposal: missing > 0)
    }

    /// Returns the channel file that the proposal continues. Throws if it continues another one, or if this publisher cannot see whether an
    /// older file was put back.
    private func proposalBase(of proposal: ChannelProposal) throws -> ChannelBase {
        var terms = options
        // The reason why a proposal cannot be approved comes before an unexpected sequence.
        (terms.expectedSequence, terms.firstSequence) = (nil, proposal.document.sequence)
        let writer = ChannelWriter(location: location, options: terms)
        let base = try writer.continuedBase(of: proposal)
        let present = base.document
        if let failure = ProposalRule.judge(
            proposal.document, proposal.payloadSha256, onto: present?.document, digest: present?.payloadSha256
        ).failure(of: proposal, in: location) {
            throw failure
        }
        try requireExpected(present, of: proposal.channel)
        try writer.requireChannel(proposal.channel, present: present)
        return base
    }

    /// Returns the newest copy if the proposal restores the channel from it, or else the channel file.
    private func continuedBase(of proposal: ChannelProposal) throws -> ChannelBase {
        let (name, previous) = (proposal.channel, proposal.document.previous)
        let record = try Self.record(of: name, in: location)
        let shown = try record.flatMap { try? ChannelFormat.envelope(parsing: $0.bytes) }
            .map { try SHA256Digest.of($0.payload) }
        if let previous, shown != previous, try Self.newestCopy(of: name, in: location)?.payloadSha256 == previous {
            return try restoredBase(of: name).0
        }
        return try base(of: name, appId: proposal.document.appId)
    }

    /// Returns the content of the copy with the highest sequence, unverified; nil if there is none, or if it is damaged.
    static func newestCopy(
        of name: String, in location: any FeedLocation
    ) throws -> (document: ChannelDocument, payloadSha256: SHA256Digest)? {
        guard let sequence = try ChannelHistory.sequences(of: name, in: location).last,
            let copy = try location.read(
                copyPath(of: name, sequence: sequence), maximumBytes: ChannelFormat.maximumBytes),
            let envelope = try? ChannelFormat.envelope(parsing: copy.bytes),
            let document = try? ChannelFormat.parse(envelope).claims
        else { return nil }
        return (document, try SHA256Digest.of(envelope.payload))
    }

    /// Throws if the proposal was made ahead of this clock: a hold that follows it could have an earlier time.
    private func requireOwnClock(_ proposal: ChannelProposal) throws {
        guard proposal.document.issuedAt > options.clock.adding(.seconds(300)) else { return }
        throw UpdateFailure(
            .configInvalid, subject: "proposal \(proposal.shortID)",
            "The proposal \(proposal.shortID) was made at \(proposal.document.issuedAt), and this clock says \(options.clock). Correct the wrong "
                + "clock, and make the change again with --propose.")
    }

    /// Throws if a guard has held a release since the proposal was made: a newer channel file would end the hold.
    private func requireUntouchedHolds(_ proposal: ChannelProposal, after present: ChannelDocument?) throws {
        guard let present,
            case .holds(let versions, let since) = try HoldEditor.judge(
                present, in: location, trust: options.trust, clock: options.clock)
        else { return }
        for (version, time) in zip(versions, since) where time > proposal.document.issuedAt {
            guard proposal.document.releases.contains(where: { $0.version == version && !$0.isPaused }) else {
                continue
            }
            throw UpdateFailure(
                .proposalOutdated, subject: "proposal \(proposal.shortID)",
                "A guard holds \(version) since \(time), after the proposal \(proposal.shortID) was made, which would end the hold. Make the "
                    + "change again with --propose.")
        }
    }

    /// Verifies the approved file with the channel keys that signed it.
    private func verifyApproved(
        _ bytes: [UInt8], of proposal: ChannelProposal, by trusted: TrustedKeys,
        after present: VerifiedChannelDocument?, isComplete: Bool
    ) throws -> SignedChannel {
        do {
            return try verifySigned(
                bytes, of: proposal.channel, by: trusted, after: present, isComplete: isComplete)
        } catch let failure as UpdateFailure
            where failure.code == .expired && proposal.document.expires <= options.clock
        {
            throw UpdateFailure(
                .proposalOutdated, subject: "proposal \(proposal.shortID)",
                "The proposal \(proposal.shortID) expired at \(proposal.document.expires). Make the change again with --propose."
            )
        }
    }
}

extension ChannelDocument {
    /// Returns warnings about ramps whose steps have begun since the document was made.
    fileprivate func rampWarnings(at time: Timestamp) -> [String] {
        releases.compactMap { release in
            let (then, now) = (release.share(at: issuedAt), release.share(at: time))
            guard release.ramp != nil, !release.isPaused, now > then else { return nil }
            return
                "\(release.version): its ramp began when the change was proposed, so it starts at \(RolloutPercentage(permille: now))."
        }
    }
}

/// A proposal as people see it.
package struct ProposalReading: Sendable {
    package let id: String
    package let shortID: String
    package let channel: String
    /// The content, unverified; nil if it cannot be read.
    package let document: ChannelDocument?
    /// The channel keys that signed it.
    package let keyIds: [String]
    /// The number of signatures that are missing.
    package let missing: Int
    /// The changes, in words.
    package let changes: [String]
    /// The reason why it cannot be approved; nil if it can.
    package let refusal: UpdateFailure?
}

extension ProposalReading {
    /// Returns the proposals of `channel`, nil for all channels, the newest sequence first.
    package static func all(
        of channel: String?, in location: any FeedLocation, trust: TrustAnchor?, clock: Timestamp
    ) throws -> [ProposalReading] {
        try location.address.requireExists()
        let entries = try ChannelProposal.entries(of: channel, in: location)
        if entries.isEmpty { return [] }
        let authority = try ChannelAuthority(in: location, trust: trust, clock: clock)
        return entries.compactMap { entry in
            do {
                return try entry.read(in: location).map { try reading($0, authority, in: location) }
            } catch {
                // One damaged file hides no other proposal.
                return ProposalReading(
                    id: entry.id, shortID: ChannelProposal.short(entry.id), channel: entry.channel, document: nil,
                    keyIds: [], missing: 0, changes: [], refusal: UpdateFailure(error))
            }
        }
    }

    private static func reading(
        _ proposal: ChannelProposal, _ authority: ChannelAuthority?, in location: any FeedLocation
    ) throws -> ProposalReading {
        let record = try ChannelWriter.record(of: proposal.channel, in: location)
        let envelope = record.flatMap { try? ChannelFormat.envelope(parsing: $0.bytes) }
        var present = envelope.flatMap { try? ChannelFormat.parse($0).claims }
        var digest = try envelope.map { try SHA256Digest.of($0.payload) }
        if digest != proposal.document.previous,
            let copy = try ChannelWriter.newestCopy(of: proposal.channel, in: location),
            copy.payloadSha256 == proposal.document.previous
        {
            (present, digest) = copy
        }
        var refusal = ProposalRule.judge(
            proposal.document, proposal.payloadSha256, onto: present, digest: digest
        ).failure(of: proposal, in: location)
        var keyIds: [String] = []
        do {
            keyIds = try authority?.signers(of: proposal).map(\.id) ?? []
        } catch let failure as UpdateFailure
            where [.signatureInvalid, .proposalForeign].contains(failure.code)
        {
            refusal = failure
        }
        return ProposalReading(
            id: proposal.id, shortID: proposal.shortID, channel: proposal.channel, document: proposal.document,
            keyIds: keyIds, missing: max(0, (authority?.trusted.threshold ?? 1) - keyIds.count),
            changes: proposal.document.changes(since: present), refusal: refusal)
    }
}
