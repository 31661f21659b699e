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
    /// When it is signed.
    package var issuedAt: Timestamp
    /// The time that devices will measure it by.
    package var clock: Timestamp
    /// The sequence that the present document must have, 0 for none; nil for any.
    package var expectedSequence: Int?
    /// The sequence of a channel that is made by this; nil where none may be made. One that was lost would begin again below what
    /// devices have seen.
    package var firstSequence: Int?
    /// Whether to leave the feed as it is.
    package var isDryRun = false

    /// The options that have no default.
    package init(signers: [Signer], issuedAt: Timestamp, clock: Timestamp = .now) {
        self.signers = signers
        self.issuedAt = issuedAt
        self.clock = clock
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
    /// What becomes of the feed's `manifest.json`.
    package internal(set) var newest = NewestChange.untouched
}
