package import BundleValues

/// The list of a Meteor client's files, `web-program-pre1` (METEOR section 1): in a bundle `program.json`, on the server
/// `manifest.json`.
package struct AssetManifest: Sendable {
    /// What a format member must say.
    package static let format = "web-program-pre1"

    /// The bundle's version.
    package let version: MeteorVersion
    /// What the native side of an application must be, for each platform that is listed.
    package let compatibility: [MeteorPlatform: String]
    /// The client's files: its entries in their order, each followed by its source map where the manifest has one, and last
    /// the index page. No two have one URL path; two may share one file, then with one hash.
    package let assets: [MeteorAsset]
    /// Whether the version is the digest of what is listed.
    package let identity: ManifestIdentity
    /// The document as received.
    package let bytes: [UInt8]

    /// Reads a manifest strictly; unknown members are ignored, and only entries for the client are held to the rules.
    ///
    /// Throws `AssetManifestError` for the first thing that is wrong; beyond that only if OpenSSL cannot work.
    package init(parsing bytes: [UInt8], limits: AssetManifestLimits = AssetManifestLimits()) throws {
        try self.init(bytes, AssetManifestReader(bytes, limits: limits))
    }

    /// Reads the manifest of a bundle on this device's disk: every entry by the rules, but what was found out when it came,
    /// that its names can stand side by side and what its version vouches for, is not asked again.
    init(rereading bytes: [UInt8]) throws {
        try self.init(bytes, AssetManifestReader(bytes, limits: .none, collector: AssetCollector()))
    }

    private init(_ bytes: [UInt8], _ made: consuming AssetManifestReader) throws {
        var reader = made
        try reader.read()
        version = try reader.version()
        compatibility = reader.compatibility
        identity = try reader.identity(of: version)
        assets = reader.collector.finished()
        self.bytes = bytes
    }

    /// What the native side must be on `platform`; a manifest that does not say is of no use there.
    @discardableResult
    package func requireCompatibility(of platform: MeteorPlatform) throws(AssetManifestError) -> String {
        guard let version = compatibility[platform] else { throw .noCompatibility(platform) }
        return version
    }

    /// The asset at a URL, whose query does not count; looks at one asset after the other.
    package func asset(at url: String) -> MeteorAsset? {
        let path = MeteorAsset.urlPath(of: url)
        return assets.first { $0.urlPath.utf8.elementsEqual(path.utf8) }
    }

    /// Whether files of the `public` folder are named by the public recipe here, so that their bytes can prove themselves:
    /// Meteor 1.8.1 and later has an `sri` for scripts and style sheets, and for these none.
    package var hasPublicRecipe: Bool {
        assets.contains { $0.sri != nil } && !assets.contains { $0.kind == .asset && $0.sri != nil }
    }
}

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
