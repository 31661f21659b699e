import BundleDisk
import Glibc

/// A bundle that can be written to disk in two layouts.
package struct MeteorBundle: Sendable {
    package struct File: Sendable {
        /// The path in the bundle layout.
        package let path: String
        /// The path in the server layout; nil if no URL leads to the file.
        package let urlPath: String?
        package let content: BundleContent
    }

    /// The members of an entry in the manifest.
    package struct Entry: Sendable {
        package let path: String
        /// The URL with prefix and query.
        package let url: String?
        package let hash: String?
        package let sri: String?
        package let size: Int?
        package let sourceMapURL: String?
    }

    package let version: String
    /// The bytes of the manifest, which a test can replace.
    package var manifest: [UInt8]
    /// The bytes of the page, which a test can replace.
    package var page: [UInt8]
    /// The files without manifest and page.
    package var files: [File]
    /// The entries in order, without copies.
    package let entries: [Entry]

    /// Returns the entry at a path of the bundle.
    package func entry(_ path: String) -> Entry? { entries.first { $0.path == path } }

    /// Writes `program.json`, `index.html` and each file at its `path`, as in a seed. `folder` must be missing or empty.
    package func writeBundleLayout(to folder: String) throws {
        try write(to: folder, manifestName: "program.json") { $0.path }
    }

    /// Writes `manifest.json`, `index.html` and each file at its URL path, as on a server. `folder` must be missing or
    /// empty.
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

/// Writes the files of a bundle into a new folder. Files on disk become hard links if possible.
struct BundleFolderWriter {
    private let folder: String
    private var folders: Set<String> = []
    private var written: Set<String> = []

    /// `folder` must be missing or empty.
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
        // The last of several entries with one path wins, as in clients.
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

/// The reason why a bundle cannot be created or written.
package struct BundleFolderError: Error, Sendable, CustomStringConvertible {
    let message: String

    package var description: String { message }
}
