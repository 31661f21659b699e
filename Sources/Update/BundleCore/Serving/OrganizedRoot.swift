package import BundleDisk

/// A complete serving root: a client's files by URL path, its index page with the shim. For reading only, since the files
/// are those of the store. Only `BundleOrganizer` gives one out.
public struct OrganizedRoot: Sendable {
    /// Its name in the serving folder.
    public let name: String
    /// The folder.
    package let directory: Directory
    /// What was left out when it was made, one sentence each; empty for one that was found.
    public let warnings: [String]

    init(name: String, directory: Directory, warnings: [String]) {
        self.name = name
        self.directory = directory
        self.warnings = warnings
    }

    /// The folder's path, as the serving folder was opened.
    public var path: String { directory.path }
}
