import BundleFormats
import BundleSigning
import BundleValues

/// The state that a channel edit builds on: a file that enough trusted keys have signed, and that is the one this
/// publisher signed last or follows from it. Only `ChannelWriter` creates one.
struct ChannelBase {
    let document: VerifiedChannelDocument?
    /// The version of the file that is replaced; nil if the feed has no such file.
    let version: FeedVersion?
    /// The highest sequence in use; 0 for none.
    let taken: Int
    /// The changes that were lost when the feed was restored, in words.
    let losses: [String]
    /// Whether the document comes from a numbered copy, and its releases are about to be replaced.
    let isRestored: Bool
    /// The key IDs in the signatures of the file, unverified.
    fileprivate(set) var keyIds: [String] = []

    fileprivate init(
        _ document: VerifiedChannelDocument?, version: FeedVersion?, taken: Int, losses: [String],
        isRestored: Bool = false
    ) {
        self.document = document
        self.version = version
        self.taken = taken
        self.losses = losses
        self.isRestored = isRestored
    }
}

/// Decides whether a channel file is the one that this publisher signed last, or follows from it.
enum LineageRule: Equatable {
    /// This publisher has not signed the channel.
    case unknown
    /// The file is the last signed one, or a chain of digests leads from it to that file.
    case follows
    /// The file has a lower sequence, or is missing.
    case older(known: Int)
    /// The file is neither the last signed one nor follows from it.
    case other(known: Int)
    /// Copies between the two files are missing.
    case untraced(known: Int)

    /// The parts of a channel file that form the chain.
    struct LineageLink: Equatable {
        let sequence: Int
        let payloadSha256: SHA256Digest
        /// The digest of the previous file; nil for the first one.
        let previous: SHA256Digest?
    }

    /// Compares `document` with the last `known` one. `copy` returns the numbered copy with a digest and a lower
    /// sequence, if the feed has it.
    static func judge(
        _ document: LineageLink?, known: PublisherMemory.LastSigned?,
        copy: (_ digest: SHA256Digest, _ sequence: Int) throws -> LineageLink?
    ) rethrows -> LineageRule {
        guard let known else { return .unknown }
        guard var link = document, link.sequence >= known.sequence else { return .older(known: known.sequence) }
        while link.sequence > known.sequence {
            guard let digest = link.previous else { return .other(known: known.sequence) }
            if digest == known.payloadSha256 { return .follows }
            if link.sequence == known.sequence + 1 { return .other(known: known.sequence) }
            guard let before = try copy(digest, link.sequence), before.sequence < link.sequence else {
                return .untraced(known: known.sequence)
            }
            link = before
        }
        return link.sequence == known.sequence && link.payloadSha256 == known.payloadSha256
            ? .follows : .other(known: known.sequence)
    }
}

extension VerifiedChannelDocument {
    fileprivate var link: LineageRule.LineageLink {
        .init(sequence: document.sequence, payloadSha256: payloadSha256, previous: document.previous)
    }
}

extension ChannelWriter {
    private static let maximumReads = 6

    /// Returns the base of an edit of the channel `name`. `appId` is the application of a channel that does not exist
    /// yet. Throws if the file is older than, or differs from, the one that this publisher signed last.
    func base(of name: String, appId: String?) throws -> ChannelBase {
        try rereading(name) { record in
            let document = try record.map { try verified($0.bytes, of: name) }
            try requireExpected(document, of: name)
            let known = try known(of: name, document?.document.appId ?? appId, shown: document)
            if document == nil {
                try requireUnknown(name, known: known)
                try requireStatedCreation(of: name)
            }
            var base = try base(from: document, version: record?.version, of: name, known: known)
            base.keyIds = try record.map { try Self.keyIds(ofFile: $0.bytes) } ?? []
            return base
        }
    }

    /// Returns the base of a restore: the copy with the highest sequence, or the channel file if its sequence is as
    /// high. The channel file may be damaged or missing.
    func restoredBase(of name: String) throws -> (ChannelBase, isShown: Bool) {
        try rereading(name) { record in
            let shown = try record.flatMap { record in
                do {
                    return try verified(record.bytes, of: name)
                } catch let failure as UpdateFailure where failure.code == .manifestMalformed {
                    return nil
                }
            }
            guard let sequence = try ChannelHistory.sequences(of: name, in: location).last else {
                throw UpdateFailure(
                    .configInvalid, subject: "channel \(name)",
                    "\(location.address)/\(Self.folder)/\(name) has no copies to restore the channel from. If its file was lost, "
                        + "publish with --create and a --sequence above the last one.")
            }
            let isShown = shown.map { $0.document.sequence >= sequence } ?? false
            let newest = try isShown ? shown : copy(of: name, sequence: sequence)
            try requireExpected(newest, of: name)
            let known = try known(of: name, newest?.document.appId, shown: newest)
            let base = try base(from: newest, version: record?.version, of: name, known: known)
            var restored = ChannelBase(
                base.document, version: base.version, taken: base.taken, losses: base.losses, isRestored: true)
            restored.keyIds =
                try isShown
                ? record.map { try Self.keyIds(ofFile: $0.bytes) } ?? []
                : location.read(Self.copyPath(of: name, sequence: sequence), maximumBytes: ChannelFormat.maximumBytes)
                    .map { try Self.keyIds(ofFile: $0.bytes) } ?? []
            return (restored, isShown)
        }
    }

    /// Repeats `work` if another publisher replaced the file between two reads, which can look like an older file.
    private func rereading<Base>(_ name: String, work: (FeedRecord?) throws -> Base) throws -> Base {
        for _ in 1..<Self.maximumReads {
            let record = try Self.record(of: name, in: location)
            do {
                return try work(record)
            } catch let failure as UpdateFailure where failure.code == .rollbackAttempt {
                if try Self.record(of: name, in: location)?.version == record?.version { throw failure }
            }
        }
        return try work(try Self.record(of: name, in: location))
    }

    private func base(
        from document: VerifiedChannelDocument?, version: FeedVersion?, of name: String,
        known: PublisherMemory.LastSigned?
    ) throws -> ChannelBase {
        let sequence = document?.document.sequence ?? 0
        let ahead = try document.flatMap { try copyAhead(of: $0.link, in: name) }
        let verdict = try document.map { document in
            try LineageRule.judge(document.link, known: known) { try copy(of: name, with: $0, below: $1) }
        }
        let failure =
            verdict.flatMap { self.failure($0, at: sequence, of: name, known: known) }
            ?? ahead.map { behind(at: sequence, copies: $0, of: name) }
        guard let failure else { return ChannelBase(document, version: version, taken: sequence, losses: []) }
        guard options.isFeedRestored else { throw failure }
        let taken = max(sequence, known?.sequence ?? 0, ahead ?? 0)
        return ChannelBase(document, version: version, taken: taken, losses: [Self.loss(at: sequence, taken: taken)])
    }

    private static func loss(at sequence: Int, taken: Int) -> String {
        (taken > sequence
            ? "the feed was restored to sequence \(sequence), and \(taken) was signed before: the changes in between are lost"
            : "the feed was restored to another file than the one signed before: the changes of that one are lost")
            + ". Check recalls, pauses and rollouts with `clientctl channel list`"
    }

    /// Returns the channel file that this publisher signed last; nil if none is recorded.
    private func known(
        of name: String, _ appId: String?, shown: VerifiedChannelDocument?
    ) throws -> PublisherMemory.LastSigned? {
        try options.memory?.last(
            of: .init(appId: appId, channel: name, in: location), trusting: trustedIds, shown: shown?.payloadSha256)
    }

    /// The IDs of the keys that verify the current channel file.
    private var trustedIds: [String] { trusted.keys.map(\.id) }

    /// Records `document` as the file that was signed or accepted last. `hadFile` is whether the channel existed before.
    func remember(
        sequence: Int, digest: SHA256Digest, of document: ChannelDocument, hadFile: Bool, signers: [String]
    ) throws {
        let line = PublisherMemory.Line(appId: document.appId, channel: document.channel, in: location)
        try options.memory?.keep(
            PublisherMemory.LastSigned(
                sequence: sequence, payloadSha256: digest, signers: signers, feed: line.feed),
            of: line, trusting: trustedIds + signers,
            isMoved: hadFile && !options.isFeedRestored)
    }

    /// Records the file that is about to be written, if this publisher has signed none for the channel.
    func intend(_ file: SignedChannel, of document: ChannelDocument) throws {
        if options.isDryRun { return }
        let signers = options.signers.map(\.publicKey.id)
        let line = PublisherMemory.Line(appId: document.appId, channel: document.channel, in: location)
        try options.memory?.intend(
            PublisherMemory.LastSigned(
                sequence: document.sequence, payloadSha256: file.payloadSha256, signers: signers, feed: line.feed),
            of: line, trusting: trustedIds + signers)
    }

    /// Records `present` as the file that was accepted last.
    func remember(_ present: VerifiedChannelDocument) throws {
        try remember(
            sequence: present.document.sequence, digest: present.payloadSha256, of: present.document,
            hadFile: true, signers: present.signers.map(\.id))
    }

    /// A writer without an expected sequence, for a channel that is only read.
    var withoutExpectation: ChannelWriter {
        var options = options
        (options.expectedSequence, options.requiresComparison) = (nil, false)
        return ChannelWriter(location: location, options: options)
    }

    func requireExpected(_ present: VerifiedChannelDocument?, of name: String) throws {
        let sequence = present?.document.sequence ?? 0
        guard let expected = options.expectedSequence, expected != sequence else { return }
        throw UpdateFailure(
            .rollbackAttempt, subject: "channel \(name)",
            "Channel \(name) has sequence \(sequence), not \(expected) as expected: "
                + (sequence < expected ? "an older file was restored. " : "another publisher changed it. ")
                + "Check it with `clientctl channel list`, then try again.")
    }

    /// Throws if a channel would start at or below a sequence that this publisher has signed.
    private func requireUnknown(_ name: String, known: PublisherMemory.LastSigned?) throws {
        guard let known, let first = firstSequence, first <= known.sequence else { return }
        throw UpdateFailure(
            .rollbackAttempt, subject: "channel \(name)",
            "The feed \(location.address) has no channel \(name), but this publisher signed its sequence \(known.sequence) for "
                + "\(known.feed). If its copies are left, restore it with `clientctl channel restore`; otherwise recreate it with --create "
                + "--sequence \(known.sequence + 1).")
    }

    /// Throws if this edit may create a channel and nothing would show that the feed lost its file.
    private func requireStatedCreation(of name: String) throws {
        guard options.requiresComparison, options.memory == nil, options.firstSequence != nil else { return }
        throw UpdateFailure(
            .configInvalid, subject: "channel \(name)",
            "The feed \(location.address) has no channel \(name), and this run stores no publisher state, so it cannot see whether the "
                + "channel was removed. If the channel is new, add --expect-sequence 0.")
    }

    private func incomparable(_ name: String, at sequence: Int) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "channel \(name)",
            "Channel \(name) of \(location.address) has sequence \(sequence), and "
                + (options.memory == nil
                    ? "this run stores no publisher state, so it cannot see whether an older file was put back. Add --expect-sequence "
                        + "with the sequence that the last edit printed; if that is \(sequence), --expect-sequence \(sequence)."
                    : "this machine has not changed the channel before, so it cannot see whether an older file was put back. Compare the "
                        + "sequence with another publisher's, and look for recalls with `clientctl channel list`. If the file is right, add "
                        + "--expect-sequence \(sequence) once."))
    }

    private func failure(
        _ verdict: LineageRule, at sequence: Int, of name: String, known: PublisherMemory.LastSigned?
    ) -> UpdateFailure? {
        let words: String
        switch verdict {
        case .follows: return nil
        case .unknown: return options.requiresComparison ? incomparable(name, at: sequence) : nil
        case .older(let known):
            words =
                "has sequence \(sequence), but this publisher signed \(known): an older file was restored. "
                + "`clientctl channel restore` continues from the newest copy"
        case .other(let known):
            words =
                "with sequence \(sequence) does not follow from the file that this publisher signed as sequence \(known). Compare "
                + "both with `clientctl channel log`"
        case .untraced(let known):
            words =
                "has sequence \(sequence), but some copies between it and \(known), which this publisher signed, are missing. "
                + "Check it with `clientctl channel list`"
        }
        let origin =
            known?.feed == location.address.description
            ? "" : known.map { " It signed that sequence for \($0.feed)." } ?? ""
        return UpdateFailure(
            .rollbackAttempt, subject: "channel \(name)",
            "Channel \(name) of \(location.address) \(words); to build on it as it is, add --feed-was-restored.\(origin)"
        )
    }

    private func behind(at sequence: Int, copies ahead: Int, of name: String) -> UpdateFailure {
        UpdateFailure(
            .rollbackAttempt, subject: "channel \(name)",
            "Channel \(name) of \(location.address) has sequence \(sequence), but its signed copies go up to \(ahead): an older file was "
                + "restored. `clientctl channel restore` continues from the newest copy.")
    }

    // MARK: Keys

    private static func keyIds(ofFile bytes: [UInt8]) throws -> [String] {
        try ChannelFormat.envelope(parsing: bytes).signatures.compactMap(\.keyId)
    }

    /// Throws if a key of the present file would not sign the next one, unless an earlier file already had none of
    /// these keys: devices that trust only such a key would be cut off, from recalls as well.
    func requireKeptKeys(_ name: String, after base: ChannelBase, signing own: [String]) throws {
        guard !options.devicesTrustNewKey, let present = base.document else { return }
        let dropped = Set(base.keyIds).subtracting(own)
        if dropped.isEmpty { return }
        for sequence in try ChannelHistory.sequences(of: name, in: location).reversed()
        where sequence < present.document.sequence {
            let path = Self.copyPath(of: name, sequence: sequence)
            guard let bytes = try location.read(path, maximumBytes: ChannelFormat.maximumBytes)?.bytes,
                let ids = try? Self.keyIds(ofFile: bytes)
            else { continue }
            if dropped.isDisjoint(with: ids) { return }
        }
        let shown = dropped.sorted().map(KeyNames.beginning).joined(separator: " and ")
        throw UpdateFailure(
            .keyUnknown, subject: "channel \(name)",
            "Devices that trust only the key \(shown) would refuse channel \(name) from now on, recalls included: that key signed the "
                + "current file, and would not sign the next one. Sign with that key as well, until every device has the trust root. If "
                + "every device has it, or the new key, add --devices-trust-new-key. Nothing was changed.")
    }

    // MARK: Copies

    /// Returns the highest sequence of the signed copies above `link`; nil if there is none, or if it is the copy of
    /// a publisher that stopped before it wrote the file.
    private func copyAhead(of link: LineageRule.LineageLink, in name: String) throws -> Int? {
        guard let next = try signedCopy(of: name, sequence: link.sequence + 1) else { return nil }
        var highest = next
        while let later = try signedCopy(of: name, sequence: highest.sequence + 1) { highest = later }
        return highest == next && next.previous == link.payloadSha256 ? nil : highest.sequence
    }

    /// Returns the copy with that sequence; nil if trusted keys did not sign it.
    private func signedCopy(of name: String, sequence: Int) throws -> LineageRule.LineageLink? {
        let path = Self.copyPath(of: name, sequence: sequence)
        guard let bytes = try location.read(path, maximumBytes: ChannelFormat.maximumBytes)?.bytes,
            let document = try? verified(bytes, of: name), document.document.sequence == sequence
        else { return nil }
        return document.link
    }

    /// Returns the copy with the digest `digest` and a sequence below `limit`, newest first. Its signatures need no
    /// check, because a signed file contains the digest.
    private func copy(of name: String, with digest: SHA256Digest, below limit: Int) throws -> LineageRule.LineageLink? {
        for sequence in try ChannelHistory.sequences(of: name, in: location).reversed() where sequence < limit {
            let path = Self.copyPath(of: name, sequence: sequence)
            guard let bytes = try location.read(path, maximumBytes: ChannelFormat.maximumBytes)?.bytes,
                let envelope = try? ChannelFormat.envelope(parsing: bytes),
                try SHA256Digest.of(envelope.payload) == digest
            else { continue }
            let claims = try ChannelFormat.parse(envelope).claims
            return .init(sequence: claims.sequence, payloadSha256: digest, previous: claims.previous)
        }
        return nil
    }
}
