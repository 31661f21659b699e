package import BundleDisk
package import BundleValues

/// Creates serving roots: a folder of hard links by URL path for each client (METEOR section 5.2).
///
/// A root is built under a temporary name and renamed when it is durable, so a root with its final name is complete.
/// Callers need the store's lock.
package struct BundleOrganizer: Sendable {
    private static let asidePrefix = ".new-"
    private static let trashPrefix = ".old-"

    private let serving: Directory

    /// Creates an organizer for the folder `serving`. Files from another file system are copied.
    package init(serving: Directory) { self.serving = serving }

    /// Returns the root `name`, and creates it from `map` if it is missing. An existing root is not inspected.
    ///
    /// The index page gets the shim. A missing source file is omitted with a warning, a missing source map silently;
    /// a missing index page is an error. After an error there is no root with this name.
    package func organize(_ map: AssetMap, as name: String) throws -> OrganizedRoot {
        if let root = try existing(name) { return root }
        let aside = randomName(Self.asidePrefix)
        try serving.makeDirectory(aside)
        do {
            let folder = try serving.directory(aside)
            var builder = RootBuilder(folder)
            try builder.build(map)
            // No root gets its final name before all its bytes are on the disk.
            try folder.syncFileSystem()
            try serving.move(aside, to: serving, as: name)
            try serving.sync()
            return OrganizedRoot(
                name: name, directory: try serving.directory(name), assets: nil, warnings: builder.warnings)
        } catch {
            try? serving.removeTree(aside)
            throw error
        }
    }

    /// Returns the root `name`; nil if it does not exist. Removes a root without an index page and returns nil.
    package func existing(_ name: String) throws -> OrganizedRoot? {
        try Self.requireLegal(name)
        do {
            let root = try serving.directory(name)
            if case .file? = try root.kind(of: BundlePath.index.string) {
                return OrganizedRoot(name: name, directory: root, assets: nil, warnings: [])
            }
        } catch {
            if error.kind == .missing { return nil }
            // An entry that is not a folder is not a root, and is removed.
            guard error.kind == .unsuitable else { throw error }
        }
        try remove(name)
        return nil
    }

    /// Returns the client in its own `folder`, without writing, for a disk that cannot have its root.
    static func inPlace(_ map: AssetMap, in folder: Directory, as name: String) throws -> OrganizedRoot {
        let root = OrganizedRoot(name: name, directory: folder, assets: map, warnings: map.warnings)
        _ = try root.page()
        return root
    }

    /// Removes the root `name`: first its name in one rename, then its files. Does nothing if there is none. Files that cannot be removed
    /// stay for `clearRemoved`.
    package func remove(_ name: String) throws {
        try Self.requireLegal(name)
        let trash = randomName(Self.trashPrefix)
        do {
            try serving.move(name, to: serving, as: trash)
        } catch {
            guard error.kind == .missing else { throw error }
            return
        }
        // Without the sync, a power cut could restore the name without some of the files.
        try serving.sync()
        try? serving.removeTree(trash)
    }

    /// Removes temporary folders of interrupted calls. Only for the store's shell, since another shell may be
    /// organizing.
    package func clear() throws {
        try [Self.asidePrefix, Self.trashPrefix].attemptEach(clear)
    }

    /// Removes the files of roots whose removal was interrupted. Such a root has no name, so no server uses it.
    func clearRemoved() throws { try clear(Self.trashPrefix) }

    private func clear(_ prefix: String) throws {
        try serving.list().filter { $0.hasPrefix(prefix) }.attemptEach { try serving.removeTree($0) }
    }

    private static func requireLegal(_ name: String) throws(OrganizingError) {
        do throws(BundlePathError) {
            let path = try BundlePath(parsing: name)
            if path.parent == nil && path.bytes.first != UInt8(ascii: ".") { return }
        } catch {}
        throw .illegalName(name)
    }
}

/// A complete serving root: a client's files by URL path, and its index page with the shim. Read-only, since the
/// files are hard links to the store's. Only `BundleOrganizer` creates it.
///
/// If a root could not be created, the files stay in their folder, and no file has the shim: `isInPlace`.
public struct OrganizedRoot: Sendable {
    /// The name in the serving folder.
    public let name: String
    package let directory: Directory
    /// The files that were omitted when the root was created, one sentence each; empty for an existing root.
    public let warnings: [String]
    /// The files of a client that is shown in place.
    private let assets: AssetMap?

    init(name: String, directory: Directory, assets: AssetMap?, warnings: [String]) {
        self.name = name
        self.directory = directory
        self.assets = assets
        self.warnings = warnings
    }

    /// The path of the root, or of the folder that is shown in place.
    public var path: String { directory.path }

    /// Whether the files are in the client's own folder. Then `places` maps URL paths to files, and only `page()` has
    /// the shim.
    public var isInPlace: Bool { assets != nil }

    /// Returns the index page with the shim.
    package func page() throws -> [UInt8] {
        guard let assets else { return try directory.file(BundlePath.index.string).readAll() }
        guard let index = assets.assets.first(where: { $0.urlPath == BundlePath.index }) else {
            throw OrganizingError.indexMissing(path: BundlePath.index.string)
        }
        return ShimInjector.inject(into: try index.source.file(index.path.string).readAll())
    }

    /// The files of a client that is shown in place, by the bytes of their URL paths.
    package var places: [[UInt8]: FilePlace] {
        var places: [[UInt8]: FilePlace] = [:]
        for asset in assets?.assets ?? [] {
            places[Array(asset.urlPath.bytes)] = .folder(asset.source, name: asset.path.string)
        }
        for file in assets?.generated ?? [] {
            places[Array(file.urlPath.bytes)] = .memory(file.bytes, name: file.urlPath.string)
        }
        return places
    }
}

/// The location of a file whose URL path is not its path in a folder.
package enum FilePlace: Sendable {
    case folder(Directory, name: String)
    case memory([UInt8], name: String)

    /// Opens the file for reading.
    package func open() throws(DiskError) -> File {
        switch self {
        case .folder(let directory, let name): try directory.file(name)
        case .memory(let bytes, let name): try File.inMemory(bytes, named: name)
        }
    }
}

/// The reason why a client's serving root cannot be created.
package enum OrganizingError: ClassifiedFailure, Equatable {
    /// The map breaks rules; each finding is one clause.
    case invalid(findings: [String])
    /// The index page is missing; `path` names it.
    case indexMissing(path: String)
    /// The file could be neither linked nor copied.
    case notPlaced(urlPath: String, link: DiskError, copy: DiskError)
    /// The name is not valid for a serving root.
    case illegalName(String)

    /// The failure with the code `unsuitableBundle` or that of the disk.
    package var failure: UpdateFailure {
        switch self {
        case .invalid(let findings):
            UpdateFailure(
                .unsuitableBundle, subject: findings.first ?? "",
                "Bundle validation failed: \(findings.joined(separator: "; "))")
        case .indexMissing(let path):
            UpdateFailure(
                .unsuitableBundle, subject: path,
                "The client has no index page: \(path) cannot be read. Install another version.")
        case .notPlaced(let urlPath, let link, let copy):
            UpdateFailure(
                copy.failure.code, subject: urlPath,
                "Cannot lay out \(urlPath): \(link), and \(copy). Check the disk, then run it again.")
        case .illegalName(let name):
            UpdateFailure(
                .unsuitableBundle, subject: UntrustedName.display(name),
                "\"\(UntrustedName.display(name))\" cannot be the name of a serving root: "
                    + "use one component that does not start with a dot.")
        }
    }
}

extension OrganizingError: CustomStringConvertible {
    package var description: String { failure.message }
}
