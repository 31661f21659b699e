package import BundleCore
package import BundleValues
package import BundleDisk

/// Reads Meteor bundles on disk: `program.json`, `index.html` and the assets.
package struct MeteorBundles: MeteorLayout {
    static let manifestName = "program.json"
    static let indexName = "index.html"
    static let maximumPageBytes = 16 << 20

    private let platform: MeteorPlatform

    /// `platform` selects the compatibility version.
    package init(platform: MeteorPlatform) { self.platform = platform }

    /// Returns the asset manifest in `folder`, or nil if there is none.
    func manifest(of folder: Directory) throws -> AssetManifest? {
        guard case .file(let size)? = try folder.kind(of: Self.manifestName) else { return nil }
        let limit = AssetManifestLimits.none.bytes
        guard size <= limit else { throw AssetManifestError.tooLarge(bytes: size, limit: limit) }
        guard let bytes = try folder.contents(Self.manifestName, maximumBytes: limit) else { return nil }
        return try AssetManifest(rereading: bytes)
    }

    /// Returns the properties of a bundle from its manifest and its page.
    package func facts(of folder: Directory) throws -> MeteorFacts? {
        guard let manifest = try manifest(of: folder) else { return nil }
        let page = try folder.contents(Self.indexName, maximumBytes: Self.maximumPageBytes) ?? []
        // A page without a runtime configuration is valid, but has no values (METEOR section 2.3).
        let config = try? RuntimeConfig.read(page: page)
        return MeteorFacts(
            version: manifest.version, appId: config?.appId, rootURL: config?.rootURL,
            compatibility: manifest.compatibility[platform])
    }

    /// Returns the file for each URL path, including those that only Cordova has.
    package func assets(of folder: Directory, owned: Set<BundlePath>?, inheriting seed: Directory?) throws -> AssetMap {
        guard let manifest = try manifest(of: folder) else {
            throw UpdateFailure(
                .storeDamaged, subject: folder.path,
                "\(folder.path) has no \(Self.manifestName): install the bundle again.")
        }
        let rule = try seed.flatMap { seed in
            try self.manifest(of: seed).map { InheritanceRule(seed: $0.assets, in: seed) }
        }
        var placed: [AssetMap.PlacedAsset] = []
        placed.reserveCapacity(manifest.assets.count)
        for asset in manifest.assets {
            if let seed, let rule, owned?.contains(asset.file) == false,
                let same = try rule.equal(to: asset) ?? rule.neighbour(of: asset)
            {
                placed.append(AssetMap.PlacedAsset(url: asset.urlPath, source: seed, file: same.file.string))
            } else {
                // The organizer reports a missing file, except for source maps.
                placed.append(AssetMap.PlacedAsset(url: asset.urlPath, source: folder, file: asset.file.string))
            }
        }
        var map = try AssetMap(placed)
        try map.addCordovaFiles(from: seed ?? folder)
        return map
    }

    /// Returns the hash and the source map of every asset.
    package func labels(of folder: Directory) throws -> AssetLabels {
        guard let manifest = try manifest(of: folder) else { return .none }
        var labels: [BundlePath: AssetLabels.Label] = [:]
        labels.reserveCapacity(manifest.assets.count)
        for asset in manifest.assets where asset.kind != .index {
            let path = try BundlePath(parsing: asset.urlPath.utf8.dropFirst())
            labels[path] = AssetLabels.Label(hash: asset.hash, sourceMapURL: asset.sourceMapURL)
        }
        return AssetLabels(labels)
    }
}
