package import BundleCore
package import BundleValues
package import BundleSigning

/// Whether a channel document is as new as it must be: the promises against replay, fast-forward and freeze (SECURITY section
/// 2). A pure rule.
package enum FreshnessRule {
    /// A sequence may grow by so much at once; who has the channel key must not be able to end a channel with one document.
    package static let longestStep = 1 << 20

    /// The answer, and why.
    package enum Freshness: Sendable, Equatable {
        /// Newer than what is remembered, or the same document.
        case fresh
        /// The channel was further on already.
        case wentBack(known: Int)
        /// The sequence is known with other signed bytes.
        case otherBytes
        /// The sequence jumps further than a channel can have come.
        case jumped(known: Int)
        /// Out of date at `now`, the trusted time.
        case expired(now: Timestamp)
    }

    /// Judges `document`, whose signed bytes have the digest `payloadSha256`, by the `known` record of its channel, as far as
    /// that counts; sequence before expiry.
    package static func judge(
        _ document: ChannelDocument, payloadSha256: SHA256Digest, known: FeedMemory.Channel?, now: Timestamp
    ) -> Freshness {
        if let known {
            if document.sequence < known.sequence { return .wentBack(known: known.sequence) }
            if document.sequence == known.sequence, payloadSha256 != known.payloadSha256 { return .otherBytes }
            if document.sequence - known.sequence > longestStep { return .jumped(known: known.sequence) }
        }
        return document.expires <= now ? .expired(now: now) : .fresh
    }
}

/// The time that expiry is measured by. A device's clock may be wrong in either direction: behind, it is corrected by the latest
/// time that was signed and by the age of this program; ahead, no more than new installations stop.
package enum TrustedTime {
    /// This program is not older.
    static let built = Timestamp(clamping: 1_795_305_600)

    /// The latest of the `clock`, what the feed has named in signed documents, and this program's age.
    package static func at(_ clock: Timestamp, _ memory: FeedMemory) -> Timestamp {
        max(clock, memory.clock ?? built, built)
    }

    /// What to do where something has expired at `time` and the machine's clock says `clock`: `renewal`, or mend the clock that
    /// is wrong.
    static func advice(at time: Timestamp, clock: Timestamp, _ renewal: String) -> String {
        if time <= clock { return "It is \(clock) by this machine's clock: \(renewal), or set the clock." }
        if time == built { return "This program was made at \(time), after that: \(renewal)." }
        return
            "Something signed names \(time), so it cannot be earlier: \(renewal). If that time is not reached yet, the clock of a "
            + "publisher was wrong; the guide's page on channels says how devices recover."
    }
}

extension FreshnessRule.Freshness {
    /// The answer as a refusal of `document` on a machine whose clock says `clock`; nil where it is fresh.
    func failure(of document: ChannelDocument, clock: Timestamp) -> UpdateFailure? {
        let name = "channel \(document.channel)"
        return switch self {
        case .fresh: nil
        case .wentBack(let known):
            UpdateFailure(
                .rollbackAttempt, subject: name,
                "The document of \(name) has sequence \(document.sequence), this device has seen \(known): an old one is "
                    + "served. Publish the newest one; a server or cache may hold it back.")
        case .otherBytes:
            UpdateFailure(
                .rollbackAttempt, subject: name,
                "The document of \(name) has sequence \(document.sequence) as the one that this device has seen, but other "
                    + "content: publish the change under a sequence of its own.")
        case .jumped(let known):
            UpdateFailure(
                .manifestMalformed, subject: name,
                "The document of \(name) jumps from sequence \(known) to \(document.sequence), more than "
                    + "\(FreshnessRule.longestStep) at once: replace the channel key, then sign it with a lower one.")
        case .expired(let now):
            UpdateFailure(
                .expired, subject: name,
                "The document of \(name) expired at \(document.expires). "
                    + TrustedTime.advice(at: now, clock: clock, "sign it anew with `clientctl release resign`"))
        }
    }
}
