// fuzz: max_len=8192
//
// Reads the asset manifest of a Meteor client. Accepted files can be stored and served.
@testable import BundleCore
@testable import BundleValues
@testable import MeteorSource

private let limits: AssetManifestLimits = {
    var limits = AssetManifestLimits()
    (limits.bytes, limits.entries, limits.folders) = (8192, 64, 64)
    return limits
}()

func fuzz(_ input: [UInt8]) throws {
    let manifest: AssetManifest
    do {
        manifest = try AssetManifest(parsing: input, limits: limits)
    } catch let error as AssetManifestError {
        require(!error.failure.message.isEmpty, "a refusal has a message")
        return
    }
    require(manifest.bytes == input, "the document is kept as received")
    require(manifest.assets.last == .index, "the page is the last file")
    try check(manifest.assets)
    try checkRereading(manifest)
    for platform in [MeteorPlatform.android, .ios] { _ = try? manifest.requireCompatibility(of: platform) }
}

private func check(_ assets: [MeteorAsset]) throws {
    var collisions = PathCollisions(of: "file")
    var files: [BundlePath: MeteorAsset] = [:]
    var urls: Set<[UInt8]> = []
    _ = collisions.add(.assetManifest)
    for asset in assets {
        require((try? BundlePath(parsing: asset.file.bytes)) == asset.file, "a file is a path")
        require(
            asset.urlPath.utf8.first == 0x2F && MeteorAsset.urlPath(of: asset.urlPath) == asset.urlPath, "a URL path")
        require((try? BundlePath(url: asset.urlPath)) != nil, "a URL path is a path in the bundle")
        require(urls.insert(Array(asset.urlPath.utf8)).inserted, "each URL path is unique")
        require(asset.sri == nil || asset.sri?.count == 64, "an sri is a SHA-512")
        require(asset.size.map { $0 >= 0 } ?? true, "a size is not negative")
        if let twin = files.updateValue(asset, forKey: asset.file) {
            require(twin.hash == asset.hash, "equal files have equal content")
        } else {
            require(collisions.add(asset.file).isEmpty, "the names of files do not collide")
        }
        checkFetch(asset)
    }
}

private func checkFetch(_ asset: MeteorAsset) {
    guard let root = try? FetchURL(parsing: "https://h.example/sub"), let urls = try? MeteorURLs(rootURL: root) else {
        fatalError("a plain root URL is valid")
    }
    let url = require(try? urls.asset(asset.urlPath), "an asset can be fetched")
    require(
        url.origin == root.origin && url.description.hasPrefix(urls.index.description),
        "the URL of an asset is below its server's folder")
}

private func checkRereading(_ manifest: AssetManifest) throws {
    let again = try AssetManifest(rereading: manifest.bytes)
    require(again.version == manifest.version, "a written manifest is read with the same version")
    // Only the check of names removes duplicates.
    var urls: Set<String> = []
    require(
        again.assets.filter { urls.insert($0.urlPath).inserted } == manifest.assets,
        "a written manifest is read with the same files")
    for asset in manifest.assets { require(manifest.asset(at: asset.urlPath + "?x#y") == asset, "each file is found") }
}
