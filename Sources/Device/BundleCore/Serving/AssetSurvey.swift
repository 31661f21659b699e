import BundleValues

/// Checks the assets of a bundle before anything is written (METEOR section 5.1).
struct AssetSurvey {
    /// One clause for each broken rule.
    private(set) var findings: [String] = []
    private(set) var assets: [AssetMap.Asset] = []

    private var names: PathCollisions

    init(expectedNames: Int) { names = PathCollisions(of: "URL path", expectedNames: expectedNames) }

    init(_ placed: [AssetMap.PlacedAsset]) {
        self.init(expectedNames: placed.count)
        for asset in placed {
            let urlPath = path(of: asset.url)
            let file = file(asset.file)
            guard let urlPath else { continue }
            add(urlPath)
            guard let file else { continue }
            assets.append(AssetMap.Asset(urlPath: urlPath, source: asset.source, path: file, isKnownFile: false))
        }
    }

    private mutating func path(of url: String) -> BundlePath? {
        do throws(URLPathError) {
            return try BundlePath(url: url)
        } catch {
            findings.append("URL path \(UntrustedName.display(url)): \(error)")
            return nil
        }
    }

    private mutating func file(_ text: String) -> BundlePath? {
        do throws(BundlePathError) {
            return try BundlePath(parsing: text)
        } catch {
            findings.append("file path \(UntrustedName.display(text)): \(error.rule)")
            return nil
        }
    }

    /// Adds a URL path and its folders. Records a finding if no file system could store it beside the others.
    mutating func add(_ path: BundlePath) { findings += names.add(path) }

    /// Adds a path that may be omitted. Returns the conflict instead of recording it.
    mutating func addOptional(_ path: BundlePath) -> String? { names.add(path).first }
}
