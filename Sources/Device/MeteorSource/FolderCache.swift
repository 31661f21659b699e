import BundleValues
import BundleDisk

/// Looks up files below a folder and keeps the last folder open, because neighbours in a manifest are in the same folder.
/// Only one thread may use it at a time.
final class FolderCache {
    private let root: Directory
    private var last: (path: ArraySlice<UInt8>, folder: Directory)?

    init(_ root: Directory) { self.root = root }

    /// Returns the size of the regular file at `path`, or nil if there is none.
    func size(of path: BundlePath) throws(DiskError) -> Int? {
        do {
            guard case .file(let size)? = try folder(of: path).kind(of: path.name) else { return nil }
            return size
        } catch {
            if [.missing, .unsuitable].contains(error.kind) { return nil }
            throw error
        }
    }

    /// Opens the file at `path`, or returns nil if there is none.
    func file(_ path: BundlePath) throws(DiskError) -> File? {
        do {
            return try folder(of: path).file(path.name)
        } catch {
            if [.missing, .unsuitable].contains(error.kind) { return nil }
            throw error
        }
    }

    /// Returns the folder that contains `path`.
    func folder(of path: BundlePath) throws(DiskError) -> Directory {
        guard let slash = path.bytes.lastIndex(of: UInt8(ascii: "/")) else { return root }
        let path = path.bytes[..<slash]
        if let last, last.path.elementsEqual(path) { return last.folder }
        let folder = try root.directory(String(decoding: path, as: UTF8.self))
        last = (path, folder)
        return folder
    }
}
