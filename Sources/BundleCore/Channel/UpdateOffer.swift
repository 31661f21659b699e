/// What any offer says about itself, after its channel has checked it.
public protocol UpdateOffer: Sendable {
    /// The version offered.
    var clientVersion: ClientVersion { get }
    /// What the channel has found out about it before any rule was asked.
    var evidence: [Decision.Outcome] { get }
    /// What it takes on the wire and on the disk.
    var footprint: Footprint { get }
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
