package import BundleValues

/// What the server asks of whoever runs it.
package protocol PageHost: Sendable {
    /// The page that answers a navigation to the client itself.
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
}

/// Something that a page is told.
package struct PageEvent: Sendable, Equatable {
    /// What kind it is: one line of text.
    package let name: String
    /// What there is to tell.
    package let data: JSONObject

    /// States an event.
    package init(name: String, data: JSONObject) {
        self.name = name
        self.data = data
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

    /// States a refusal.
    package init(status: Int, code: String, message: String) {
        self.status = status
        self.code = code
        self.message = message
    }

    /// The sentence.
    package var description: String { message }
}
