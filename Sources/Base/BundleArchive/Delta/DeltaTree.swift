package import BundleDisk
package import BundleSigning
package import BundleValues
import CLibrary

/// A tree of files in canonical order, the base or target of a delta.
package struct DeltaTree: Sendable {
    package struct TreeFile: Sendable {
        package let path: BundlePath
        /// The size in bytes.
        package let size: Int
        /// The SHA-256 of the content when it was written, if known.
        package let digest: SHA256Digest?

        package init(path: BundlePath, size: Int, digest: SHA256Digest? = nil) {
            self.path = path
            self.size = size
            self.digest = digest
        }
    }

    /// The folder of the tree.
    package let tree: Directory
    /// The files, sorted by the bytes of their paths.
    package let files: [TreeFile]
    /// The SHA-256 of the canonical tar.
    package let contentSha256: SHA256Digest

    /// `files` can be in any order.
    package init(tree: Directory, files: [TreeFile], contentSha256: SHA256Digest) {
        self.tree = tree
        self.files = files.sorted { $0.path < $1.path }
        self.contentSha256 = contentSha256
    }

    /// Returns the first file whose content differs from its digest, or nil.
    package func firstDamage() throws -> BundlePath? {
        for entry in files {
            if let digest = entry.digest, try self.digest(of: entry) != digest { return entry.path }
        }
        return nil
    }

    /// Returns the present SHA-256 of a file, or nil if the file is missing.
    func digest(of entry: TreeFile) throws -> SHA256Digest? {
        try tree.file(ifPresent: entry.path.string)?.sha256()
    }
    /// Returns the content of a file. Throws if it changed after it was listed.
    func contents(of entry: TreeFile) throws -> [UInt8] {
        let bytes = try tree.file(entry.path.string).readAll(maximumBytes: entry.size)
        guard bytes.count == entry.size else {
            throw UpdateFailure(
                .configInvalid, subject: entry.path.string,
                "\(entry.path) changed while it was read: let the build finish, then run it again.")
        }
        return bytes
    }

    /// Returns the tree with the digests of all files, so that several deltas share them.
    package func withDigests() throws -> DeltaTree {
        let files = zip(files, try digests()).map { TreeFile(path: $0.path, size: $0.size, digest: $1) }
        return DeltaTree(tree: tree, files: files, contentSha256: contentSha256)
    }

    /// Returns the digests of all files, and computes missing ones.
    func digests() throws -> [SHA256Digest] {
        try files.map { entry in
            if let noted = entry.digest { return noted }
            guard let digest = try digest(of: entry) else {
                throw DiskError("open", at: entry.path.string, code: ENOENT)
            }
            return digest
        }
    }
}
