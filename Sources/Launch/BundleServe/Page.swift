/// One launch of a client: what a navigation to it is answered with.
package struct Page: Sendable {
    /// Names the launch in a cookie, so that later requests are answered from the same files. Not a secret.
    package let id: String
    /// Proves that a call comes from this launch's page; a secret that only the page gets.
    package let token: String
    /// The files of the launch.
    package let site: Site
    /// A script that the host adds to this page.
    package let notice: ServerConfiguration.Bridge?

    /// States a launch. `id` and `token` are 1 to 128 letters, digits, `-` and `_`; with others the page is not shown.
    package init(id: String, token: String, site: Site, notice: ServerConfiguration.Bridge? = nil) {
        self.id = id
        self.token = token
        self.site = site
        self.notice = notice
    }

    /// The inline scripts of the page, as sources of its policy.
    var scriptSources: [String] { site.index.scriptSources + (notice.map { [$0.scriptSource] } ?? []) }

    var isWellFormed: Bool { Self.isWord(id) && Self.isWord(token) }

    private static func isWord(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                HTTPBytes.isLetter($0) || HTTPBytes.isDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
    }
}

/// A client's index page, cut where the host puts its own elements into the head.
package struct IndexPage: Sendable, Equatable {
    /// The bytes before the cut.
    package let before: [UInt8]
    /// The bytes after it.
    package let after: [UInt8]
    /// A source expression of Content Security Policy for each inline script of the page: `'sha256-…'`.
    package let scriptSources: [String]

    /// States a page; `before` and `after` together are the whole of it.
    package init(before: [UInt8], after: [UInt8], scriptSources: [String]) {
        self.before = before
        self.after = after
        self.scriptSources = scriptSources
    }
}
