package import BundleFormats
package import BundleArchive
package import BundleValues

/// The options of a release.
package struct ReleaseOptions: Sendable {
    package var version: SemanticVersion
    /// The application; nil for a release without one.
    package var appId: String?
    /// The shells that can run the release.
    package var shells: ShellRange
    package var notes: String?
    /// The addresses that the page has to reach before a device confirms its start.
    package var requiredEndpoints: [String] = []
    /// The program in the folder; nil for a web client.
    package var program: ReleaseProgram?
    package var format = ArchiveFormat.tarZstd
    /// The compression level; nil for the format's default.
    package var level: Int?
    /// The base-2 logarithm of the zstd window in bytes, which an installer needs in memory.
    package var windowLog = ReleaseOptions.defaultWindowLog
    /// The files of the folder that are not published.
    package var excluded: [PathPattern] = []
    /// The files that are published although they look misplaced.
    package var allowed: [PathPattern] = []
    /// The files that this run reads keys or passphrases from.
    package var secretFiles: [String] = []
    /// The kinds of files that are not published.
    package var drops: Set<FolderInspection.Drop> = []
    /// The maximum size of a file in bytes; nil for no limit.
    package var budget: ReleaseBudget?
    /// The folder for the source maps of each version; nil to store none.
    package var mapsFolder: String?
    /// The deltas to the release; nil for none.
    package var deltas: DeltaTerms?
    /// Whether the release gets a bundle for phones.
    package var isForPhones = false
    /// The limits of installers.
    package var limits = ArchiveLimits()
    /// The creation time.
    package var createdAt: Timestamp
    /// The channel that gets the release; nil for none.
    package var channel: String?
    /// The keys or the trust root of devices; nil means the feed's trust root or the keys of its current releases.
    package var trust: TrustAnchor?
    /// Whether the operator states that every device trusts one of the signing keys.
    package var devicesTrustNewKey = false
    /// The longest wait for other publishers.
    package var wait = FeedWait()
    /// Whether the feed stays unchanged.
    package var isDryRun = false

    /// The default zstd level, chosen by measurement (Decisions/documents.md): nearly the size of level 19 in a third
    /// of its time.
    package static let defaultZstdLevel = 17
    /// The default window, 32 MiB, which small devices can afford.
    package static let defaultWindowLog = 25
    /// The default level for gzip and zip.
    package static let defaultDeflateLevel = 9

    package init(version: SemanticVersion, shells: ShellRange, createdAt: Timestamp) {
        self.version = version
        self.shells = shells
        self.createdAt = createdAt
    }

    /// Whether the release has a program.
    var kind: ReleaseKind { program == nil ? .client : .program }

    /// The compression level that applies.
    var effectiveLevel: Int {
        level ?? (format == .tarZstd ? Self.defaultZstdLevel : Self.defaultDeflateLevel)
    }
}

extension ArchiveFormat {
    /// Returns the reason why an archive of this format cannot contain the client; nil if it can. Devices do not read ZIP64.
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
