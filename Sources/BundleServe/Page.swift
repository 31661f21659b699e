/// One launch of a client: what a navigation to it is answered with.
public struct Page: Sendable {
    /// Names the launch in a cookie, so that later requests are answered from the same files. Not a secret.
    public let id: String
    /// Proves that a call comes from this launch's page; a secret that only the page gets.
    public let token: String
    /// The files of the launch.
    public let site: Site
    /// A script that the host adds to this page.
    public let notice: ServerConfiguration.Bridge?

    /// States a launch. `id` and `token` are 1 to 128 letters, digits, `-` and `_`; with others the page is not shown.
    public init(id: String, token: String, site: Site, notice: ServerConfiguration.Bridge? = nil) {
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
