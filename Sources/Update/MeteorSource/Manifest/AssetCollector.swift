import BundleValues

/// Makes assets of entries, and sees to it that all of them can be served and stored side by side.
struct AssetCollector {
    /// Nil where the names were found to fit together before.
    private let folderLimit: Int?
    private var assets: [MeteorAsset] = []
    /// Which asset has a URL path, and which was the first with a file.
    private var byURL: [BundlePath: Int] = [:]
    private var byFile: [BundlePath: Int] = [:]
    private var urlNames = PathCollisions(of: "URL path")
    private var fileNames = PathCollisions(of: "file path")

    /// What the client's folder has beside the listed has its place from the start, so that it is the others who collide.
    init(folderLimit: Int) {
        self.folderLimit = folderLimit
        _ = urlNames.add(.index)
        _ = fileNames.add(.index)
        _ = fileNames.add(.assetManifest)
    }

    /// Collects what was checked before.
    init() { folderLimit = nil }

    /// The assets, and the index page behind them.
    func finished() -> [MeteorAsset] { assets + [.index] }

    mutating func add(_ entry: ManifestEntry) throws(AssetManifestError) {
        let location = try entry.location()
        let map = try entry.sourceMapLocation()
        let asset = try entry.asset(at: location, sourceMap: map)
        // The page that the server makes of its own takes the place of any entry for it.
        if location.url == .index { return }
        try add(asset, at: location, of: entry, url: .url, file: .path)
        guard let map else { return }
        let sourceMap = MeteorAsset(
            urlPath: map.urlPath, file: map.file, kind: .sourceMap, isCacheable: true, hash: nil, sri: nil, size: nil,
            sourceMapURL: nil)
        try add(sourceMap, at: map, of: entry, url: .sourceMapUrl, file: .sourceMap)
    }

    private mutating func add(
        _ asset: MeteorAsset, at location: ManifestEntry.Location, of entry: ManifestEntry,
        url: ManifestEntry.Field, file: ManifestEntry.Field
    ) throws(AssetManifestError) {
        guard let folderLimit else { return assets.append(asset) }
        if let twin = byURL[location.url] {
            guard assets[twin] == asset else {
                throw entry.refusal(url, "is refused: Duplicate normalized URL path: \(location.url)")
            }
            return
        }
        if let finding = urlNames.add(location.url).first { throw entry.refusal(url, "is refused: \(finding)") }
        try refuse(urlNames, beyond: folderLimit)
        if let twin = byFile[location.file] {
            guard asset.mayShareFile(with: assets[twin]) else {
                throw entry.refusal(file, "names the file \(location.file) a second time, with another content")
            }
        } else {
            if let finding = fileNames.add(location.file).first { throw entry.refusal(file, "is refused: \(finding)") }
            try refuse(fileNames, beyond: folderLimit)
            byFile[location.file] = assets.count
        }
        byURL[location.url] = assets.count
        assets.append(asset)
    }

    private func refuse(_ names: PathCollisions, beyond limit: Int) throws(AssetManifestError) {
        guard names.folderCount <= limit else { throw .tooManyFolders(limit: limit) }
    }
}

extension MeteorAsset {
    /// Whether both can be the same file: nothing that is said about their content differs.
    fileprivate func mayShareFile(with other: MeteorAsset) -> Bool {
        guard hash == other.hash else { return false }
        if let size, let otherSize = other.size, size != otherSize { return false }
        if let sri, let otherSRI = other.sri, sri != otherSRI { return false }
        return true
    }
}
