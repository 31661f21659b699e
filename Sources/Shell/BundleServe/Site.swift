package import BundleCore
package import BundleDisk
import BundleSigning
import BundleValues
import Glibc
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

    /// Creates a site with the files of a folder, which it lists once. `labels` describe its files. `index` is the
    /// page of a launch, and `bare` the one without a launch, if it differs. Throws `DiskError` if the folder cannot
    /// be listed.
    package init(root: Directory, index: IndexPage, bare: IndexPage? = nil, labels: AssetLabels = .none) throws {
        self.root = root
        self.labels = labels
        self.index = index
        paths = Set(try root.filePaths().map(FilePath.init(bytes:)))
        places = [:]
        bareIndex = try Self.bare(bare ?? index)
    }

    /// Creates a site with the files of a client's serving root. The page of a launch does not contain the shim,
    /// because the bridge does: a policy of the page could block the shim, and the report would blame the page.
    package convenience init(_ root: OrganizedRoot, labels: AssetLabels) throws {
        let page = try root.page()
        let index = try IndexPage(cutting: ShimInjector.remove(from: page))
        let bare = try IndexPage(cutting: page)
        if root.isInPlace {
            try self.init(places: root.places, index: index, bare: bare, labels: labels)
        } else {
            try self.init(root: root.directory, index: index, bare: bare, labels: labels)
        }
    }

    private init(places: [[UInt8]: FilePlace], index: IndexPage, bare: IndexPage, labels: AssetLabels) throws {
        root = nil
        self.places = places
        self.labels = labels
        self.index = index
        paths = Set(places.keys.map(FilePath.init(bytes:)))
        bareIndex = try Self.bare(bare)
    }

    /// Creates a site with one page and no files.
    package init(page: IndexPage) throws {
        root = nil
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
                sourceMap: sourceMap.flatMap { paths.contains(FilePath(bytes: $0.path)) ? $0.escaped : nil })
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
        case .failed: throw DiskError("read", "\(root?.path ?? "")", code: EIO)
        }
    }

    /// Whether the site has no file besides its page.
    fileprivate var isOnePage: Bool { root == nil && places.isEmpty }

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
    static func tag(of parts: [[UInt8]]) throws -> [UInt8] { tag(of: try SHA256Digest.of(Array(parts.joined()))) }

    /// Returns the strong tag of content with this digest.
    static func tag(of digest: SHA256Digest) -> [UInt8] { Array("\"sha256-\(digest.hex)\"".utf8) }
}

/// The content at a path of a site.
enum SiteContent {
    case file(SiteFile)
    /// The index page without a launch.
    case index(SiteFile)
    /// A folder with an index page, requested without the slash that its links need.
    case folder
    case missing
    case failed

    init(_ path: RequestPath, in site: Site, for request: Request, _ fallback: ServerConfiguration.Fallback) {
        if path.isIndex {
            self = .index(site.bareIndex)
            return
        }
        do {
            if let file = try site.file(at: path.document) {
                self = .file(file)
            } else if fallback == .navigation && !path.isSpecial && site.contains(path.indexBelow) {
                self = .folder
            } else {
                self = site.answersWithIndex(path, request, fallback) ? .index(site.bareIndex) : .missing
            }
        } catch {
            self = .failed
        }
    }

    /// Returns whether the page at `path` is shown as a client. Only browsers launch pages other than the index page,
    /// and only they launch a missing page: a client that lacks the page shows its start page.
    func isLaunched(by request: Request, at path: RequestPath) -> Bool {
        guard request.startsLaunch else { return false }
        switch self {
        case .index: return true
        case .file(let file): return file.isBridged && request.isNavigation
        case .missing: return request.isNavigation && path.isDocument
        case .folder, .failed: return false
        }
    }
}

extension Site {
    /// Returns whether a path without a file is an address inside the application. For a site with one page, every
    /// path is.
    fileprivate func answersWithIndex(
        _ path: RequestPath, _ request: Request, _ fallback: ServerConfiguration.Fallback
    ) -> Bool {
        switch fallback {
        case _ where isOnePage && path.isDocument && request.isNavigation: true
        case .navigation:
            !path.isSpecial && !path.isNeverPage
                && (request.isNavigation && !path.hasExtension || request.isVisit && !path.isDocument)
        case .everything: !path.isNeverPage
        }
    }
}

extension Request {
    /// Whether a browser requests the script of a service worker, to register or to update it. Browsers without Fetch
    /// Metadata send `Service-Worker` only.
    var isForServiceWorker: Bool { has(.serviceWorker, "script") || has(.fetchDestination, "serviceworker") }

    /// Whether a browser shows the response in a window. A name with a dot is then an address, and not a script, a
    /// style sheet or an image.
    var isVisit: Bool { has(.fetchDestination, "document") }

    /// Whether the request is for a page, and not for a part of one.
    var isNavigation: Bool {
        head.acceptsHTML || has(.fetchMode, "navigate") || has(.fetchDestination, "document")
    }

    /// Whether the page is shown as a client.
    ///
    /// A client that receives the page shows it, unless the request excludes that: a HEAD shows nothing; a script
    /// that requests HTML would receive the token of another launch; and browsers mark such scripts, frames and
    /// prefetches.
    var startsLaunch: Bool {
        head.method == .get && !has(.fetchPurpose) && (!has(.fetchMode) || has(.fetchMode, "navigate"))
            && (!has(.fetchDestination) || has(.fetchDestination, "document"))
    }
}

/// A file that is ready to be sent: its bytes, or an open descriptor for a larger file, and the fields that describe
/// it.
final class SiteFile: Sendable {
    enum Content: Sendable {
        case bytes(ByteBuffer)
        case open(OpenFile)
    }

    /// The size of the largest file in memory. The kernel sends larger files from its page cache.
    static let largestInMemory = 64 << 10

    private static let largestFrame = 4 << 20

    private let size: Int
    private let content: Content
    /// The entity tag with its quotes.
    let tag: [UInt8]
    /// Identifies the file on the disk that this one was read from.
    let origin: [UInt8]
    private let type: String
    /// Whether the file starts with a byte order mark of UTF-16.
    private let isWide: Bool
    var isPage: Bool { MediaType.isPage(type) }
    /// The source expressions of the inline scripts of a page.
    let scriptSources: [String]
    private let fields: FileFields

    init(
        type: String, _ description: FileDescription, size: Int, content: Content, scriptSources: [String],
        isWide: Bool = false, origin: [UInt8]? = nil
    ) {
        tag = description.tag
        self.size = size
        self.content = content
        self.origin = origin ?? description.tag
        self.type = type
        self.isWide = isWide
        self.scriptSources = scriptSources
        fields = FileFields(type: type, description, size: size)
    }

    /// Describes an open file of a client by its `label` and its source map.
    convenience init(
        _ file: File, at path: [UInt8], label: AssetLabels.Label?, sourceMap: String?
    ) throws {
        let facts = try FileFacts(of: file)
        let description = FileDescription(tag: try Self.tag(of: file, facts, label), sourceMap: sourceMap)
        try self.init(file, facts, type: MediaType.of(path), description)
    }

    /// Returns a strong tag from the digest of the content, which is computed for a file in memory and read from the
    /// receipt for a larger one. Without a digest, the tag comes from the kernel's metadata.
    ///
    /// The hash of an asset manifest precedes it, as METEOR section 6 requires. It is the publisher's claim, so two
    /// releases may state one hash for different bytes.
    private static func tag(of file: File, _ facts: FileFacts, _ label: AssetLabels.Label?) throws -> [UInt8] {
        var tag = facts.tag
        if facts.size <= largestInMemory {
            tag = try Site.tag(of: [try file.readAll(maximumBytes: largestInMemory)])
        } else if let digest = label?.digest {
            tag = Site.tag(of: digest)
        }
        guard let hash = label?.hash.flatMap(EntityTag.quoting) else { return tag }
        return hash.dropLast() + [UInt8(ascii: "-")] + tag.dropFirst()
    }

    /// Describes an open file, whose `facts` the caller has read.
    convenience init(_ file: File, _ facts: FileFacts, type: String, _ description: FileDescription) throws {
        let size = facts.size
        var page: [UInt8]?
        let content: Content
        if size <= Self.largestInMemory {
            let bytes = try file.readAll(maximumBytes: Self.largestInMemory)
            // A file that is still being written is not part of a client.
            guard bytes.count == size else { throw DiskError("read", file.path, code: EIO) }
            content = .bytes(ByteBuffer(bytes: bytes))
            if MediaType.isPage(type) { page = bytes }
        } else {
            content = .open(try OpenFile(duplicating: file))
            // A frame of more bytes can use scripts in files only.
            if MediaType.isPage(type) {
                page = size <= Self.largestFrame ? try file.readAll(maximumBytes: size) : try file.head(2)
            }
        }
        let isWide = page.map { $0.starts(with: [0xFE, 0xFF]) || $0.starts(with: [0xFF, 0xFE]) } ?? false
        let isHTML = MediaType.isHTML(type)
        self.init(
            type: isHTML ? MediaType.html(in: page.flatMap { HTMLOutline($0).charset }) : type, description,
            size: size, content: content,
            scriptSources: try page.map { try ScriptSource.expressions(for: $0) } ?? [], isWide: isWide,
            origin: facts.tag)
    }

    /// The memory that the file occupies in a cache.
    var cost: Int {
        (isOpen ? 0 : size) + fields.whole.readableBytes + 512
    }

    /// Whether scripts of the host can be inserted. XHTML would parse them as elements, and UTF-16 as other
    /// characters.
    var isBridged: Bool { MediaType.isHTML(type) && !isWide }

    var isOpen: Bool { if case .open = content { true } else { false } }

    // MARK: Responses

    /// Returns the response to a request for the file. `extra` are further fields.
    func response(to request: Request, fields extra: String = "") -> Response {
        if request.with(.ifMatch, { !EntityTag.isMatched(tag, by: $0) }) ?? false {
            return .refusal(.preconditionFailed)
        }
        if request.with(.ifNoneMatch, { EntityTag.isNamed(tag, in: $0) }) ?? false {
            return Response(.notModified, fields: fields.unchanged(after: extra))
        }
        switch range(for: request) {
        case .whole: return Response(.ok, fields: fields.whole(after: extra), body(0..<size))
        case .part(let part):
            return Response(.partialContent, fields: fields.part(part, after: extra), body(part))
        case .unsatisfiable: return .refusal(.rangeNotSatisfiable, fields: "Content-Range: bytes */\(size)\r\n")
        }
    }

    private func range(for request: Request) -> ByteRange {
        // A HEAD ignores ranges. A date or a weak tag never matches, so the whole file is sent.
        guard !request.isHead, request.with(.ifRange, { $0.elementsEqual(tag) }) ?? true else { return .whole }
        return request.with(.range) { ByteRange(parsing: $0, size: size) } ?? .whole
    }

    private func body(_ part: Range<Int>) -> Response.Body {
        switch content {
        case .bytes(let bytes):
            .bytes(bytes.getSlice(at: bytes.readerIndex + part.lowerBound, length: part.count) ?? bytes)
        case .open(let file): .file(file, part)
        }
    }
}
