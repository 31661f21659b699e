package import BundleValues

/// The list of files of a Meteor client in the format `web-program-pre1` (METEOR section 1). It is `program.json` in a
/// bundle and `manifest.json` on a server.
package struct AssetManifest: Sendable {
    /// The value of the member `format`.
    package static let format = "web-program-pre1"

    /// The version of the bundle.
    package let version: MeteorVersion
    /// The required compatibility version of the shell for each listed platform.
    package let compatibility: [MeteorPlatform: String]
    /// The files of the client: the entries in order, each followed by its source map if there is one, and the index page
    /// last. URL paths are unique. Two assets with the same hash can share a file.
    package let assets: [MeteorAsset]
    /// Whether the version is the digest of the list.
    package let identity: ManifestIdentity
    /// The document as received.
    package let bytes: [UInt8]

    /// Parses a manifest strictly. Unknown members are ignored, and the rules apply to entries for the client only.
    ///
    /// Throws `AssetManifestError` for the first problem, or an error of OpenSSL.
    package init(parsing bytes: [UInt8], limits: AssetManifestLimits = AssetManifestLimits()) throws {
        try self.init(bytes, reader: AssetManifestReader(bytes, limits: limits))
    }

    /// Parses the manifest of an installed bundle. It checks every entry, but not again that the names fit together and
    /// that the version is the digest.
    init(rereading bytes: [UInt8]) throws {
        try self.init(bytes, reader: AssetManifestReader(bytes, limits: .none, collector: AssetCollector()))
    }

    private init(_ bytes: [UInt8], reader made: consuming AssetManifestReader) throws {
        var reader = made
        try reader.read()
        version = try reader.version()
        compatibility = reader.compatibility
        identity = try reader.identity(of: version)
        assets = reader.collector.finished()
        self.bytes = bytes
    }

    /// Returns the compatibility version for `platform`. Throws if there is none.
    @discardableResult
    package func requireCompatibility(of platform: MeteorPlatform) throws(AssetManifestError) -> String {
        guard let version = compatibility[platform] else { throw .noCompatibility(platform) }
        return version
    }

    /// Returns the asset at a URL, ignoring its query. The search is linear.
    package func asset(at url: String) -> MeteorAsset? {
        let path = MeteorAsset.urlPath(of: url)
        return assets.first { $0.urlPath.utf8.elementsEqual(path.utf8) }
    }

    /// Whether hashes of files in the `public` folder follow the recipe of Meteor 1.8.1 and later, so that their bytes
    /// can prove them. Such manifests have an `sri` for scripts and style sheets only.
    package var hasPublicRecipe: Bool {
        assets.contains { $0.sri != nil } && !assets.contains { $0.kind == .asset && $0.sri != nil }
    }
}

/// The limits of a manifest, set by the device.
public struct AssetManifestLimits: Sendable, Equatable {
    /// The size of the document in bytes.
    public var bytes = 16 << 20
    /// The number of entries of any kind.
    public var entries = 20_000
    /// The number of folders of the files, and of the URLs.
    public var folders = 20_000

    /// The default limits.
    public init() {}

    /// No limits, for manifests that were accepted before.
    static let none: AssetManifestLimits = {
        var limits = AssetManifestLimits()
        (limits.bytes, limits.entries, limits.folders) = (256 << 20, .max, .max)
        return limits
    }()
}
