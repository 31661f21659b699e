package import BundleCore
package import BundleDisk
import BundleSigning
import BundleValues
import CLibrary
import NIOCore
import Synchronization

/// The files of one version as the server sends them.
///
/// The files must not change while a site exists: a file is read once. They may be removed: a file that was not read
/// before is then not found.
package final class Site: Sendable {
    /// The size in bytes of the largest file that a site keeps in memory. The digests of larger files come from
    /// `AssetLabels`.
    package static let largestFileInMemory = SiteFile.largestInMemory

    /// The folder with the files; nil if there is none.
    private let root: Directory?
    /// The page of every navigation.
    package let index: IndexPage

    /// The paths of all files. No other path is opened.
    private let paths: Set<FilePath>
    /// The locations of files that are not in the folder.
    private let places: [[UInt8]: FilePlace]
    private let labels: AssetLabels
    private let cache = Mutex(FileCache())
    let bareIndex: SiteFile
    /// The origins that pages may use besides those of the configuration.
    package let origins: GrantedOrigins

    /// Creates a site with the files of a folder, which it lists once. `labels` describe its files. `index` is the
    /// page of a launch, and `bare` the one without a launch, if it differs. Throws `DiskError` if the folder cannot
    /// be listed.
    package init(
        root: Directory, index: IndexPage, bare: IndexPage? = nil, labels: AssetLabels = .none,
        origins: GrantedOrigins = GrantedOrigins()
    ) throws {
        self.root = root
        self.origins = origins
        self.labels = labels
        self.index = index
        paths = Set(try root.filePaths().map(FilePath.init(bytes:)))
        places = [:]
        bareIndex = try Self.bare(bare ?? index)
    }

    /// Creates a site with the files of a client's serving root. The page of a launch does not contain the shim,
    /// because the bridge does: a policy of the page could block the shim, and the report would blame the page.
    ///
    /// The declaration of the installed page is read here, once, and granted within `bound`.
    package convenience init(_ root: OrganizedRoot, labels: AssetLabels, within bound: OriginBound) throws {
        let page = try root.page()
        let installed = ShimInjector.remove(from: page)
        let index = try IndexPage(cutting: installed)
        let bare = try IndexPage(cutting: page)
        let origins = GrantedOrigins(ReleaseOrigins(page: installed), within: bound)
        if root.isInPlace {
            try self.init(places: root.places, index: index, bare: bare, labels: labels, origins: origins)
        } else {
            try self.init(root: root.directory, index: index, bare: bare, labels: labels, origins: origins)
        }
    }

    private init(
        places: [[UInt8]: FilePlace], index: IndexPage, bare: IndexPage, labels: AssetLabels, origins: GrantedOrigins
    ) throws {
        root = nil
        self.origins = origins
        self.places = places
        self.labels = labels
        self.index = index
        paths = Set(places.keys.map(FilePath.init(bytes:)))
        bareIndex = try Self.bare(bare)
    }

    /// Creates a site with one page and no files.
    package init(page: IndexPage) throws {
        root = nil
        origins = GrantedOrigins()
        labels = .none
        index = page
        places = [:]
        paths = []
        bareIndex = try Self.bare(page)
    }

    private static func bare(_ index: IndexPage) throws -> SiteFile {
        SiteFile(
            type: index.type, FileDescription(tag: try tag(of: [index.before, index.after])),
            size: index.before.count + index.after.count,
            content: .bytes(ByteBuffer(bytes: index.before + index.after)),
            scriptSources: index.scriptSources)
    }

    /// Whether the page requests that browsers keep its data for the next user.
    package var keepsSiteData: Bool {
        String(decoding: index.before + index.after, as: UTF8.self)
            .contains("<meta name=\"clientctl-site-data\" content=\"keep\">")
    }

    /// Returns whether the site has a file at `path`. The index page is not a file.
    func contains(_ path: RequestPath) -> Bool { paths.contains(FilePath(bytes: path.bytes)) }

    /// Returns the file at a path; nil if there is none. Throws `DiskError` for an unreadable file.
    func file(at path: RequestPath) throws -> SiteFile? {
        let path = FilePath(bytes: path.bytes)
        if let file = cache.withLock({ $0.files[path] }) { return file }
        guard paths.contains(path) else { return nil }
        do {
            guard let opened = try open(path.bytes) else { return nil }
            let label = label(of: path)
            let sourceMap = label?.sourceMapURL.flatMap(SourceMapURL.init(url:))
            let file = try SiteFile(
                opened, at: path.bytes, label: label,
                sourceMap: sourceMap.flatMap { paths.contains(FilePath(bytes: $0.path)) ? $0.escaped : nil },
                isThere: { paths.contains(FilePath(bytes: $0)) })
            cache.withLock { $0.put(file, path) }
            return file
        } catch let error as DiskError where error.kind == .missing || error.kind == .unsuitable {
            return nil
        }
    }

    /// Returns the page at a path, ready for the bridge; nil if there is none. `content` is the content of the path.
    func page(_ content: SiteContent, at path: RequestPath) throws -> IndexPage? {
        switch content {
        case .index: return index
        case .file(let file) where file.isBridged:
            guard let bytes = try open(path.document.bytes)?.readAll() else { return nil }
            return try IndexPage(cutting: bytes)
        case .file, .folder, .missing: return nil
        case .failed: throw DiskError("read", at: "\(root?.path ?? "")", code: EIO)
        }
    }

    /// Whether the site has no file besides its page.
    var isOnePage: Bool { root == nil && places.isEmpty }

    private func open(_ path: [UInt8]) throws(DiskError) -> File? {
        if let place = places[path] { return try place.open() }
        return try root?.file(String(decoding: path, as: UTF8.self))
    }

    private func label(of path: FilePath) -> AssetLabels.Label? {
        do throws(BundlePathError) {
            return labels[try BundlePath(parsing: path.bytes)]
        } catch {
            // A manifest cannot contain such a path.
            return nil
        }
    }

    /// Returns the strong tag of content in `parts`.
    package static func tag(of parts: [[UInt8]]) throws -> [UInt8] {
        tag(of: try SHA256Digest.of(Array(parts.joined())))
    }

    /// Returns the strong tag of content with this digest.
    static func tag(of digest: SHA256Digest) -> [UInt8] { Array("\"sha256-\(digest.hex)\"".utf8) }
}
