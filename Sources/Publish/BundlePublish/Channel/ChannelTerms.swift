package import BundleFormats
package import BundleValues

/// The options of a channel edit.
package struct ChannelTerms {
    /// 30 days.
    package static let standardLifetime = Duration.seconds(30 * 86_400)

    /// The signers of the next channel file.
    package var signers: [Signer]
    /// The keys that verify the current channel file; nil for the public keys of all `signers`.
    package var trust: TrustAnchor?
    /// The validity of the next channel file.
    package var lifetime = standardLifetime
    /// The issue time of the next channel file, by this machine's clock.
    package let issuedAt: Timestamp
    private let made = ContinuousClock.now
    /// The current time, which is later than `issuedAt` if a token took long to sign.
    package var clock: Timestamp { issuedAt.adding(ContinuousClock.now - made) }
    /// The sequence that the current channel file must have, 0 for no file; nil for any.
    package var expectedSequence: Int?
    /// The first sequence of a channel that this edit may create; nil if it may not create one. A recreated channel
    /// must start above the sequences that devices have seen.
    package var firstSequence: Int?
    /// Whether the feed has no channel that could be lost, so that the first one is created without `firstSequence`.
    var isFeedNew = false
    /// Whether the operator has checked the clock, so that a jump in time is intended.
    package var isClockAccepted = false
    /// Whether the operator states that every device trusts a key of `signers`, so that a key of the current file need
    /// not sign.
    package var devicesTrustNewKey = false
    /// The memory of the channel files that this publisher signed; nil disables the comparison.
    package var memory: PublisherMemory?
    /// Whether an edit must compare the channel with `memory`. The operator's expected sequence is such a comparison, too.
    package var requiresComparison = false
    /// Whether the operator restored the feed, so that a file older than the last signed one is expected.
    package var isFeedRestored = false
    /// Whether the change waits for more signatures instead of being published.
    package var proposes = false
    /// The longest wait for other publishers.
    package var wait = FeedWait()
    /// Whether the feed stays unchanged.
    package var isDryRun = false

    package init(signers: [Signer], clock: Timestamp = .now) {
        self.signers = signers
        issuedAt = clock
    }
}

/// The result of a channel edit.
package struct ChannelReport: Sendable {
    package enum Outcome: String, Sendable {
        /// The feed has a new channel file.
        case changed
        /// The channel file already contained the change.
        case unchanged
        /// The channel file already contained the change, and `manifest.json` was updated to match it.
        case completed
        /// The change waits in the feed for more signatures.
        case proposed
        /// Nothing was written.
        case dryRun
    }

    package internal(set) var outcome: Outcome
    /// The current channel file, or the next one of a dry run.
    package let document: ChannelDocument
    /// The previous sequence; nil if the channel had no file.
    package let previousSequence: Int?
    /// The changes, in words.
    package let changes: [String]
    /// Warnings for the publisher.
    package internal(set) var warnings: [String] = []
    /// The change of the feed's `manifest.json`.
    package internal(set) var newest = NewestChange.untouched
    /// The proposal that was written or published; nil if there is none.
    package internal(set) var proposal: ProposalNote?
    /// The writes of a dry run, in order; nil otherwise.
    package internal(set) var writes: [FeedWrite]?
}

extension ChannelReport {
    /// A proposal and the signatures that it has with this change.
    package struct ProposalNote: Sendable {
        package let id: String
        /// The start of the ID, which is enough for commands.
        package let shortID: String
        package let keyIds: [String]
        /// The number of signatures that are missing.
        package let missing: Int
    }
}

/// Decides whether the issue time of a new file is plausible. Devices accept the latest signed time as the current
/// time, and only a new key undoes that.
enum PublisherClock: Equatable {
    case plausible
    /// The file is issued in the future of this machine's clock, as a trust root drafted on another machine may be.
    case ahead
    /// The previous file expired long before the issue time.
    case jumps(from: Timestamp)

    /// The largest difference between the clocks of two machines.
    static let tolerance = Duration.seconds(86_400)
    /// A channel is seldom left unsigned for longer; a wrong clock is more likely.
    static let longestSilence = Duration.seconds(30 * 86_400)

    static func judge(issuedAt: Timestamp, clock: Timestamp, before expires: Timestamp?) -> PublisherClock {
        if issuedAt > clock.adding(tolerance) { return .ahead }
        if let expires, issuedAt > expires.adding(longestSilence) { return .jumps(from: expires) }
        return .plausible
    }

    /// Returns the failure for `subject`; nil if its issue time is plausible.
    func failure(of subject: String, issuedAt: Timestamp) -> UpdateFailure? {
        let advice =
            "Devices would accept that as the current time permanently: set the clock, or give --accept-clock if it is right."
        return switch self {
        case .plausible: nil
        case .ahead:
            UpdateFailure(
                .configInvalid, subject: subject,
                "The \(subject) would be issued at \(issuedAt), which is in the future for this machine's clock. "
                    + advice)
        case .jumps(let expires):
            UpdateFailure(
                .configInvalid, subject: subject,
                "The \(subject) would be issued at \(issuedAt), long after its previous file expired at \(expires). "
                    + advice)
        }
    }
}
