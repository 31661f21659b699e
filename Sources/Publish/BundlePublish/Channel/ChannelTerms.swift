package import ArchiveSource
import BundleCore
package import BundleValues

/// What changes of a channel document are made with.
package struct ChannelTerms {
    /// 30 days.
    package static let standardLifetime = Duration.seconds(30 * 86_400)

    /// Who signs the next document.
    package var signers: [Signer]
    /// What vouches for the present document; nil for the public halves of `signers`, all of them.
    package var trust: TrustAnchor?
    /// How long the next document counts.
    package var lifetime = standardLifetime
    /// When the next document is issued, by this machine's clock.
    package let issuedAt: Timestamp
    private let made = ContinuousClock.now
    /// The time that devices will measure it by; a token may take long to sign.
    package var clock: Timestamp { issuedAt.adding(ContinuousClock.now - made) }
    /// The sequence that the present document must have, 0 for none; nil for any.
    package var expectedSequence: Int?
    /// The sequence of a channel that is made by this; nil where none may be made. One that was lost would begin again below what
    /// devices have seen.
    package var firstSequence: Int?
    /// Whether somebody has looked at the clock, so that a leap of time is meant.
    package var isClockChecked = false
    /// What was signed last from here; nil to remember nothing.
    package var memory: PublisherMemory?
    /// Whether the operator restored the feed, so that an older document than the one signed last is meant.
    package var isFeedRestored = false
    /// How long others may keep the feed.
    package var wait = FeedWait()
    /// Whether to leave the feed as it is.
    package var isDryRun = false

    /// The options that have no default.
    package init(signers: [Signer], clock: Timestamp = .now) {
        self.signers = signers
        issuedAt = clock
    }
}

/// What became of a channel document.
package struct ChannelReport: Sendable {
    /// What happened.
    package enum Outcome: String, Sendable {
        /// A new document is in the feed.
        case changed
        /// The document says so already; it is what it was.
        case unchanged
        /// The document says so already, and the feed's `manifest.json` was brought up to it.
        case completed
        /// Everything was done but writing.
        case dryRun
    }

    /// What happened.
    package internal(set) var outcome: Outcome
    /// The document as it is now, or would be.
    package let document: ChannelDocument
    /// The sequence before; nil where there was no document.
    package let previousSequence: Int?
    /// What is different now, for people; empty where nothing is.
    package let changes: [String]
    /// What the publisher should check, for people.
    package internal(set) var warnings: [String] = []
    /// What becomes of the feed's `manifest.json`.
    package internal(set) var newest = NewestChange.untouched
    /// What a dry run would write, in order; nil otherwise.
    package internal(set) var writes: [FeedWrite]?
}

/// Whether the time of a new document can be right. Devices take the latest time that was signed for the time it is, and nothing
/// turns that back but another key. A pure rule.
enum PublisherClock: Equatable {
    /// Nothing speaks against it.
    case plausible
    /// The document is issued later than this machine's clock, as a trust root that another machine has drafted may be.
    case ahead
    /// The document before expired long ago, if this is the time.
    case leaps(from: Timestamp)

    /// More than clocks of different machines differ.
    static let tolerance = Duration.seconds(86_400)
    /// A channel that nobody signed anew for so long is seldom; a clock that is wrong is not.
    static let longestSilence = Duration.seconds(30 * 86_400)

    static func judge(issuedAt: Timestamp, clock: Timestamp, before expires: Timestamp?) -> PublisherClock {
        if issuedAt > clock.adding(tolerance) { return .ahead }
        if let expires, issuedAt > expires.adding(longestSilence) { return .leaps(from: expires) }
        return .plausible
    }

    /// The refusal of a document of `subject` that would be issued at `issuedAt`; nil where it can be right.
    func failure(of subject: String, issuedAt: Timestamp) -> UpdateFailure? {
        let advice =
            "Devices would take that for the time it is, for good: set the clock, or give --clock-checked if it is right."
        return switch self {
        case .plausible: nil
        case .ahead:
            UpdateFailure(
                .configInvalid, subject: subject,
                "The document of \(subject) would be issued at \(issuedAt), which this machine's clock has not reached. "
                    + advice)
        case .leaps(let expires):
            UpdateFailure(
                .configInvalid, subject: subject,
                "The \(subject) would be issued at \(issuedAt), and what the feed has before it expired at \(expires). "
                    + advice)
        }
    }
}
