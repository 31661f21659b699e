package import BundleCore
import BundleValues
package import BundleDisk
import BundleSigning
import NIOCore
import Synchronization

/// One version's files as the server shows them.
///
/// The files never change while a site exists: what was read once is not looked at again. They may be removed: what was not
/// read before is then not found.
package final class Site: Sendable {
    /// The folder with the files; nil where there are none.
    private let root: Directory?
    /// The page that every navigation gets.
    package let index: IndexPage

    /// Every file's path; nothing else is ever opened.
    private let paths: Set<FilePath>
    private let labels: AssetLabels
    private let shelf = Mutex(FileShelf())
    let bareIndex: SiteFile

    /// Lists the folder once; `labels` are what the client's manifest says about files in it. Throws `DiskError` where it cannot
    /// be listed.
    package init(root: Directory, index: IndexPage, labels: AssetLabels = .none) throws {
        self.root = root
        self.labels = labels
        self.index = index
        paths = Set(try root.filePaths().map(FilePath.init(bytes:)))
        bareIndex = try Self.bare(index)
    }

    /// One page without any other file.
    package init(page: IndexPage) throws {
        root = nil
        labels = .none
        index = page
        paths = []
        bareIndex = try Self.bare(page)
    }

    private static func bare(_ index: IndexPage) throws -> SiteFile {
        SiteFile(
            type: MediaType.html, FileDescription(pageWithTag: try tag(of: [index.before, index.after])),
            size: index.before.count + index.after.count,
            content: .bytes(ByteBuffer(bytes: index.before + index.after)),
            scriptSources: index.scriptSources)
    }

    /// Whether there is such a file. The index page is none: it is `index`.
    func contains(_ path: RequestPath) -> Bool { paths.contains(FilePath(bytes: path.bytes)) }

    /// The file at a path, or nil where there is none. Throws `DiskError` for a file that cannot be read.
    func file(at path: RequestPath) throws -> SiteFile? {
        let path = FilePath(bytes: path.bytes)
        if let file = shelf.withLock({ $0.files[path] }) { return file }
        guard let root, paths.contains(path) else { return nil }
        do {
            let label = label(of: path)
            let sourceMap = label?.sourceMapURL.flatMap(SourceMapURL.init(url:))
            let file = try SiteFile(
                opening: path.bytes, in: root, label: label,
                sourceMap: sourceMap.flatMap { paths.contains(FilePath(bytes: $0.path)) ? $0.escaped : nil })
            shelf.withLock { $0.put(file, path) }
            return file
        } catch let error as DiskError where error.kind == .missing || error.kind == .unsuitable {
            return nil
        }
    }

    private func label(of path: FilePath) -> AssetLabels.Label? {
        do throws(BundlePathError) {
            return labels[try BundlePath(parsing: path.bytes)]
        } catch {
            // No manifest can name it.
            return nil
        }
    }

    /// A strong tag that speaks for every byte of `parts`.
    static func tag(of parts: [[UInt8]]) throws -> [UInt8] {
        let digest = try SHA256Digest.of(Array(parts.joined()))
        return Array("\"sha256-\(digest.hex)\"".utf8)
    }
}

/// What of a site answers a path.
enum Shown {
    case file(SiteFile)
    /// The index page, as it is without a launch.
    case index(SiteFile)
    case missing
    case failed

    init(_ path: RequestPath, in site: Site, for request: Request, _ fallback: ServerConfiguration.Fallback) {
        if path.isIndex {
            self = .index(site.bareIndex)
            return
        }
        do {
            let file = path.isFolder ? RequestPath(path.bytes + Array("index.html".utf8)) : path
            if let file = try site.file(at: file) {
                self = .file(file)
            } else {
                self = Self.isPage(path, request, fallback) ? .index(site.bareIndex) : .missing
            }
        } catch {
            self = .failed
        }
    }

    /// Whether a path without a file is an address inside the application.
    private static func isPage(
        _ path: RequestPath, _ request: Request, _ fallback: ServerConfiguration.Fallback
    ) -> Bool {
        switch fallback {
        case .navigation: request.isNavigation && !path.hasExtension && !path.isSpecial
        case .everything: !path.isNeverPage
        }
    }
}

extension Request {
    /// Whether a page is asked for, and not a part of one.
    var isNavigation: Bool {
        head.acceptsHTML || has(.fetchMode, "navigate") || has(.fetchDestination, "document")
    }

    /// Whether the page, which is the index page, will be shown as a client of its own.
    ///
    /// Whoever gets its bytes shows it, unless it says otherwise: a HEAD shows nothing, and a script that asks for HTML would get
    /// the token of another launch than its own; browsers tell it apart, and so a frame, and what is fetched in advance.
    var startsLaunch: Bool {
        head.method == .get && !has(.fetchPurpose) && (!has(.fetchMode) || has(.fetchMode, "navigate"))
            && (!has(.fetchDestination) || has(.fetchDestination, "document"))
    }
}
