extension Directory {
    /// The paths of all regular files below this directory, in no order, as the kernel's bytes; links and what is neither file
    /// nor directory are left out. Costs one listing a directory, and no look at any file.
    package func filePaths() throws(DiskError) -> [[UInt8]] {
        var paths: [[UInt8]] = []
        var directories: [[UInt8]] = [[]]
        while let prefix = directories.popLast() {
            // A file system outside may have names that are not UTF-8; nobody can ask for those.
            guard let name = String(validating: prefix.dropLast(), as: UTF8.self) else { continue }
            for entry in try (prefix.isEmpty ? self : directory(name)).entries() {
                switch entry.kind {
                case .file: paths.append(prefix + entry.name)
                case .directory: directories.append(prefix + entry.name + [UInt8(ascii: "/")])
                case .symbolicLink, .other: break
                }
            }
        }
        return paths
    }
}
