package import BundleDisk
package import BundleSigning
package import BundleValues

/// Maps the URL paths of a client to its files. Every map is validated (METEOR section 5.1).
package struct AssetMap: Sendable {
    /// An asset and its file, which belongs to the client itself or to another one with the same content.
    package struct PlacedAsset: Sendable {
        /// The URL path. Query and fragment are ignored; `/` is the index page.
        package let url: String
        /// The folder of the file's client.
        package let source: Directory
        /// The path of the file, relative to `source`.
        package let file: String

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
        /// Whether a directory listing has shown that the source is a regular file.
        let isKnownFile: Bool
    }

    /// A file whose content is in memory.
    struct GeneratedFile: Sendable {
        let urlPath: BundlePath
        let bytes: [UInt8]
    }

    /// The extracted files of a folder from which files cannot be linked, by URL path.
    struct Extracted: Sendable {
        let source: Directory
        let root: Directory
        let urlPaths: [BundlePath: BundlePath]
    }

    var assets: [Asset]
    var extracted: Extracted?
    var generated: [GeneratedFile] = []
    /// The omitted files, one sentence each.
    var warnings: [String] = []

    /// Creates a map of files in any folders; two assets may share a file.
    ///
    /// Throws `OrganizingError.invalid` with every finding. Does not access the disk.
    package init(_ assets: [PlacedAsset]) throws(OrganizingError) {
        let survey = AssetSurvey(assets)
        if !survey.findings.isEmpty { throw .invalid(findings: survey.findings) }
        self.assets = survey.assets
    }

    /// Returns the rules that `assets` break, one clause each; empty if `init` accepts them.
    package static func findings(_ assets: [PlacedAsset]) -> [String] { AssetSurvey(assets).findings }

    /// Creates a map of all files below `tree`, with their paths as URL paths.
    ///
    /// Symbolic links, devices and invalid names are omitted with a warning. Links are never followed.
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

    /// Adds the files of a Cordova application that no manifest lists (METEOR section 1.7): `cordova.js` and
    /// `cordova_plugins.js`, with stand-ins if `folder` has none, and the files below its `plugins/`.
    ///
    /// An asset of the client wins over a file of the same name. A file that conflicts with the assets is omitted
    /// with a warning. Throws `DiskError` if a folder cannot be listed.
    package mutating func addCordovaFiles(from folder: Directory?) throws {
        var places = Places(self)
        for name in Self.scripts {
            let path = try BundlePath(parsing: name)
            guard isFree(path, in: &places) else { continue }
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
        for asset in walk.assets where isFree(asset.urlPath, in: &places) { assets.append(asset) }
    }

    /// The URL paths of a map, to find free ones.
    private struct Places {
        let owned: Set<BundlePath>
        var survey: AssetSurvey

        init(_ map: AssetMap) {
            owned = Set(map.assets.map(\.urlPath))
            survey = AssetSurvey(expectedNames: owned.count)
            for asset in map.assets { survey.add(asset.urlPath) }
        }
    }

    private mutating func isFree(_ path: BundlePath, in places: inout Places) -> Bool {
        if places.owned.contains(path) { return false }
        guard let finding = places.survey.addOptional(path) else { return true }
        warnings.append("\(path) is not served: \(finding).")
        return false
    }
}

/// The facts about a client's files in its manifest and receipt, for a server; by URL path without the leading slash.
package struct AssetLabels: Sendable, Equatable {
    package struct Label: Sendable, Equatable {
        /// The hash in the asset manifest; nil for a file without one.
        package let hash: String?
        /// The digest of the content, from the receipt; nil if it is unknown.
        package let digest: SHA256Digest?
        /// The URL path of the source map, with a leading slash.
        package let sourceMapURL: String?

        package init(hash: String? = nil, digest: SHA256Digest? = nil, sourceMapURL: String? = nil) {
            self.hash = hash
            self.digest = digest
            self.sourceMapURL = sourceMapURL
        }
    }

    private let labels: [BundlePath: Label]

    /// Creates labels by URL path.
    package init(_ labels: [BundlePath: Label]) { self.labels = labels }

    /// Returns the label of a URL path; nil if the manifest does not list it.
    package subscript(_ urlPath: BundlePath) -> Label? { labels[urlPath] }

    /// No labels.
    package static let none = AssetLabels([:])
}

/// Checks the assets of a bundle before anything is written (METEOR section 5.1).
private struct AssetSurvey {
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

/// Collects the regular files of a folder. Links, devices and invalid names are omitted with a warning.
private struct TreeWalk {
    private let tree: Directory
    private(set) var assets: [AssetMap.Asset] = []
    private(set) var warnings: [String] = []

    init(_ tree: Directory) { self.tree = tree }

    /// Adds the files of a folder before those of its subfolders, so that each folder is opened once.
    mutating func visit(_ folder: Directory, below prefix: [UInt8]) throws {
        var folders: [BundlePath] = []
        for entry in try folder.entries() {
            let bytes = prefix + entry.name
            switch entry.kind {
            case .symbolicLink: warnings.append("\(UntrustedName.display(bytes)) is a symbolic link; it is not served.")
            case .other: warnings.append("\(UntrustedName.display(bytes)) is not a regular file; it is not served.")
            case .file, .directory:
                do throws(BundlePathError) {
                    let path = try BundlePath(parsing: bytes)
                    if entry.kind == .directory {
                        folders.append(path)
                    } else {
                        assets.append(AssetMap.Asset(urlPath: path, source: tree, path: path, isKnownFile: true))
                    }
                } catch {
                    warnings.append("\(UntrustedName.display(bytes)) is not served (\(error.rule)).")
                }
            }
        }
        for path in folders {
            try visit(try folder.directory(path.name), below: path.bytes + [UInt8(ascii: "/")])
        }
    }
}
