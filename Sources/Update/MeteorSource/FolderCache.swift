import BundleValues
import BundleDisk

/// Looks files up below one folder. Keeps the folder that was used last open: neighbours in a manifest are neighbours on the
/// disk. Used by one thread at a time.
final class FolderCache {
    private let root: Directory
    private var last: (path: ArraySlice<UInt8>, folder: Directory)?

    init(_ root: Directory) { self.root = root }

    /// The bytes of the regular file at `path`; nil where there is none.
    func size(of path: BundlePath) throws(DiskError) -> Int? {
        do {
            guard case .file(let size)? = try folder(of: path).kind(of: path.name) else { return nil }
            return size
        } catch {
            if [.missing, .unsuitable].contains(error.kind) { return nil }
            throw error
        }
    }

    /// The file at `path`, open; nil where there is none.
    func file(_ path: BundlePath) throws(DiskError) -> File? {
        do {
            return try folder(of: path).file(path.name)
        } catch {
            if [.missing, .unsuitable].contains(error.kind) { return nil }
            throw error
        }
    }

    /// The folder that holds `path`.
    func folder(of path: BundlePath) throws(DiskError) -> Directory {
        guard let slash = path.bytes.lastIndex(of: UInt8(ascii: "/")) else { return root }
        let path = path.bytes[..<slash]
        if let last, last.path.elementsEqual(path) { return last.folder }
        let folder = try root.directory(String(decoding: path, as: UTF8.self))
        last = (path, folder)
        return folder
    }
}
