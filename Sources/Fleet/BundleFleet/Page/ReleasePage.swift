package import BundlePublish
package import ArchiveSource
package import BundleValues

/// What a feed's release page shows. A value: whoever writes the page reads nothing.
package struct ReleasePage: Sendable {
    /// Who vouches for a document.
    package enum Proof: Sendable, Equatable {
        /// These keys signed it, enough of those that are trusted.
        case vouched(keyIds: [String])
        /// Nobody who is trusted does, and why.
        case refused(reason: String, claimed: [String])
        /// No trust was named.
        case unchecked(claimed: [String])
    }

    /// A document that the feed has.
    package enum Found<Content: Sendable>: Sendable {
        case read(Content)
        /// It is damaged or missing, and why.
        case unreadable(String)

        /// What it says; nil where it cannot be read.
        package var content: Content? { if case .read(let content) = self { content } else { nil } }
    }

    /// A feed's trust root.
    package struct Root: Sendable {
        package let root: TrustRoot
        package let proof: Proof
    }

    /// A manifest that no channel has.
    package struct Offer: Sendable {
        package let manifest: Manifest
        package let proof: Proof
    }

    /// A release of a channel.
    package struct Release: Sendable {
        /// A share of the devices that comes later.
        package struct Step: Sendable {
            package let at: Timestamp
            /// In thousandths.
            package let permille: Int
        }

        package let release: ChannelDocument.Release
        package let proof: Proof
        /// Whether the channel recalls it.
        package let isRecalled: Bool
        /// The devices that the draw gives it, in thousandths.
        package let permille: Int
        /// Who may have it, in words.
        package let audience: String
        /// Whether a guard holds it, which pauses it.
        package var isHeld = false
        /// How its rollout goes on by itself, the earliest first.
        package var steps: [Step] = []
        /// The deltas that lead to it; nil where it has none.
        package var deltas: Found<[DeltaList.Delta]>?
        /// Its notes; nil if the feed has none with the digest that the manifest names.
        package var notes: String?
    }

    /// A channel's document with what belongs to it.
    package struct Content: Sendable {
        package let document: ChannelDocument
        package let proof: Proof
        /// The highest version first.
        package let releases: [Release]
    }

    /// A channel.
    package struct Channel: Sendable {
        package let name: String
        package let content: Found<Content>
        package let history: Found<ChannelHistory>
        /// What devices reported; nil where nobody was asked.
        package var reports: ChannelReports?
    }

    /// When it was made.
    package let clock: Timestamp
    /// The feed's trust root; nil where it has none.
    package var root: Found<Root>?
    /// What `manifest.json` offers; nil where the feed has none.
    package var offered: Found<Offer>?
    package var channels: [Channel] = []
    /// What could not be had, for people.
    package var warnings: [String] = []

    /// An empty page.
    package init(clock: Timestamp) { self.clock = clock }

    /// The longest page, in bytes.
    package static let maximumBytes = 1_000_000

    /// The page: one HTML document of at most `maximumBytes` that asks for nothing else and runs nothing.
    ///
    /// What does not fit is left out, and the page says so. Throws only if OpenSSL itself cannot work.
    package func html() throws -> String {
        var html = ""
        for limits in PageLimits.all {
            html = try PageDocument(self, limits).html()
            if html.utf8.count <= Self.maximumBytes { break }
        }
        return html
    }

    /// The application that the feed is for; nil where nothing names one.
    var appId: String? {
        channels.lazy.compactMap { $0.content.content?.document.appId }.first ?? offered?.content?.manifest.appId
    }
}

extension ReleasePage.Release {
    /// What becomes of the release on devices.
    enum State: Equatable {
        case recalled
        case held
        case paused
        case forGroups
        case rollingOut(RolloutPercentage)
        case everybody
    }

    var state: State {
        if isRecalled { return .recalled }
        if isHeld { return .held }
        if release.isPaused { return .paused }
        if release.isOnlyForGroups { return .forGroups }
        let share = RolloutPercentage(permille: permille)
        return share.permille >= ChannelDocument.Release.allDevices ? .everybody : .rollingOut(share)
    }
}

extension ReleasePage.Content {
    /// What every device may have, the best of it.
    var live: ReleasePage.Release? { releases.first { $0.state == .everybody } }
}

/// How much of a feed one page has.
struct PageLimits: Sendable {
    let channels: Int
    /// Releases that are told in full, and those that get a line.
    let releases: (full: Int, lines: Int)
    let entries: Int
    let versions: Int
    /// Of each list within these, and characters of a text.
    let items: Int
    let characters: Int

    /// No page shows more releases of a channel in full.
    static let mostFull = 10
    /// No page has more of a channel's history.
    static let mostEntries = 60

    /// From the richest to one that fits, whatever is in a feed.
    static let all = [
        PageLimits(
            channels: 50, releases: (mostFull, 200), entries: mostEntries, versions: 12, items: 12, characters: 400),
        PageLimits(channels: 50, releases: (3, 40), entries: 20, versions: 6, items: 6, characters: 200),
        PageLimits(channels: 30, releases: (1, 5), entries: 5, versions: 3, items: 3, characters: 100),
    ]
}
