/// What of a site answers a path.
enum Shown {
    case file(SiteFile)
    case index
    case missing
    case failed

    init(_ path: RequestPath, in site: Site, for request: Request) {
        if path.isIndex {
            self = .index
            return
        }
        do {
            let file = path.isFolder ? RequestPath(path.bytes + Array("index.html".utf8)) : path
            if let file = try site.file(at: file) {
                self = .file(file)
            } else {
                self = request.isNavigation && !path.hasExtension ? .index : .missing
            }
        } catch {
            self = .failed
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
