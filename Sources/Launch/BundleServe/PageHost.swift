import BundleCore
package import BundleValues

/// What the server asks of whoever runs it.
package protocol PageHost: Sendable {
    /// The launch that answers a navigation to a page of the client, whichever it is.
    ///
    /// Called once for every GET that is one, before the first byte of the answer; may take a while. `isBrowser` says that
    /// it asks as browsers do: a probe asks for the page, too, and never shows it.
    func page(isBrowser: Bool) async throws -> Page

    /// The files for a request that is not a navigation: those of the launch it comes from, when that is known, else the current
    /// ones.
    ///
    /// `page` is what the cookie says, which anyone may have made up. Called on the server's one thread for every request: must not
    /// block.
    func site(ofPage page: String?) -> Site

    /// Another number than before where nothing that was shown until now may be shown any more. Called as `site(ofPage:)` is.
    var generation: Int { get }

    /// What a browser leaves behind before it is shown a page; nil before the first session has ended. Called as `site(ofPage:)` is.
    var leaving: Leaving? { get }

    /// The files of one version by its name in the list, or nil where there is none; called for every request below it.
    func site(named name: String) async throws -> Site?

    /// The names of the versions that can be shown.
    func clients() async throws -> [String]

    /// A call of the page. The host checks `token`, which came with the call. Throws `CallRefusal`.
    func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject

    /// The events for the page with `token`, or a `CallRefusal`.
    ///
    /// The next event is taken when the page has received the one before; how many wait meanwhile, and which go first, is said by
    /// the stream's buffering policy. Ending it ends the answer. Its `onTermination` tells when the page has gone.
    func events(token: String) async throws -> AsyncStream<PageEvent>
}

extension PageHost {
    /// For a host that never takes back what it showed.
    package var generation: Int { 0 }

    /// For a host without sessions.
    package var leaving: Leaving? { nil }
}

/// The session that ended last, as browsers have to know it.
package struct Leaving: Sendable, Equatable {
    /// Names the session by letters, digits and hyphens.
    package let ended: String
    /// Whether the data of its users is cleared before the next page of a client: not while the shell shows a page of its own, and not
    /// where the client asks to keep it.
    package let clears: Bool

    /// States a session that ended.
    package init(ended: String, clears: Bool) {
        self.ended = ended
        self.clears = clears
    }
}

/// Something that a page is told.
package struct PageEvent: Sendable, Equatable {
    /// What kind it is: one line of text.
    package let name: String
    /// What there is to tell.
    package let data: JSONObject
    /// What the page names when it says that it heard this; nil where nobody needs to know.
    package let id: Int?

    /// States an event.
    package init(name: String, data: JSONObject, id: Int? = nil) {
        self.name = name
        self.data = data
        self.id = id
    }
}

/// Why a call of a page was not carried out.
package struct CallRefusal: Error, Equatable, CustomStringConvertible {
    /// The HTTP status, 400 to 599; anything else is sent as 500.
    package let status: Int
    /// A word for programs.
    package let code: String
    /// A sentence for people; the page may show it.
    package let message: String
    /// Names the session that ended last, for a page that may be of that one; nil where that does not matter.
    package let ended: String?

    /// States a refusal.
    package init(status: Int, code: String, message: String, ended: String? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.ended = ended
    }

    /// The sentence.
    package var description: String { message }
}

/// One launch of a client: what a navigation to it is answered with.
package struct Page: Sendable {
    /// Names the launch in a cookie, so that later requests are answered from the same files. Not a secret.
    package let id: String
    /// Proves that a call comes from a page of this launch and session; a secret that only the page gets.
    package let token: String
    /// The files of the launch.
    package let site: Site
    /// A script that the host adds to this page.
    package let notice: ServerConfiguration.Bridge?

    /// Names the last session that ended before it, by letters, digits and hyphens; nil for none. Whoever sees it finds nothing that
    /// its users left in the browser.
    package let ended: String?

    /// States a launch. `id` and `token` are 1 to 128 letters, digits, `-` and `_`; with others the page is not shown.
    package init(
        id: String, token: String, site: Site, notice: ServerConfiguration.Bridge? = nil, ended: String? = nil
    ) {
        self.id = id
        self.ended = ended
        self.token = token
        self.site = site
        self.notice = notice
    }

    var isWellFormed: Bool { Self.isWord(id) && Self.isWord(token) }

    private static func isWord(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                HTTPBytes.isLetter($0) || HTTPBytes.isDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
    }
}

/// A page of a client, cut where the host puts its own elements into the head.
package struct IndexPage: Sendable, Equatable {
    /// The bytes before the cut.
    package let before: [UInt8]
    /// The bytes after it.
    package let after: [UInt8]
    /// A source expression of Content Security Policy for each inline script of the page: `'sha256-…'`.
    package let scriptSources: [String]
    /// Its media type, with the letters that it is written in.
    let type: String

    /// States a page; `before` and `after` together are the whole of it.
    package init(before: [UInt8], after: [UInt8], scriptSources: [String]) {
        self.before = before
        self.after = after
        self.scriptSources = scriptSources
        type = MediaType.html
    }

    /// A whole page, cut where its head begins; before any policy that it states itself. Throws only if OpenSSL cannot work.
    package init(cutting page: [UInt8]) throws {
        let outline = HTMLOutline(page)
        before = Array(page[..<outline.headStart])
        after = Array(page[outline.headStart...])
        scriptSources = try ScriptSource.expressions(for: page)
        type = MediaType.html(in: outline.charset)
    }
}
