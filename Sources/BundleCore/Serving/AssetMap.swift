public import BundleDisk

/// Which file answers for which URL path of a client. Every map has passed validation (METEOR section 5.1).
public struct AssetMap: Sendable {
    /// An asset as a manifest names it.
    public struct OwnAsset: Sendable, Equatable {
        /// The URL path; query and fragment do not count, `/` is the index page.
        public let url: String
        /// The file, relative to the folder of the client.
        public let file: String

        /// Names both.
        public init(url: String, file: String) {
            self.url = url
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

    let assets: [Asset]
    /// What was left out, one sentence each.
    let warnings: [String]

    /// The assets that a manifest lists, with files in `folder`, and those of `parent` whose URL path none of them has.
    ///
    /// Throws `OrganizingError.invalid` with every finding; reads nothing from the disk.
    public init(_ own: [OwnAsset], in folder: Directory, inheriting parent: AssetMap? = nil) throws(OrganizingError) {
        let survey = AssetSurvey(own, inheriting: parent)
        if !survey.findings.isEmpty { throw .invalid(findings: survey.findings) }
        assets =
            survey.own.map { Asset(urlPath: $0.urlPath, source: folder, path: $0.path, isKnownFile: false) }
            + survey.inherited
        warnings = parent?.warnings ?? []
    }

    /// What speaks against these assets, one clause each, by every rule; empty where `init` accepts them.
    public static func findings(_ own: [OwnAsset], inheriting parent: AssetMap? = nil) -> [String] {
        AssetSurvey(own, inheriting: parent).findings
    }

    /// Every file below `tree`, under the URL path that its path is.
    ///
    /// Symbolic links, devices and names that are no legal paths are left out with a warning, never followed.
    public init(tree: Directory) throws {
        var walk = TreeWalk(tree)
        try walk.visit(tree, below: [])
        var survey = AssetSurvey(expectedNames: walk.assets.count)
        for asset in walk.assets { survey.add(asset.urlPath) }
        if !survey.findings.isEmpty { throw OrganizingError.invalid(findings: survey.findings) }
        assets = walk.assets
        warnings = walk.warnings
    }
}

private struct TreeWalk {
    let tree: Directory
    var assets: [AssetMap.Asset] = []
    var warnings: [String] = []

    init(_ tree: Directory) { self.tree = tree }

    /// Files first: whoever links them then needs each folder once.
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
