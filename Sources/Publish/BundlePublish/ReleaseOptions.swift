package import ArchiveSource
package import BundleArchive
package import BundleValues

/// What a release engineer decides about a release.
package struct ReleaseOptions: Sendable {
    /// The version to publish.
    package var version: SemanticVersion
    /// The application; nil publishes for none.
    package var appId: String?
    /// The shells it is for.
    package var shells: ShellRange
    /// Release notes, for people.
    package var notes: String?
    /// The archive's format.
    package var format = ArchiveFormat.tarZstd
    /// The compressor's level; nil takes the format's default.
    package var level: Int?
    /// log2 of the zstd window in bytes: what an installer needs in memory.
    package var windowLog = ReleaseOptions.defaultWindowLog
    /// What is in the folder and not in the client.
    package var excluded: [PathPattern] = []
    /// What is meant to be in the client, though it looks as if it were not.
    package var allowed: [PathPattern] = []
    /// Files that this run reads keys or passphrases from.
    package var secretFiles: [String] = []
    /// What is left out by what it is.
    package var drops: Set<FolderInspection.Drop> = []
    /// Most bytes of one file; nil for no such bound.
    package var budget: Int?
    /// Where the source maps of each version are kept; nil for nowhere.
    package var mapsFolder: String?
    /// Which deltas lead to it; nil for none.
    package var deltas: DeltaTerms?
    /// What installers are expected to allow.
    package var limits = ArchiveLimits()
    /// When it is made.
    package var createdAt: Timestamp
    /// What devices trust; nil leaves that to the feed's trust root, or to its present releases.
    package var trust: TrustAnchor?
    /// How long others may keep the feed.
    package var wait = FeedWait()
    /// Whether to leave the feed as it is.
    package var isDryRun = false

    /// Chosen by measurement (Decisions/documents.md): most of level 19's size for a third of its time, a window that small devices can afford.
    package static let defaultZstdLevel = 17
    /// 32 MiB.
    package static let defaultWindowLog = 25
    /// What gzip and zip are compressed with.
    package static let defaultDeflateLevel = 9

    /// The options that have no default.
    package init(version: SemanticVersion, shells: ShellRange, createdAt: Timestamp) {
        self.version = version
        self.shells = shells
        self.createdAt = createdAt
    }

    /// The level to compress with.
    var effectiveLevel: Int {
        level ?? (format == .tarZstd ? Self.defaultZstdLevel : Self.defaultDeflateLevel)
    }
}

extension ArchiveFormat {
    /// Why an archive of this format cannot hold a client of so many files and bytes; nil if it can. Devices read no ZIP64.
    func problem(files: Int, bytes: Int) -> String? {
        guard self == .zip else { return nil }
        let (mostFiles, mostBytes) = (0xFFFE, 0xFFFF_FFFE)
        if files > mostFiles {
            return "has \(files) files, and a zip holds at most \(mostFiles). Publish with --format tar.zst."
        }
        if bytes > mostBytes {
            return "has \(ByteCount(bytes: bytes)), and a zip holds at most 4.3 GB. Publish with --format tar.zst."
        }
        return nil
    }
}
