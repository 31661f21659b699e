import BundleValues

/// Creates assets from entries and checks that all of them can be served and stored together.
struct AssetCollector {
    /// nil if the names were checked before.
    private let folderLimit: Int?
    private var assets: [MeteorAsset] = []
    /// The index of the asset for each URL path, and of the first asset for each file.
    private var byURL: [BundlePath: Int] = [:]
    private var byFile: [BundlePath: Int] = [:]
    private var urlNames = PathCollisions(of: "URL path")
    private var fileNames = PathCollisions(of: "file path")

    /// Reserves the other files of a client's folder first, so that entries collide with them.
    init(folderLimit: Int) {
        self.folderLimit = folderLimit
        _ = urlNames.add(.index)
        _ = fileNames.add(.index)
        _ = fileNames.add(.assetManifest)
    }

    /// Collects entries that were checked before.
    init() { folderLimit = nil }

    /// Returns the assets, with the index page last.
    func finished() -> [MeteorAsset] { assets + [.index] }

    mutating func add(_ entry: ManifestEntry) throws(AssetManifestError) {
        let location = try entry.location()
        let map = try entry.sourceMapLocation()
        let asset = try entry.asset(at: location, sourceMap: map)
        // The index page of the server replaces any entry for it.
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
        url: ManifestEntry.EntryField, file: ManifestEntry.EntryField
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
                throw entry.refusal(file, "names the file \(location.file) again, with other content")
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
    /// Whether both can share a file, because no property of their contents differs.
    fileprivate func mayShareFile(with other: MeteorAsset) -> Bool {
        guard hash == other.hash else { return false }
        if let size, let otherSize = other.size, size != otherSize { return false }
        if let sri, let otherSRI = other.sri, sri != otherSRI { return false }
        return true
    }
}
