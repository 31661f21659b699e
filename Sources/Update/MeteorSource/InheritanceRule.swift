import BundleDisk

/// Which file of the seed can stand for an asset of a new bundle (METEOR section 3.3). It is inherited, never copied, so the
/// same answer must be found again when the bundle is organized: it depends on both manifests and the seed's files only.
struct InheritanceRule {
    private var byURL: [String: MeteorAsset] = [:]
    private var byHash: [String: MeteorAsset] = [:]
    private let folders: FolderCache

    /// The seed in `folder`, whose manifest lists `assets`.
    init(seed assets: [MeteorAsset], in folder: Directory) {
        folders = FolderCache(folder)
        for asset in assets where asset.kind != .index {
            byURL[asset.urlPath] = asset
            if let hash = asset.hash { byHash[hash] = asset }
        }
    }

    /// The seed's asset that has the content of `asset` by the word of both manifests: under the same URL path, else under
    /// another one with the same hash. Nil where the seed has no such file.
    func equal(to asset: MeteorAsset) throws -> MeteorAsset? {
        if asset.kind == .index { return nil }
        if let same = byURL[asset.urlPath], same.isReusable(for: asset), try exists(same) { return same }
        if let hash = asset.hash, let same = byHash[hash], try exists(same) { return same }
        return nil
    }

    /// The seed's asset under the same URL path, whatever its hash says: a newer server may call the same bytes otherwise.
    func neighbour(of asset: MeteorAsset) throws -> MeteorAsset? {
        guard asset.kind != .index, let same = byURL[asset.urlPath], try exists(same) else { return nil }
        return same
    }

    private func exists(_ asset: MeteorAsset) throws(DiskError) -> Bool {
        try folders.size(of: asset.file) != nil
    }
}
