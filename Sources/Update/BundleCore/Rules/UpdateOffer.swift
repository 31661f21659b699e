package import BundleValues

/// What any offer says about itself, after its source has checked it.
package protocol UpdateOffer: Sendable {
    /// The version offered.
    var clientVersion: ClientVersion { get }
    /// What the channel has found out about it before any rule was asked.
    var evidence: [Decision.Outcome] { get }
    /// What it takes on the wire and on the disk.
    var footprint: Footprint { get }
    /// What the look at the feed has added to what the store remembers; nil where the channel has no such memory.
    var feed: FeedUpdate? { get }
    /// How often the channel asks its devices to check; nil where it does not say.
    var pace: PollPace? { get }
    /// The application that it belongs to, if its source has verified that; nil where it names none.
    var appId: String? { get }
}

extension UpdateOffer {
    /// Nothing.
    package var feed: FeedUpdate? { nil }
    /// Nothing.
    package var pace: PollPace? { nil }
    /// None.
    package var appId: String? { nil }
}

/// The device that a source looks for an offer for.
package struct OfferRequest: Sendable {
    /// The store as it is.
    package let inventory: Inventory
    /// The shell's version.
    package let shell: SemanticVersion
    /// The application, where the device or its store names one.
    package let appId: String?
    /// How often the source may still ask to remember something; with none left it makes its offer by what it knows.
    package let stepsLeft: Int

    /// How often a source may ask to remember something before it makes its offer.
    package static let maximumSteps = 256

    /// States a device.
    package init(inventory: Inventory, shell: SemanticVersion, appId: String?, stepsLeft: Int = maximumSteps) {
        self.inventory = inventory
        self.shell = shell
        self.appId = appId
        self.stepsLeft = stepsLeft
    }
}

/// How far a source has come with a request.
package enum OfferStep<Offer: UpdateOffer>: Sendable {
    /// The chain has led to another trust root: once it is remembered, the channel is asked again, and goes on from there.
    case remember(FeedUpdate)
    /// It has got to its end.
    case offer(Offer)
}

/// An offer of the archive source: a release with a semantic version, for certain shells.
package protocol ReleaseOffer: UpdateOffer {
    /// The version offered.
    var version: SemanticVersion { get }
    /// The shells it is for.
    var shells: ShellRange { get }
}

extension ReleaseOffer {
    /// The version offered.
    package var clientVersion: ClientVersion { .archive(version) }
}

/// Room that an offer needs, as far as it says.
package struct Footprint: Sendable, Equatable {
    /// Bytes to download.
    package let downloadBytes: Int?
    /// Sum of the installed files' sizes in bytes.
    package let installedBytes: Int?
    /// Number of installed files.
    package let fileCount: Int?

    /// States the room; nil where unknown.
    package init(downloadBytes: Int?, installedBytes: Int?, fileCount: Int?) {
        self.downloadBytes = downloadBytes
        self.installedBytes = installedBytes
        self.fileCount = fileCount
    }

    /// The room for both; what is unknown of one is left to the other.
    func adding(_ other: Footprint) -> Footprint {
        func sum(_ left: Int?, _ right: Int?) -> Int? {
            guard let left, let right else { return left ?? right }
            let (sum, overflow) = left.addingReportingOverflow(right)
            return overflow ? .max : sum
        }
        return Footprint(
            downloadBytes: sum(downloadBytes, other.downloadBytes),
            installedBytes: sum(installedBytes, other.installedBytes), fileCount: sum(fileCount, other.fileCount))
    }
}
