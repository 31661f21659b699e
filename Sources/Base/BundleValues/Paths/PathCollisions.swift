/// Finds paths that cannot exist side by side on every file system: names that differ only in case or normalization, and
/// a name that is both a file and a folder (METEOR section 5.1).
package struct PathCollisions: Sendable {
    /// The number of folders so far. Each is stored, so callers limit it for names from outside.
    package private(set) var folderCount = 0

    private let noun: String
    /// The paths by the hash of their folded name.
    private var claimed: [UInt64: (path: BundlePath, isFolder: Bool)] = [:]
    private var lastParent: BundlePath?

    /// `noun` names the paths in findings, such as "URL path".
    package init(of noun: String, expectedNames: Int = 0) {
        self.noun = noun
        claimed.reserveCapacity(expectedNames)
    }

    /// Adds a path and its folders. Returns one clause for each collision with earlier paths.
    package mutating func add(_ path: BundlePath) -> [String] {
        var findings: [String] = []
        addFolders(above: path, &findings)
        if let other = claim(path, isFolder: false) {
            findings.append(
                other.path != path
                    ? collision(between: other.path, path)
                    : other.isFolder ? clash(path) : "Duplicate normalized \(noun): \(path)")
        }
        // A folder of this path can be invalid, so the next path must check its folders again.
        if !findings.isEmpty { lastParent = nil }
        return findings
    }

    private mutating func addFolders(above path: BundlePath, _ findings: inout [String]) {
        if lastParent?.bytes.elementsEqual(path.parentBytes) ?? path.parentBytes.isEmpty { return }
        guard let folder = path.parent else { return }
        addFolders(above: folder, &findings)
        lastParent = folder
        guard let other = claim(folder, isFolder: true) else {
            folderCount += 1
            return
        }
        if other.path != folder {
            findings.append(collision(between: other.path, folder))
        } else if !other.isFolder {
            findings.append(clash(folder))
        }
    }

    /// Adds a path. Returns the earlier path that has the same folded name, if any.
    private mutating func claim(_ path: BundlePath, isFolder: Bool) -> (path: BundlePath, isFolder: Bool)? {
        let key = FoldedName.hash(of: path.bytes[...])
        if let other = claimed[key] { return other }
        claimed[key] = (path, isFolder)
        return nil
    }

    private func collision(between first: BundlePath, _ second: BundlePath) -> String {
        "\(noun)s \(first) and \(second) differ only in case or normalization"
    }

    private func clash(_ path: BundlePath) -> String { "\(noun) \(path) is a file and a folder" }
}
