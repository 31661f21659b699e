import BundleValues
import BundleDisk

/// Looks up files below a folder and keeps the last folder open, because neighbors in a manifest are in the same folder.
/// Only one thread may use it at a time.
final class FolderCache {
    private let root: Directory
    private var last: (path: ArraySlice<UInt8>, folder: Directory)?

    init(_ root: Directory) { self.root = root }

    /// Returns the size of the regular file at `path`, or nil if there is none.
    func size(of path: BundlePath) throws(DiskError) -> Int? {
        guard case .file(let size)? = try folder(of: path)?.kind(of: path.name) else { return nil }
        return size
    }

    /// Opens the file at `path`, or returns nil if there is none.
    func file(_ path: BundlePath) throws(DiskError) -> File? {
        try folder(of: path)?.file(ifPresent: path.name)
    }

    /// Returns the folder that contains `path`, or nil if there is none.
    func folder(of path: BundlePath) throws(DiskError) -> Directory? {
        let parent = path.parentBytes
        if parent.isEmpty { return root }
        if let last, last.path.elementsEqual(parent) { return last.folder }
        guard let folder = try root.directory(ifPresent: String(decoding: parent, as: UTF8.self)) else { return nil }
        last = (parent, folder)
        return folder
    }
}
