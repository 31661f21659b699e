package import BundleDisk
package import BundleValues

/// Lays out clients for serving: one folder each, by URL path, of hard links (METEOR section 5.2).
///
/// A root is built aside and gets its name in one rename, when all of it is on the disk: whatever has a root's name is
/// complete. One caller at a time, by the store's lock.
package struct BundleOrganizer: Sendable {
    private static let asidePrefix = ".new-"
    private static let trashPrefix = ".old-"

    private let serving: Directory

    /// Works in the folder `serving`, which should be on the file system of the clients: elsewhere files are copied.
    package init(serving: Directory) { self.serving = serving }

    /// The root `name`, made from `map` where it is missing; one that is there is neither walked nor compared.
    ///
    /// The index page gets the shim. A source file that is missing is left out with a warning, a source map silently;
    /// a missing index page is an error. When it throws, nothing has the name.
    package func organize(_ map: AssetMap, as name: String) throws -> OrganizedRoot {
        if let root = try existing(name) { return root }
        let aside = randomName(Self.asidePrefix)
        try serving.makeDirectory(aside)
        do {
            let folder = try serving.directory(aside)
            var builder = RootBuilder(folder)
            try builder.build(map)
            // The barrier: no root gets its name before every byte of it is on the disk.
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

    /// The root `name`; nil where it is not made yet, or where somebody took its index page, which removes the rest.
    package func existing(_ name: String) throws -> OrganizedRoot? {
        try Self.requireLegal(name)
        do {
            let root = try serving.directory(name)
            if case .file? = try root.kind(of: BundlePath.index.string) {
                return OrganizedRoot(name: name, directory: root, assets: nil, warnings: [])
            }
        } catch {
            if error.kind == .missing { return nil }
            // What is no folder is none of ours.
            guard error.kind == .unsuitable else { throw error }
        }
        try remove(name)
        return nil
    }

    /// The client in `folder` as it lies there, for a disk that takes no root; nothing is written.
    static func inPlace(_ map: AssetMap, in folder: Directory, as name: String) throws -> OrganizedRoot {
        let root = OrganizedRoot(name: name, directory: folder, assets: map, warnings: map.warnings)
        _ = try root.page()
        return root
    }

    /// Removes the root `name`: first its name in one rename, then its files; nothing happens where there is none.
    package func remove(_ name: String) throws {
        try Self.requireLegal(name)
        let trash = randomName(Self.trashPrefix)
        do {
            try serving.move(name, to: serving, as: trash)
        } catch  where error.kind == .missing {
            return
        }
        // Else a power cut could bring back the name without some of the files.
        try serving.sync()
        try serving.removeTree(trash)
    }

    /// Removes what a stop in `organize` or `remove` left. For the shell of the store only: another one may be organizing.
    package func clear() throws {
        try clear(Self.asidePrefix)
        try clearRemoved()
    }

    /// Removes what a stop in `remove` left. Nobody minds: such a root has lost its name.
    func clearRemoved() throws { try clear(Self.trashPrefix) }

    private func clear(_ prefix: String) throws {
        for name in try serving.list() where name.hasPrefix(prefix) { try serving.removeTree(name) }
    }

    private static func requireLegal(_ name: String) throws(OrganizingError) {
        do throws(BundlePathError) {
            let path = try BundlePath(parsing: name)
            if path.parent == nil && path.bytes.first != UInt8(ascii: ".") { return }
        } catch {}
        throw .illegalName(name)
    }
}

/// A complete serving root: a client's files by URL path, its index page with the shim. For reading only, since the files
/// are those of the store. Only `BundleOrganizer` gives one out.
///
/// Where no folder of its own could be made, the files stay where they are, and the shim is in no file: `isInPlace`.
public struct OrganizedRoot: Sendable {
    /// Its name in the serving folder.
    public let name: String
    /// The folder.
    package let directory: Directory
    /// What was left out when it was made, one sentence each; empty for one that was found.
    public let warnings: [String]
    /// Where every file is, of a client that is shown in place.
    private let assets: AssetMap?

    init(name: String, directory: Directory, assets: AssetMap?, warnings: [String]) {
        self.name = name
        self.directory = directory
        self.assets = assets
        self.warnings = warnings
    }

    /// The folder's path, as it was opened: of the root, or of the client that is shown in place.
    public var path: String { directory.path }

    /// Whether its files are not laid out: by URL path they are found through `file(at:)` only, and only `page()` has the shim.
    public var isInPlace: Bool { assets != nil }

    /// The index page with the shim.
    package func page() throws -> [UInt8] {
        guard let assets else { return try directory.file(BundlePath.index.string).readAll() }
        guard let index = assets.assets.first(where: { $0.urlPath == BundlePath.index }) else {
            throw OrganizingError.indexMissing(path: BundlePath.index.string)
        }
        return ShimInjector.inject(into: try index.source.file(index.path.string).readAll())
    }

    /// Where every file of a client that is shown in place is, by the bytes of its URL path.
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

/// Where a file is that has its URL path in no folder.
package enum FilePlace: Sendable {
    case folder(Directory, name: String)
    case memory([UInt8], name: String)

    /// Opens it for reading.
    package func open() throws(DiskError) -> File {
        switch self {
        case .folder(let directory, let name): try directory.file(name)
        case .memory(let bytes, let name): try File.inMemory(bytes, named: name)
        }
    }
}

/// Why a client cannot be laid out for serving.
package enum OrganizingError: ClassifiedFailure, Equatable {
    /// The map of its assets breaks rules; every finding is one clause.
    case invalid(findings: [String])
    /// There is nothing to start the application with: its index page has no file, or `path` names none.
    case indexMissing(path: String)
    /// A file could neither be linked nor copied.
    case notPlaced(urlPath: String, link: DiskError, copy: DiskError)
    /// The name is none that a serving root may have.
    case illegalName(String)

    /// `unsuitableBundle`, or what the disk said last.
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
    /// The message of the public form.
    package var description: String { failure.message }
}
