import BundleDisk

/// Decides which file of the seed replaces an asset of a new bundle (METEOR section 3.3). Files of the seed are
/// inherited, never copied, so the decision must be the same when the bundle is launched. It depends only on both
/// manifests and the files of the seed.
struct InheritanceRule {
    private var byURL: [String: MeteorAsset] = [:]
    private var byHash: [String: MeteorAsset] = [:]
    private let folders: FolderCache

    /// `assets` is the manifest of the seed in `folder`.
    init(seed assets: [MeteorAsset], in folder: Directory) {
        folders = FolderCache(folder)
        for asset in assets where asset.kind != .index {
            byURL[asset.urlPath] = asset
            if let hash = asset.hash { byHash[hash] = asset }
        }
    }

    /// Returns the seed's asset with the same content by both manifests: under the same URL path, or otherwise under
    /// another one with the same hash. Returns nil if the seed has no such file.
    func equal(to asset: MeteorAsset) throws -> MeteorAsset? {
        if asset.kind == .index { return nil }
        if let same = byURL[asset.urlPath], same.isReusable(for: asset), try exists(same) { return same }
        if let hash = asset.hash, let same = byHash[hash], try exists(same) { return same }
        return nil
    }

    /// Returns the seed's asset under the same URL path with any hash, because a newer server can name the same content
    /// differently.
    func neighbour(of asset: MeteorAsset) throws -> MeteorAsset? {
        guard asset.kind != .index, let same = byURL[asset.urlPath], try exists(same) else { return nil }
        return same
    }

    private func exists(_ asset: MeteorAsset) throws(DiskError) -> Bool {
        try folders.size(of: asset.file) != nil
    }
}
