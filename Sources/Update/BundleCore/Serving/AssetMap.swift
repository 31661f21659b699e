package import BundleDisk
package import BundleSigning
package import BundleValues

/// Which file answers for which URL path of a client. Every map has passed validation (METEOR section 5.1).
package struct AssetMap: Sendable {
    /// An asset, and where its file is: with the client that owns it, or with another one that has the same content.
    package struct PlacedAsset: Sendable {
        /// The URL path; query and fragment do not count, `/` is the index page.
        package let url: String
        /// The folder of a client.
        package let source: Directory
        /// The file, relative to `source`.
        package let file: String

        /// Names all three.
        package init(url: String, source: Directory, file: String) {
            self.url = url
            self.source = source
            self.file = file
        }
    }

    struct Asset: Sendable {
        let urlPath: BundlePath
        let source: Directory
        let path: BundlePath
        /// Whether a listing has said already that the source is a regular file.
        let isKnownFile: Bool
    }

    /// A file that no folder has.
    struct GeneratedFile: Sendable {
        let urlPath: BundlePath
        let bytes: [UInt8]
    }

    /// Where files of a folder are that cannot be linked from there: extracted once, under their URL paths.
    struct Extracted: Sendable {
        let source: Directory
        let root: Directory
        let urlPaths: [BundlePath: BundlePath]
    }

    var assets: [Asset]
    var extracted: Extracted?
    var generated: [GeneratedFile] = []
    /// What was left out, one sentence each.
    var warnings: [String] = []

    /// Assets with files in any folders; two of them may have one file.
    ///
    /// Throws `OrganizingError.invalid` with every finding; reads nothing from the disk.
    package init(_ assets: [PlacedAsset]) throws(OrganizingError) {
        let survey = AssetSurvey(assets)
        if !survey.findings.isEmpty { throw .invalid(findings: survey.findings) }
        self.assets = survey.assets
    }

    /// What speaks against these assets, one clause each, by every rule; empty where `init` accepts them.
    package static func findings(_ assets: [PlacedAsset]) -> [String] { AssetSurvey(assets).findings }

    /// Every file below `tree`, under the URL path that its path is.
    ///
    /// Symbolic links, devices and names that are no legal paths are left out with a warning, never followed.
    package init(tree: Directory) throws {
        var walk = TreeWalk(tree)
        try walk.visit(tree, below: [])
        var survey = AssetSurvey(expectedNames: walk.assets.count)
        for asset in walk.assets { survey.add(asset.urlPath) }
        if !survey.findings.isEmpty { throw OrganizingError.invalid(findings: survey.findings) }
        assets = walk.assets
        warnings = walk.warnings
    }
}

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

/// What the manifest and the receipt of a client contain about its files, for a server; by URL path without the leading slash.
package struct AssetLabels: Sendable, Equatable {
    /// What is known about one file.
    package struct Label: Sendable, Equatable {
        /// The hash that the asset manifest claims for its content; nil for a file without one.
        package let hash: String?
        /// The digest of its content, from the receipt; nil for a file whose digest is not known.
        package let digest: SHA256Digest?
        /// The URL path of its source map, with a leading slash.
        package let sourceMapURL: String?

        /// States a label.
        package init(hash: String? = nil, digest: SHA256Digest? = nil, sourceMapURL: String? = nil) {
            self.hash = hash
            self.digest = digest
            self.sourceMapURL = sourceMapURL
        }
    }

    private let labels: [BundlePath: Label]

    /// Labels by URL path.
    package init(_ labels: [BundlePath: Label]) { self.labels = labels }

    /// What is said about the asset at a URL path; nil for one that the manifest does not list.
    package subscript(_ urlPath: BundlePath) -> Label? { labels[urlPath] }

    /// Nothing is said about anything.
    package static let none = AssetLabels([:])
}
