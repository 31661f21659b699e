/// Bounds for one asset manifest. The device sets them.
public struct AssetManifestLimits: Sendable, Equatable {
    /// Bytes of the document.
    public var bytes = 16 << 20
    /// Entries that it lists, of any kind.
    public var entries = 20_000
    /// Folders that the files are in, and likewise those of the URLs.
    public var folders = 20_000

    /// The defaults.
    public init() {}

    /// For what was taken before, by whatever limits.
    static let none: AssetManifestLimits = {
        var limits = AssetManifestLimits()
        (limits.bytes, limits.entries, limits.folders) = (256 << 20, .max, .max)
        return limits
    }()
}
