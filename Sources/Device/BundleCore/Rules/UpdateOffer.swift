import BundleFormats
package import BundleValues

/// An offer that its source has verified.
package protocol UpdateOffer: Sendable {
    var clientVersion: ClientVersion { get }
    /// The outcomes of the source's own rules.
    var evidence: [Decision.Outcome] { get }
    /// The bytes on the network and on the disk.
    var footprint: Footprint { get }
    /// The result of the feed scan for the store's memory; nil if the source has no such memory.
    var feed: FeedUpdate? { get }
    /// The check interval that the channel asks for; nil if it asks for none.
    var pace: PollPace? { get }
    /// The application of the offer, verified by its source; nil if the offer names none.
    var appId: String? { get }
    /// The conditions for the download.
    var terms: FetchTerms { get }
}

extension UpdateOffer {
    package var feed: FeedUpdate? { nil }
    package var pace: PollPace? { nil }
    package var appId: String? { nil }
    package var terms: FetchTerms { FetchTerms() }
}

/// The device for which a source finds an offer.
package struct OfferRequest: Sendable {
    package let inventory: Inventory
    package let shell: SemanticVersion
    /// The application, if the device or its store names one.
    package let appId: String?
    /// The number of updates that the source may still store. At zero, it makes its offer from the stored values.
    package let stepsLeft: Int

    /// The largest number of updates that a source may store before it makes its offer.
    package static let maximumSteps = TrustChain.mostSteps

    package init(inventory: Inventory, shell: SemanticVersion, appId: String?, stepsLeft: Int = maximumSteps) {
        self.inventory = inventory
        self.shell = shell
        self.appId = appId
        self.stepsLeft = stepsLeft
    }
}

/// The state of a request to a source.
package enum OfferStep<Offer: UpdateOffer>: Sendable {
    /// The feed led to another trust root. The caller stores this update and asks the source again.
    case remember(FeedUpdate)
    /// The offer of the source.
    case offer(Offer)
}

/// An offer of the archive source: a release with a semantic version and a range of shells.
package protocol ReleaseOffer: UpdateOffer {
    var version: SemanticVersion { get }
    var shells: ShellRange { get }
}

extension ReleaseOffer {
    package var clientVersion: ClientVersion { .archive(version) }
}

/// The space that an offer needs, as far as it is known.
package struct Footprint: Sendable, Equatable {
    /// Bytes to download.
    package let downloadBytes: Int?
    /// The sum of the installed files' sizes in bytes.
    package let installedBytes: Int?
    /// The number of installed files.
    package let fileCount: Int?

    package init(downloadBytes: Int?, installedBytes: Int?, fileCount: Int?) {
        self.downloadBytes = downloadBytes
        self.installedBytes = installedBytes
        self.fileCount = fileCount
    }

    /// Returns the sum of both. An unknown value counts as zero, unless both are unknown.
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
