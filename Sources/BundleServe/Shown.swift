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
