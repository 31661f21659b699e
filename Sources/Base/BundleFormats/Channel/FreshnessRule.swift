package import BundleValues
package import BundleSigning

/// Judges whether a channel document is current, against replay, fast-forward and freeze (SECURITY section 2).
package enum FreshnessRule {
    /// The largest step of a sequence. Without a limit, a stolen channel key could end a channel with one document.
    package static let longestStep = 1 << 20

    package enum Freshness: Sendable, Equatable {
        /// The document is newer than the stored one, or the same.
        case fresh
        /// The stored sequence is higher.
        case wentBack(known: Int)
        /// The stored document has the same sequence and different signed bytes.
        case otherBytes
        /// The sequence exceeds the stored one by more than `longestStep`.
        case jumped(known: Int)
        /// The document has expired at `now`, the trusted time.
        case expired(now: Timestamp)
    }

    /// Judges `document`, which has the digest `payloadSha256`, against the `known` record of its channel. Checks the
    /// sequence before the expiry.
    package static func judge(
        _ document: ChannelDocument, payloadSha256: SHA256Digest, known: FeedMemory.ChannelMemory?, now: Timestamp
    ) -> Freshness {
        if let known {
            if document.sequence < known.sequence { return .wentBack(known: known.sequence) }
            if document.sequence == known.sequence, payloadSha256 != known.payloadSha256 { return .otherBytes }
            if document.sequence - known.sequence > longestStep { return .jumped(known: known.sequence) }
        }
        return document.expires <= now ? .expired(now: now) : .fresh
    }
}

/// The time for checks of expiry. A clock that is behind is corrected by the latest signed time and by the build date
/// of this program; a clock that is ahead only stops new installations.
package enum TrustedTime {
    /// The build date of this program.
    static let built = Timestamp(clamping: 1_795_305_600)

    /// Returns the latest of `clock`, the stored signed time and the build date.
    package static func at(_ clock: Timestamp, knowing memory: FeedMemory) -> Timestamp {
        max(clock, memory.clock ?? built, built)
    }

    /// Returns advice for something that expired at `time` while the machine's clock reports `clock`: to do `renewal`,
    /// or to correct the wrong clock.
    static func advice(at time: Timestamp, clock: Timestamp, _ renewal: String) -> String {
        if time <= clock { return "It is \(clock) by this machine's clock: \(renewal), or set the clock." }
        if time == built { return "This program was built later, at \(time): \(renewal)." }
        return
            "A signed document is dated \(time), so it cannot be earlier: \(renewal). If that time is in the future, the clock of "
            + "a publisher was wrong; the guide's page on channels explains how devices recover."
    }
}

extension FreshnessRule.Freshness {
    /// Returns the error for `document` on a machine whose clock reports `clock`; nil if the document is fresh.
    package func failure(of document: ChannelDocument, clock: Timestamp) -> UpdateFailure? {
        let name = "channel \(document.channel)"
        return switch self {
        case .fresh: nil
        case .wentBack(let known):
            UpdateFailure(
                .rollbackAttempt, subject: name,
                "The document of \(name) has sequence \(document.sequence), but this device has seen \(known). Publish the newest "
                    + "document, and check whether a server or cache returns an old one.")
        case .otherBytes:
            UpdateFailure(
                .rollbackAttempt, subject: name,
                "The document of \(name) has sequence \(document.sequence) like the one that this device has seen, but different "
                    + "content. Publish the change with a higher sequence.")
        case .jumped(let known):
            UpdateFailure(
                .manifestMalformed, subject: name,
                "The sequence of \(name) jumps from \(known) to \(document.sequence), by more than "
                    + "\(FreshnessRule.longestStep). Replace the channel key, then sign the document with a lower sequence."
            )
        case .expired(let now):
            UpdateFailure(
                .expired, subject: name,
                "The document of \(name) expired at \(document.expires). "
                    + TrustedTime.advice(at: now, clock: clock, "sign it again with `clientctl channel renew`"))
        }
    }
}
