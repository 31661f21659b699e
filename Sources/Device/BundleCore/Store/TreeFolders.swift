package import BundleValues
package import BundleDisk

/// Caches the open folders of a growing tree and creates them when needed. Use it on one thread at a time; several
/// caches may share a tree.
package final class TreeFolders {
    /// A client may have thousands of folders, but a process often only 1024 descriptors.
    private static let capacity = 64

    private let root: Directory
    private var folders: [ArraySlice<UInt8>: Directory] = [:]
    private var last: (path: ArraySlice<UInt8>, folder: Directory)?

    /// Creates the cache for the tree in `root`.
    package init(root: Directory) { self.root = root }

    /// Returns the parent folder of `path`.
    package func folder(of path: BundlePath) throws(DiskError) -> Directory {
        guard let slash = path.bytes.lastIndex(of: UInt8(ascii: "/")) else { return root }
        return try folder(path.bytes[..<slash])
    }

    package func folder(at path: BundlePath) throws(DiskError) -> Directory { try folder(path.bytes[...]) }

    private func folder(_ path: ArraySlice<UInt8>) throws(DiskError) -> Directory {
        if let last, last.path.elementsEqual(path) { return last.folder }
        let folder: Directory
        if let known = folders[path] {
            folder = known
        } else {
            let slash = path.lastIndex(of: UInt8(ascii: "/"))
            let parent = try slash.map { index throws(DiskError) in try self.folder(path[..<index]) } ?? root
            let name = path[(slash.map { $0 + 1 } ?? path.startIndex)...]
            folder = try parent.directory(creating: String(decoding: name, as: UTF8.self))
            if folders.count == Self.capacity { folders.removeAll(keepingCapacity: true) }
            folders[path] = folder
        }
        last = (path, folder)
        return folder
    }
}
