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
    func answersWithIndex(
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
