/// What any offer says about itself, after its channel has checked it.
public protocol UpdateOffer: Sendable {
    /// The version offered.
    var clientVersion: ClientVersion { get }
    /// What the channel has found out about it before any rule was asked.
    var evidence: [Decision.Outcome] { get }
    /// What it takes on the wire and on the disk.
    var footprint: Footprint { get }
    /// What the look at the feed has added to what the store remembers; nil where the channel has no such memory.
    var feed: FeedNews? { get }
    /// How often the channel asks its devices to check; nil where it does not say.
    var pace: PollPace? { get }
}

extension UpdateOffer {
    /// Nothing.
    public var feed: FeedNews? { nil }
    /// Nothing.
    public var pace: PollPace? { nil }
}

/// The device that a channel looks for an offer for.
public struct OfferRequest: Sendable {
    /// The store as it is.
    public let inventory: Inventory
    /// The shell's version.
    public let shell: SemanticVersion
    /// The application, where the device or its store names one.
    public let appId: String?
    /// How often the channel may still ask to remember something; with none left it makes its offer by what it knows.
    public let stepsLeft: Int

    /// How often a channel may ask to remember something before it makes its offer.
    public static let maximumSteps = 256

    /// States a device.
    public init(inventory: Inventory, shell: SemanticVersion, appId: String?, stepsLeft: Int = maximumSteps) {
        self.inventory = inventory
        self.shell = shell
        self.appId = appId
        self.stepsLeft = stepsLeft
    }
}

/// How far a channel has come with a request.
public enum OfferStep<Offer: UpdateOffer>: Sendable {
    /// The chain has led to another trust root: once it is remembered, the channel is asked again, and goes on from there.
    case remember(FeedNews)
    /// It has got to its end.
    case offer(Offer)
}

/// An offer of the archive channel: a release with a semantic version, for certain shells.
public protocol ReleaseOffer: UpdateOffer {
    /// The version offered.
    var version: SemanticVersion { get }
    /// The shells it is for.
    var shells: ShellRange { get }
    /// The application it belongs to; nil where it does not say.
    var appId: String? { get }
}

extension ReleaseOffer {
    /// The version offered.
    public var clientVersion: ClientVersion { .archive(version) }
}

/// Room that an offer needs, as far as it says.
public struct Footprint: Sendable, Equatable {
    /// Bytes to download.
    public let downloadBytes: Int?
    /// Sum of the installed files' sizes in bytes.
    public let installedBytes: Int?
    /// Number of installed files.
    public let fileCount: Int?

    /// States the room; nil where unknown.
    public init(downloadBytes: Int?, installedBytes: Int?, fileCount: Int?) {
        self.downloadBytes = downloadBytes
        self.installedBytes = installedBytes
        self.fileCount = fileCount
    }
}
