import BundleValues
package import BundleDisk

extension AssetMap {
    private static let scripts = ["cordova.js", "cordova_plugins.js"]
    private static let plugins = "plugins"

    /// Adds the files that the pages of a Cordova application name and no manifest lists (METEOR section 1.7): `cordova.js` and
    /// `cordova_plugins.js`, stand-ins where `folder` has none, and what is below its `plugins/`.
    ///
    /// An asset of the client goes before an extra of the same name; one that could not stand beside the assets is left out
    /// with a warning. Throws `DiskError` for a folder that cannot be listed.
    package mutating func addCordovaFiles(from folder: Directory?) throws {
        var places = Places(self)
        for name in Self.scripts {
            let path = try BundlePath(parsing: name)
            guard isFree(path, &places) else { continue }
            if let folder, case .file? = try folder.kind(of: name) {
                assets.append(Asset(urlPath: path, source: folder, path: path, isKnownFile: true))
            } else {
                let script =
                    name == Self.scripts[0]
                    ? PackageResources.cordova_js : Array("// There are no Cordova plugins in this shell.\n".utf8)
                generated.append(GeneratedFile(urlPath: path, bytes: script))
            }
        }
        guard let folder, case .directory? = try folder.kind(of: Self.plugins) else { return }
        var walk = TreeWalk(folder)
        try walk.visit(try folder.directory(Self.plugins), below: Array("\(Self.plugins)/".utf8))
        warnings += walk.warnings
        for asset in walk.assets where isFree(asset.urlPath, &places) { assets.append(asset) }
    }

    /// What the URL paths of a map leave free.
    private struct Places {
        let owned: Set<BundlePath>
        var survey: AssetSurvey

        init(_ map: AssetMap) {
            owned = Set(map.assets.map(\.urlPath))
            survey = AssetSurvey(expectedNames: owned.count)
            for asset in map.assets { survey.add(asset.urlPath) }
        }
    }

    private mutating func isFree(_ path: BundlePath, _ places: inout Places) -> Bool {
        if places.owned.contains(path) { return false }
        guard let finding = places.survey.addOptional(path) else { return true }
        warnings.append("\(path) is not served: \(finding).")
        return false
    }
}
