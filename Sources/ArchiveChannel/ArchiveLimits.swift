/// Bounds for one archive. The device sets them; a manifest can only lower them.
public struct ArchiveLimits: Sendable, Equatable {
    /// Bytes of the archive.
    public var archiveBytes = 256 << 20
    /// Sum of the files' bytes.
    public var installedBytes = 512 << 20
    /// Bytes of one file.
    public var fileBytes = 256 << 20
    /// Files and folders that the archive lists.
    public var entries = 20_000
    /// Unpacked bytes for one archive byte, once more than `ratioGrace` bytes are out.
    public var ratio = 200
    /// Unpacked bytes before the ratio counts.
    public var ratioGrace = 32 << 20
    /// Time for unpacking.
    public var time = Duration.seconds(600)

    /// The defaults.
    public init() {}
}
