package import BundlePublish
package import BundleFormats
package import BundleValues

/// The content of a feed's release page.
package struct ReleasePage: Sendable {
    /// The verification of a signed file.
    package enum Proof: Sendable, Equatable {
        /// Enough trusted keys signed the file.
        case verified(keyIds: [String])
        /// The trusted keys did not sign the file.
        case refused(reason: String, claimed: [String])
        /// No trusted keys were given.
        case unchecked(claimed: [String])
    }

    /// A file of the feed.
    package enum ChannelReading<Content: Sendable>: Sendable {
        case read(Content)
        /// The file is damaged or missing, for the given reason.
        case unreadable(String)

        /// The content; nil if the file cannot be read.
        package var content: Content? { if case .read(let content) = self { content } else { nil } }
    }

    package struct Root: Sendable {
        package let root: TrustRoot
        package let proof: Proof
    }

    /// The manifest that `manifest.json` offers.
    package struct Offer: Sendable {
        package let manifest: Manifest
        package let proof: Proof
    }

    /// A release of a channel.
    package struct ReleaseRow: Sendable {
        /// A later step of a rollout.
        package struct LaterStep: Sendable {
            package let at: Timestamp
            /// In thousandths.
            package let permille: Int
        }

        package let release: ChannelDocument.Release
        package let proof: Proof
        /// Whether the channel recalls it.
        package let isRecalled: Bool
        /// The rollout percentage, in thousandths.
        package let permille: Int
        /// The audience in words.
        package let audience: String
        /// Whether a guard holds it, which pauses it.
        package var isHeld = false
        /// The later steps of its rollout, earliest first.
        package var steps: [LaterStep] = []
        /// The deltas to it; nil if it has none.
        package var deltas: ChannelReading<[DeltaList.Delta]>?
        /// The notes; nil if the feed has none with the digest in the manifest.
        package var notes: String?
    }

    /// A channel file and its history.
    package struct PageContent: Sendable {
        package let document: ChannelDocument
        package let proof: Proof
        /// The releases, highest version first.
        package let releases: [ReleaseRow]
    }

    package struct ChannelSection: Sendable {
        package let name: String
        package let content: ChannelReading<PageContent>
        package let history: ChannelReading<ChannelHistory>
        /// The reports of devices; nil if they were not requested.
        package var reports: ChannelReports?
    }

    /// The time of the page.
    package let clock: Timestamp
    /// The feed's trust root; nil if it has none.
    package var root: ChannelReading<Root>?
    /// The offer of `manifest.json`; nil if the feed has none.
    package var offered: ChannelReading<Offer>?
    package var channels: [ChannelSection] = []
    /// The names of the keys.
    package var names = KeyNames()
    /// Warnings about missing parts.
    package var warnings: [String] = []

    package init(clock: Timestamp) { self.clock = clock }

    /// The maximum size of a page, in bytes.
    package static let maximumBytes = 1_000_000

    /// Returns one HTML document of at most `maximumBytes` that loads nothing and runs no script.
    ///
    /// Content that does not fit is omitted, and the page says so. Throws only if OpenSSL fails.
    package func html() throws -> String {
        var html = ""
        for limits in PageLimits.all {
            html = try PageDocument(self, limits).html()
            if html.utf8.count <= Self.maximumBytes { break }
        }
        return html
    }

    /// The title of the page.
    var title: String { appId.map { "Releases of \(UntrustedName.display($0, limit: 100))" } ?? "Releases" }

    /// The application of the feed; nil if no file names one.
    var appId: String? {
        channels.lazy.compactMap { $0.content.content?.document.appId }.first ?? offered?.content?.manifest.appId
    }
}

extension ReleasePage.ReleaseRow {
    /// The state of the release on devices.
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

extension ReleasePage.PageContent {
    /// The highest release that every device may have.
    var live: ReleasePage.ReleaseRow? { releases.first { $0.state == .everybody } }
}

/// The amount of content on a page.
struct PageLimits: Sendable {
    let channels: Int
    /// The number of releases shown in full, and as a line.
    let releases: (full: Int, lines: Int)
    let entries: Int
    let versions: Int
    /// The number of items in each list, and the length of a text.
    let items: Int
    let characters: Int

    /// The maximum number of releases of a channel that are shown in full.
    static let mostFull = 10
    /// The maximum number of history entries of a channel.
    static let mostEntries = 60

    /// The limits to try, from the richest page to one that always fits.
    static let all = [
        PageLimits(
            channels: 50, releases: (mostFull, 200), entries: mostEntries, versions: 12, items: 12, characters: 400),
        PageLimits(channels: 50, releases: (3, 40), entries: 20, versions: 6, items: 6, characters: 200),
        PageLimits(channels: 30, releases: (1, 5), entries: 5, versions: 3, items: 3, characters: 100),
    ]
}
