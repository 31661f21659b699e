import BundleCore
package import BundleValues

/// The program that runs a page server, as the server needs it.
package protocol PageHost: Sendable {
    /// Returns the launch that responds to a navigation to a page of the client.
    ///
    /// Called once for every GET that is a navigation, before the first byte of the response. It may suspend.
    /// `isBrowser` is false for a probe, which requests the page and never shows it.
    func page(isBrowser: Bool) async throws -> Page

    /// Returns the files for a request that is not a navigation: those of the launch that it belongs to, or the
    /// current ones.
    ///
    /// `page` is the untrusted value of the cookie. Called on the server's only thread for every request; it must not
    /// block.
    func site(ofPage page: String?) -> Site

    /// A number that changes when all pages that were shown must not be shown again. Called like `site(ofPage:)`.
    var generation: Int { get }

    /// The session that a browser has to clear before it shows a page; nil before the first session has ended. Called
    /// like `site(ofPage:)`.
    var leaving: Leaving? { get }

    /// Returns the files of the version `name`; nil if there is none. Called for every request below it.
    func site(named name: String) async throws -> Site?

    /// Returns the names of the versions that can be shown.
    func clients() async throws -> [String]

    /// Carries out a call of a page. The host checks `token`, which is part of the call. Throws `CallRefusal`.
    func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject

    /// Records that the page load `name` has opened its WebSocket. Throws `CallRefusal` for a page that must load again.
    func connect(_ name: String, token: String) throws

    /// Records that the WebSocket of the page load `name` has ended. `isOurs` if the server ended it.
    func disconnect(_ name: String, token: String, isOurs: Bool)

    /// Returns the events for the page with `token`. Throws `CallRefusal`.
    ///
    /// The server requests an event when the page has received the one before. The stream's buffering policy limits
    /// the events in between. Ending the stream ends the response. The server cancels the stream when the page is
    /// closed.
    func events(token: String) async throws -> AsyncStream<PageEvent>
}

extension PageHost {
    /// The constant 0, for a host without sessions.
    package var generation: Int { 0 }

    /// Nil, for a host without sessions.
    package var leaving: Leaving? { nil }

    /// Accepts every page, for a host that does not watch pages.
    package func connect(_ name: String, token: String) throws {}

    /// Does nothing, for a host that does not watch pages.
    package func disconnect(_ name: String, token: String, isOurs: Bool) {}
}

/// The last session that ended, as a browser needs it.
package struct Leaving: Sendable, Equatable {
    /// The name of the session, in letters, digits and hyphens.
    package let ended: String
    /// Whether the data of its users is cleared before the next page of a client. False while the shell shows a page
    /// of its own, and for a client that keeps its data.
    package let clears: Bool

    /// Creates a description of a session that ended.
    package init(ended: String, clears: Bool) {
        self.ended = ended
        self.clears = clears
    }
}

/// An event for a page.
package struct PageEvent: Sendable, Equatable {
    /// The type of the event, as one line of text.
    package let name: String
    package let data: JSONObject
    /// The number with which the page acknowledges the event; nil for an event without acknowledgement.
    package let id: Int?

    /// Creates an event.
    package init(name: String, data: JSONObject, id: Int? = nil) {
        self.name = name
        self.data = data
        self.id = id
    }
}

/// The reason why a call of a page was not carried out.
package struct CallRefusal: Error, Equatable, CustomStringConvertible {
    /// The HTTP status, 400 to 599; anything else is sent as 500.
    package let status: Int
    /// A code for programs.
    package let code: String
    /// A sentence that the page may show to users.
    package let message: String
    /// The session that ended last, for a page that may belong to it; nil if that does not matter.
    package let ended: String?
    /// Whether the device is locked, so that the page has to leave at once.
    package let isLocked: Bool

    /// Creates a refusal.
    package init(status: Int, code: String, message: String, ended: String? = nil, isLocked: Bool = false) {
        self.status = status
        self.code = code
        self.message = message
        self.ended = ended
        self.isLocked = isLocked
    }

    /// The message.
    package var description: String { message }

    /// The refusal as pages receive it.
    var members: JSONObject {
        var members: JSONObject = ["code": .string(code), "message": .string(message)]
        if let ended { members["ended"] = .string(ended) }
        if isLocked { members["locked"] = .bool(true) }
        return members
    }
}

/// One launch of a client, as the response to a navigation.
package struct Page: Sendable {
    /// The name of the launch in a cookie, which selects the files of later requests. It is not secret.
    package let id: String
    /// The secret that authenticates calls of pages of this launch and session.
    package let token: String
    package let site: Site
    /// The documents of a page of the shell, by language; nil for a client.
    let translations: Translations?
    /// A script that the host inserts into this page.
    package let notice: ServerConfiguration.Bridge?

    /// The last session that ended before the launch, in letters, digits and hyphens; nil if there is none. A browser
    /// that shows the page contains no data of that session's users.
    package let ended: String?

    /// Creates a launch. `id` and `token` have 1 to 128 letters, digits, `-` and `_`; with others the server does not
    /// show the page.
    package init(
        id: String, token: String, site: Site, notice: ServerConfiguration.Bridge? = nil, ended: String? = nil,
        translations: Translations? = nil
    ) {
        self.translations = translations
        self.id = id
        self.ended = ended
        self.token = token
        self.site = site
        self.notice = notice
    }

    var isWellFormed: Bool { Self.isWord(id) && Self.isWord(token) }

    static func isWord(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                HTTPBytes.isLetter($0) || HTTPBytes.isDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
    }
}

/// A page of a client, split where the host inserts elements into its head.
package struct IndexPage: Sendable, Equatable {
    /// The bytes before the insertion.
    package let before: [UInt8]
    /// The bytes after the insertion.
    package let after: [UInt8]
    /// A source expression of Content Security Policy, such as `'sha256-…'`, for each inline script of the page.
    package let scriptSources: [String]
    /// The media type with the character set of the page.
    let type: String

    /// Creates a page from its two parts.
    package init(before: [UInt8], after: [UInt8], scriptSources: [String]) {
        self.before = before
        self.after = after
        self.scriptSources = scriptSources
        type = MediaType.html
    }

    /// Splits a page where its head begins, before any policy that it contains. Throws only if OpenSSL fails.
    package init(cutting page: [UInt8]) throws {
        let outline = HTMLOutline(page)
        before = Array(page[..<outline.headStart])
        after = Array(page[outline.headStart...])
        scriptSources = try ScriptSource.expressions(for: page)
        type = MediaType.html(in: outline.charset)
    }
}
