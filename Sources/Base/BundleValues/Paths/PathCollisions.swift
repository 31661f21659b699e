/// Finds what no file system could hold side by side: names that differ only in case or normalisation, and a name that is both
/// a file and a folder (METEOR section 5.1).
package struct PathCollisions: Sendable {
    /// How many folders there are so far; who takes names from outside bounds them, for each is kept in memory.
    package private(set) var folderCount = 0

    private let noun: String
    /// By the hash of the name that files and folders collide under.
    private var taken: [UInt64: (path: BundlePath, isFolder: Bool)] = [:]
    private var lastParent: BundlePath?

    /// Starts without names; `noun` says in findings what the paths are: "URL path".
    package init(of noun: String, expectedNames: Int = 0) {
        self.noun = noun
        taken.reserveCapacity(expectedNames)
    }

    /// Takes a path, and its folders; says what speaks against it, one clause each.
    package mutating func add(_ path: BundlePath) -> [String] {
        var findings: [String] = []
        addFolders(above: path, &findings)
        if let other = take(path, isFolder: false) {
            findings.append(
                other.path != path
                    ? collision(other.path, path)
                    : other.isFolder ? clash(path) : "Duplicate normalized \(noun): \(path)")
        }
        // Its folder may be none: the next path below it is looked at anew.
        if !findings.isEmpty { lastParent = nil }
        return findings
    }

    private mutating func addFolders(above path: BundlePath, _ findings: inout [String]) {
        if lastParent?.bytes.elementsEqual(path.parentBytes) ?? path.parentBytes.isEmpty { return }
        guard let folder = path.parent else { return }
        addFolders(above: folder, &findings)
        lastParent = folder
        guard let other = take(folder, isFolder: true) else {
            folderCount += 1
            return
        }
        if other.path != folder {
            findings.append(collision(other.path, folder))
        } else if !other.isFolder {
            findings.append(clash(folder))
        }
    }

    /// Who has the name already; nil where nobody had.
    private mutating func take(_ path: BundlePath, isFolder: Bool) -> (path: BundlePath, isFolder: Bool)? {
        let key = FoldedName.hash(of: path.bytes[...])
        if let other = taken[key] { return other }
        taken[key] = (path, isFolder)
        return nil
    }

    private func collision(_ first: BundlePath, _ second: BundlePath) -> String {
        "\(noun)s \(first) and \(second) differ only in case or normalisation"
    }

    private func clash(_ path: BundlePath) -> String { "\(noun) \(path) is a file and a folder" }
}
