import BundleValues
import BundleDisk

/// Collects the regular files of a folder. Links, devices and invalid names are omitted with a warning.
struct TreeWalk {
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
