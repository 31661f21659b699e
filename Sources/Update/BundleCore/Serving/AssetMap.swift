import BundleValues
package import BundleDisk

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

    var assets: [Asset]
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
