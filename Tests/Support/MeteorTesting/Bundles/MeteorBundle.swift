import BundleDisk
import Glibc

/// A bundle that is ready to be written to disk, in either of two layouts.
package struct MeteorBundle: Sendable {
    /// A file with its places.
    package struct File: Sendable {
        /// Its path in the bundle layout.
        package let path: String
        /// Its path in the server layout; nil where no URL leads to it.
        package let urlPath: String?
        /// Its bytes.
        package let content: BundleContent
    }

    /// What the manifest says about an entry.
    package struct Entry: Sendable {
        /// `path`.
        package let path: String
        /// `url`, with prefix and query.
        package let url: String?
        /// `hash`.
        package let hash: String?
        /// `sri`.
        package let sri: String?
        /// `size`.
        package let size: Int?
        /// `sourceMapUrl`.
        package let sourceMapURL: String?
    }

    /// The version.
    package let version: String
    /// The bytes of the manifest; a test may put others there.
    package var manifest: [UInt8]
    /// The bytes of the page; a test may put others there.
    package var page: [UInt8]
    /// The files, without manifest and page.
    package var files: [File]
    /// The entries in order, without twins.
    package let entries: [Entry]

    /// The entry at a path of the bundle.
    package func entry(_ path: String) -> Entry? { entries.first { $0.path == path } }

    /// Writes `program.json`, `index.html` and every file at its `path`: a seed. `folder` must not exist or be empty.
    package func writeBundleLayout(to folder: String) throws {
        try write(to: folder, manifestName: "program.json") { $0.path }
    }

    /// Writes `manifest.json`, `index.html` and every file at its URL path: what a server serves. `folder` must not exist
    /// or be empty.
    package func writeServerLayout(to folder: String) throws {
        try write(to: folder, manifestName: "manifest.json") { $0.urlPath }
    }

    private func write(to folder: String, manifestName: String, place: (File) -> String?) throws {
        var writer = try BundleFolderWriter(folder)
        try writer.write(.bytes(manifest), to: manifestName)
        try writer.write(.bytes(page), to: "index.html")
        for file in files {
            if let path = place(file) { try writer.write(file.content, to: path) }
        }
    }
}

/// Writes the files of a bundle into a new folder; those on disk become hard links where the file system allows it.
struct BundleFolderWriter {
    private let folder: String
    private var folders: Set<String> = []
    private var written: Set<String> = []

    /// A folder that does not exist or is empty.
    init(_ folder: String) throws {
        try Directory.createAll(folder)
        guard try Directory.open(folder).entries().isEmpty else {
            throw BundleFolderError(message: "\(folder) is not empty; name a folder that does not exist")
        }
        self.folder = folder
    }

    mutating func write(_ content: BundleContent, to path: String) throws {
        guard !path.isEmpty, !path.hasPrefix("/"), !path.split(separator: "/").contains("..") else {
            throw BundleFolderError(message: "the path \"\(path)\" leads out of the bundle; use a relative one")
        }
        let target = "\(folder)/\(path)"
        try makeFolders(above: path)
        // Entries that share a place: the last one has it, as in the clients.
        if !written.insert(path).inserted { unlink(target) }
        switch content {
        case .file(let source):
            if link(source, target) == 0 { return }
            guard [EXDEV, EPERM, EMLINK, EOPNOTSUPP].contains(errno) else {
                throw BundleFolderError(
                    message: "cannot link \(source) to \(target): \(String(cString: strerror(errno)))")
            }
            try create(target, content)
        case .bytes: try create(target, content)
        }
    }

    private mutating func makeFolders(above path: String) throws {
        guard let slash = path.lastIndex(of: "/") else { return }
        let parent = String(path[..<slash])
        if folders.insert(parent).inserted { try Directory.createAll("\(folder)/\(parent)") }
    }

    private func create(_ target: String, _ content: BundleContent) throws {
        let descriptor = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else {
            throw BundleFolderError(message: "cannot create \(target): \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        try content.forEachBlock { block in
            var sent = 0
            while sent < block.count {
                let count = Glibc.write(descriptor, block.baseAddress.map { $0 + sent }, block.count - sent)
                guard count > 0 else {
                    throw BundleFolderError(message: "cannot write \(target): \(String(cString: strerror(errno)))")
                }
                sent += count
            }
        }
    }
}

/// Why a bundle cannot be made or written.
package struct BundleFolderError: Error, Sendable, CustomStringConvertible {
    let message: String

    /// One sentence: what is wrong, and what to do next.
    package var description: String { message }
}
