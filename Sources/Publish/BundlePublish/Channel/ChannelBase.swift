import ArchiveSource
import BundleCore
import BundleSigning
import BundleValues

/// What an edit of a channel builds on: a document that enough trusted keys have signed, and that is no older and no other than the one
/// that was signed last from here. Only `ChannelDesk` makes one.
struct ChannelBase {
    /// The document; nil if the feed has none.
    let document: VerifiedChannelDocument?
    /// What the next document replaces; nil if the feed has no file there.
    let version: FeedVersion?
    /// The highest sequence that is taken; 0 for none.
    let taken: Int
    /// What is lost because the feed was restored, for people.
    let losses: [String]
    /// Whether the document comes from a numbered copy, and its releases are about to be replaced.
    let isRestored: Bool

    fileprivate init(
        _ document: VerifiedChannelDocument?, _ version: FeedVersion?, taken: Int, losses: [String],
        isRestored: Bool = false
    ) {
        self.document = document
        self.version = version
        self.taken = taken
        self.losses = losses
        self.isRestored = isRestored
    }
}

/// Whether a channel's document is the one that was signed last from here, or follows from it. A pure rule.
enum LineageRule: Equatable {
    /// Nothing is remembered of the channel.
    case unknown
    /// It is that document, or a chain of digests leads from it to that document.
    case follows
    /// It has a lower sequence, or the feed has none.
    case older(known: Int)
    /// It is another document than the one that was signed last, or follows from another.
    case other(known: Int)
    /// Copies between the two are missing.
    case untraced(known: Int)

    /// A document as the rule sees it.
    struct Link: Equatable {
        let sequence: Int
        let payloadSha256: SHA256Digest
        /// The digest of the document before; nil for the first one.
        let previous: SHA256Digest?
    }

    /// Judges `document` by what is `known`. `copy` returns the numbered copy with a digest, below a sequence, if the feed has it.
    static func judge(
        _ document: Link?, known: PublisherMemory.Entry?,
        copy: (_ digest: SHA256Digest, _ sequence: Int) throws -> Link?
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
    fileprivate var link: LineageRule.Link {
        .init(sequence: document.sequence, payloadSha256: payloadSha256, previous: document.previous)
    }
}

extension ChannelDesk {
    private static let looks = 6

    /// The base of an edit of the channel `name`, of the application `appId` if the feed has no document of it. Throws if the document is
    /// older than what was signed, or another.
    func base(of name: String, appId: String?) throws -> ChannelBase {
        try looking(at: name) { record in
            let document = try record.map { try verified($0.bytes, name) }
            try requireExpected(name, document)
            let known = try known(of: name, document?.document.appId ?? appId)
            if document == nil { try requireUnknown(name, known) }
            return try base(document, record?.version, name, known)
        }
    }

    /// The base of a restored document: the copy with the highest sequence, or what devices are shown if that is no lower. What they are
    /// shown may be damaged, or missing.
    func restoredBase(of name: String) throws -> (ChannelBase, isShown: Bool) {
        try looking(at: name) { record in
            let shown = try record.flatMap { record in
                do {
                    return try verified(record.bytes, name)
                } catch let failure as UpdateFailure where failure.code == .manifestMalformed {
                    return nil
                }
            }
            guard let sequence = try ChannelHistory.sequences(of: name, in: place).last else {
                throw UpdateFailure(
                    .configInvalid, subject: "channel \(name)",
                    "\(place.address)/\(Self.folder)/\(name) has no copies to restore the channel from: if its document was lost, "
                        + "publish with --create and --sequence, above what devices have seen.")
            }
            let isShown = shown.map { $0.document.sequence >= sequence } ?? false
            let newest = try isShown ? shown : copy(of: name, sequence)
            try requireExpected(name, newest)
            let known = try known(of: name, newest?.document.appId)
            let base = try base(newest, record?.version, name, known)
            return (
                ChannelBase(base.document, base.version, taken: base.taken, losses: base.losses, isRestored: true),
                isShown
            )
        }
    }

    /// Repeats `work` where another publisher replaced the document between two looks, which would look like an older document.
    private func looking<Answer>(at name: String, _ work: (FeedRecord?) throws -> Answer) throws -> Answer {
        for _ in 1..<Self.looks {
            let record = try Self.record(of: name, in: place)
            do {
                return try work(record)
            } catch let failure as UpdateFailure where failure.code == .rollbackAttempt {
                if try Self.record(of: name, in: place)?.version == record?.version { throw failure }
            }
        }
        return try work(try Self.record(of: name, in: place))
    }

    private func base(
        _ document: VerifiedChannelDocument?, _ version: FeedVersion?, _ name: String, _ known: PublisherMemory.Entry?
    ) throws -> ChannelBase {
        let sequence = document?.document.sequence ?? 0
        let ahead = try document.flatMap { try copyAhead(of: $0.link, name) }
        let verdict = try document.map { document in
            try LineageRule.judge(document.link, known: known) { try copy(of: name, with: $0, below: $1) }
        }
        let failure =
            verdict.flatMap { self.failure($0, sequence, name, known) } ?? ahead.map { behind(sequence, $0, name) }
        guard let failure else { return ChannelBase(document, version, taken: sequence, losses: []) }
        guard options.isFeedRestored else { throw failure }
        let taken = max(sequence, known?.sequence ?? 0, ahead ?? 0)
        return ChannelBase(document, version, taken: taken, losses: [Self.loss(sequence, taken)])
    }

    private static func loss(_ sequence: Int, _ taken: Int) -> String {
        (taken > sequence
            ? "the feed was restored to sequence \(sequence), and \(taken) was signed before: what changed in between is lost"
            : "the feed was restored to another document than the one signed before: what that one changed is lost")
            + ". Check recalls, pauses and rollouts with `clientctl release list`"
    }

    /// The document that was signed last from here; nil if nothing is remembered.
    private func known(of name: String, _ appId: String?) throws -> PublisherMemory.Entry? {
        try options.memory?.last(of: .init(appId: appId, channel: name), trusting: vouching)
    }

    /// The ids of the keys that vouch for the present document.
    private var vouching: [String] { trusted.keys.map(\.id) }

    /// Remembers `document` as the one that was signed last, or accepted.
    func remember(_ sequence: Int, _ digest: SHA256Digest, of document: ChannelDocument, signers: [String]) throws {
        try options.memory?.keep(
            PublisherMemory.Entry(
                sequence: sequence, payloadSha256: digest, signers: signers, feed: place.address),
            of: .init(appId: document.appId, channel: document.channel), trusting: vouching + signers)
    }

    /// The same desk for a channel that is only read: an expected sequence is that of the channel that is changed.
    var withoutExpectation: ChannelDesk {
        var options = options
        options.expectedSequence = nil
        return ChannelDesk(place: place, options: options)
    }

    private func requireExpected(_ name: String, _ present: VerifiedChannelDocument?) throws {
        let sequence = present?.document.sequence ?? 0
        guard let expected = options.expectedSequence, expected != sequence else { return }
        throw UpdateFailure(
            .rollbackAttempt, subject: "channel \(name)",
            "Channel \(name) has sequence \(sequence), not \(expected) as expected: "
                + (sequence < expected ? "an older document was put back. " : "another publisher changed it. ")
                + "Look at it with `clientctl release list`, then try again.")
    }

    /// Refuses to begin a channel below what was signed for it.
    private func requireUnknown(_ name: String, _ known: PublisherMemory.Entry?) throws {
        guard let known, let first = options.firstSequence, first <= known.sequence else { return }
        throw UpdateFailure(
            .rollbackAttempt, subject: "channel \(name)",
            "The feed \(place.address) has no channel \(name), and this publisher signed its sequence \(known.sequence) for "
                + "\(known.feed). `clientctl release restore` brings it back, --sequence \(known.sequence + 1) begins it above that, and a "
                + "--publisher-state of its own is for another feed.")
    }

    private func failure(
        _ verdict: LineageRule, _ sequence: Int, _ name: String, _ known: PublisherMemory.Entry?
    ) -> UpdateFailure? {
        let words: String
        switch verdict {
        case .unknown, .follows: return nil
        case .older(let known):
            words =
                "has sequence \(sequence), and this publisher signed \(known): an older document was put back. "
                + "`clientctl release restore` goes on from the newest copy"
        case .other(let known):
            words =
                "with sequence \(sequence) does not follow from the document that this publisher signed as sequence \(known). Look at "
                + "both with `clientctl release log`"
        case .untraced(let known):
            words =
                "has sequence \(sequence), and the copies that lead to it from \(known), which this publisher signed, are not all there. "
                + "Look at it with `clientctl release list`"
        }
        let isSameFeed = known?.feed == place.address
        return UpdateFailure(
            .rollbackAttempt, subject: "channel \(name)",
            "Channel \(name) of \(place.address) \(words); to build on it as it is, add --feed-was-restored"
                + (isSameFeed ? "." : "; if it is another feed, give it a --publisher-state of its own."))
    }

    private func behind(_ sequence: Int, _ ahead: Int, _ name: String) -> UpdateFailure {
        UpdateFailure(
            .rollbackAttempt, subject: "channel \(name)",
            "Channel \(name) of \(place.address) has sequence \(sequence), and its signed copies go up to \(ahead): an older document was "
                + "put back. `clientctl release restore` goes on from the newest copy.")
    }

    // MARK: Copies

    /// The highest sequence of a signed copy above `link`; nil if there is none, or if it is the one that a publisher made who was stopped
    /// before the document.
    private func copyAhead(of link: LineageRule.Link, _ name: String) throws -> Int? {
        guard let next = try signedCopy(of: name, link.sequence + 1) else { return nil }
        var highest = next
        while let later = try signedCopy(of: name, highest.sequence + 1) { highest = later }
        return highest == next && next.previous == link.payloadSha256 ? nil : highest.sequence
    }

    /// The copy with that sequence, if what vouches for the channel has signed it.
    private func signedCopy(of name: String, _ sequence: Int) throws -> LineageRule.Link? {
        let path = Self.copyPath(of: name, sequence)
        guard let bytes = try place.read(path, maximumBytes: ChannelFormat.maximumBytes)?.bytes,
            let document = try? verified(bytes, name), document.document.sequence == sequence
        else { return nil }
        return document.link
    }

    /// The copy below `limit` whose signed bytes have that digest; the one before `limit` is tried first. Its signatures need no check: a
    /// signed document names the digest.
    private func copy(of name: String, with digest: SHA256Digest, below limit: Int) throws -> LineageRule.Link? {
        for sequence in try ChannelHistory.sequences(of: name, in: place).reversed() where sequence < limit {
            let path = Self.copyPath(of: name, sequence)
            guard let bytes = try place.read(path, maximumBytes: ChannelFormat.maximumBytes)?.bytes,
                let envelope = try? ChannelFormat.envelope(parsing: bytes),
                try SHA256Digest.of(envelope.payload) == digest
            else { continue }
            let claims = try ChannelFormat.parse(envelope).claims
            return .init(sequence: claims.sequence, payloadSha256: digest, previous: claims.previous)
        }
        return nil
    }
}
