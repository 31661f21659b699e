public import ArchiveChannel
public import BundleArchive
public import BundleCore

/// What a release engineer decides about a release.
public struct ReleaseOptions: Sendable {
    /// The version to publish.
    public var version: SemanticVersion
    /// The application; nil publishes for none.
    public var appId: String?
    /// The shells it is for.
    public var shells: ShellRange
    /// Release notes, for people.
    public var notes: String?
    /// The archive's format.
    public var format = ArchiveFormat.tarZstd
    /// The compressor's level; nil takes the format's default.
    public var level: Int?
    /// log2 of the zstd window in bytes: what an installer needs in memory.
    public var windowLog = ReleaseOptions.defaultWindowLog
    /// What installers are expected to allow.
    public var limits = ArchiveLimits()
    /// When it is made.
    public var createdAt: Timestamp
    /// What devices trust; nil leaves that to the feed's trust root, or to its present releases.
    public var trust: TrustAnchor?
    /// Whether to leave the feed as it is.
    public var isDryRun = false

    /// Chosen by measurement (DECISIONS): most of level 19's size for a third of its time, a window that small devices can afford.
    public static let defaultZstdLevel = 17
    /// 32 MiB.
    public static let defaultWindowLog = 25
    /// What gzip and zip are compressed with.
    public static let defaultDeflateLevel = 9

    /// The options that have no default.
    public init(version: SemanticVersion, shells: ShellRange, createdAt: Timestamp) {
        self.version = version
        self.shells = shells
        self.createdAt = createdAt
    }

    /// The level to compress with.
    var effectiveLevel: Int {
        level ?? (format == .tarZstd ? Self.defaultZstdLevel : Self.defaultDeflateLevel)
    }
}
