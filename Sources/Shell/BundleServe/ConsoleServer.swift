import BundleCore
package import BundleValues
import CLibrary
import NIOCore
import Synchronization

/// A request of a person who uses the console.
package struct ConsoleRequest: Sendable {
    /// Whether it is a form that may change something. Its token was checked.
    package let isPost: Bool
    /// The path, decoded.
    package let path: String
    /// The query with its question mark; empty if there is none.
    package let query: String
    /// The fields of the form.
    package let fields: [String: String]
    /// The token that every form of a page has to contain, in the field `token`.
    package let token: String
}

/// The response of a console.
package enum ConsoleResponse: Sendable {
    /// A page without scripts. `styles` are the source expressions of its style sheets.
    case page(String, styles: [String])
    /// A page about a failure.
    case failed(String, styles: [String])
    case missing
    /// A picture of a screen.
    case picture(ScreenPicture)
    /// Another page of the console, by its path.
    case redirect(String)
}

/// Responds to the requests of a console whose sender has proved to be the person at the terminal.
package protocol ConsolePages: Sendable {
    func respond(to request: ConsoleRequest) async -> ConsoleResponse
}

/// Decides who may use a console: the browser that came first with the code that the terminal shows.
struct ConsoleGate: Sendable {
    /// The time without a request after which a new code is needed.
    static let longestPause = Duration.seconds(30 * 60)

    private enum GateState: Sendable {
        /// The code that admits one browser.
        case waiting(code: String)
        case open(cookie: String, used: Duration)
    }

    private var state: GateState

    init(code: String) { state = .waiting(code: code) }

    /// Uses up the code. Returns false if it is another one, or was used before.
    mutating func enter(_ code: String, taking cookie: String, at now: Duration) -> Bool {
        guard case .waiting(let expected) = state, Self.areEqual(code, expected) else { return false }
        state = .open(cookie: cookie, used: now)
        return true
    }

    /// Returns whether `cookie` belongs to the admitted browser.
    mutating func admits(_ cookie: String?, at now: Duration) -> Bool {
        guard case .open(let expected, let used) = state, let cookie, Self.areEqual(cookie, expected),
            now - used < Self.longestPause
        else { return false }
        state = .open(cookie: expected, used: now)
        return true
    }

    /// Takes `code` if the browser has made no request for so long that it needs a new one. Returns whether it does.
    mutating func lock(taking code: String, at now: Duration) -> Bool {
        guard case .open(_, let used) = state, now - used >= Self.longestPause else { return false }
        state = .waiting(code: code)
        return true
    }

    /// Compares in a time that does not depend on the texts.
    private static func areEqual(_ left: String, _ right: String) -> Bool {
        let (left, right) = (Array(left.utf8), Array(right.utf8))
        guard left.count == right.count else { return false }
        return zip(left, right).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

/// A loopback server for the pages of a console.
package final class ConsoleServer: Sendable {
    /// The port that it listens on.
    package let port: Int

    private let listener: Listener

    private init(_ listener: Listener) {
        self.listener = listener
        port = listener.port
    }

    /// Listens on `port` of 127.0.0.1; 0 selects a free one. `announce` receives each address with its code: the first one, and another one
    /// when the console has locked itself. `isOwn` returns whether a program of the same user has connected from a port of 127.0.0.1 to the
    /// port of the console. Throws `ServerFailure`.
    package static func start(
        port: Int, _ pages: any ConsolePages, clock: any Clock<Duration> = ContinuousClock(),
        isOwn: @escaping @Sendable (_ client: Int, _ port: Int) -> Bool, announce: @escaping @Sendable (String) -> Void
    ) async throws -> ConsoleServer {
        guard (0...65535).contains(port) else { throw ServerFailure.port(port) }
        do {
            return ConsoleServer(
                try await Listener.bind(address: "127.0.0.1", port: port, ServerLimits()) { port in
                    try ConsoleService(port: port, pages, Stopwatch(clock), isOwn, announce)
                })
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            throw ServerFailure.portBusy(port)
        } catch let error as IOError {
            throw ServerFailure.bind(port: port, code: error.errnoCode)
        }
    }

    /// Closes the listener. Responses may continue for `grace`, then all connections are closed.
    package func stop(grace: Duration) async { await listener.stop(grace: grace) }
}

private final class ConsoleService: Service {
    private static let longestForm = 64 << 10

    let limits = ServerLimits()
    let fields = ResponseFields()
    private let port: Int
    private let rules: RequestRules
    private let pages: any ConsolePages
    private let stopwatch: Stopwatch
    private let isOwn: @Sendable (Int, Int) -> Bool
    private let announce: @Sendable (String) -> Void
    private let gate: Mutex<ConsoleGate>
    /// The token of the forms. Pages of other origins cannot read it.
    private let token: String

    init(
        port: Int, _ pages: any ConsolePages, _ stopwatch: Stopwatch, _ isOwn: @escaping @Sendable (Int, Int) -> Bool,
        _ announce: @escaping @Sendable (String) -> Void
    ) throws {
        (self.port, self.pages, self.stopwatch) = (port, pages, stopwatch)
        (self.isOwn, self.announce) = (isOwn, announce)
        rules = RequestRules(port: port)
        token = try LaunchToken.random().text
        let code = try LaunchToken.random().text
        gate = Mutex(ConsoleGate(code: code))
        announce(Self.address(port, code))
    }

    private static func address(_ port: Int, _ code: String) -> String { "http://127.0.0.1:\(port)/?code=\(code)" }

    /// The name has the port, because the browser sends a cookie to every port of this machine.
    private var cookieName: String { "clientctl-console-\(port)" }

    nonisolated(nonsending) func respond(to request: Request) async -> Response {
        if let status = rules.refusal(of: request) { return Response.refusal(status).closing }
        // A browser sends the cookie to every port of this machine, so a program of another user may have it.
        guard let client = request.body.channel.remoteAddress?.port, isOwn(client, port) else {
            return Response.refusal(.forbidden).closing
        }
        let isPost = request.head.method == .post
        guard isPost || request.head.method == .get || request.head.method == .head else {
            return Response.refusal(.methodNotAllowed, fields: "Allow: GET, HEAD, POST\r\n").closing
        }
        guard let path = request.withTarget({ RequestPath(decoding: $1) }),
            let text = String(validating: path.bytes, as: UTF8.self)
        else { return Response.refusal(.badRequest).closing }
        let query = String(request.query)
        if request.head.method == .get, text.isEmpty, let code = Self.fields(query.dropFirst())?["code"] {
            return enter(code, request)
        }
        guard admits(request) else { return locked() }
        if !isPost {
            return await show(ConsoleRequest(isPost: false, path: text, query: query, fields: [:], token: token))
        }
        guard rules.isFromOurPage(request) else { return Response.refusal(.forbidden).closing }
        guard let type = request.text(.contentType), type.hasPrefix("application/x-www-form-urlencoded") else {
            return Response.refusal(.unsupportedMediaType).closing
        }
        guard let length = request.head.bodyLength, length <= Self.longestForm else {
            return Response.refusal(.bodyTooLarge).closing
        }
        guard let bytes = try? await request.body.read(), let fields = Self.fields(bytes[...]) else {
            return .refusal(.badRequest)
        }
        guard fields["token"] == token else { return .refusal(.forbidden) }
        return await show(ConsoleRequest(isPost: true, path: text, query: "", fields: fields, token: token))
    }

    // MARK: Admission

    /// Exchanges the code for the cookie. The page that follows is requested by this one, since a browser sends a strict cookie only then.
    private func enter(_ code: String, _ request: Request) -> Response {
        if request.has(.fetchPurpose) { return .refusal(.unavailable) }
        guard let cookie = try? LaunchToken.random().text,
            gate.withLock({ $0.enter(code, taking: cookie, at: stopwatch.elapsed) })
        else {
            return .text(
                .forbidden,
                "This address was used, or is not the newest one. The terminal of `clientctl console` shows it.")
        }
        return Self.page(
            .ok, "<!doctype html><html lang=en><title>Console</title><p><a href=/>Open the console</a></html>\n",
            ["'none'"],
            fields: "Set-Cookie: \(cookieName)=\(cookie); Path=/; HttpOnly; SameSite=Strict\r\nRefresh: 0; url=/\r\n")
    }

    private func admits(_ request: Request) -> Bool {
        let name = "\(cookieName)="
        let cookies = (request.text(.cookie) ?? "").split(separator: ";").map { $0.drop { $0 == " " } }
        let cookie = cookies.first { $0.hasPrefix(name) }.map { String($0.dropFirst(name.count)) }
        return gate.withLock { $0.admits(cookie, at: stopwatch.elapsed) }
    }

    private func locked() -> Response {
        if let code = try? LaunchToken.random().text, gate.withLock({ $0.lock(taking: code, at: stopwatch.elapsed) }) {
            announce(Self.address(port, code))
        }
        return .text(
            .forbidden, "The console is locked. Open the newest address that the terminal of `clientctl console` shows."
        )
    }

    // MARK: Pages

    private nonisolated(nonsending) func show(_ request: ConsoleRequest) async -> Response {
        let pages = pages
        guard let response = try? await elsewhere({ await pages.respond(to: request) }) else {
            return .refusal(.failed)
        }
        switch response {
        case .page(let html, let styles): return Self.page(.ok, html, styles)
        case .failed(let html, let styles): return Self.page(.conflict, html, styles)
        case .missing: return .refusal(.notFound)
        case .picture(let picture):
            return Response(
                .ok, type: picture.format.rawValue, caching: Caching.never,
                fields: "Content-Security-Policy: default-src 'none'; sandbox\r\n", ByteBuffer(bytes: picture.bytes)
            ).withOwnPolicy
        case .redirect(let path): return .text(.seeOther, "", fields: "Location: \(path)\r\n")
        }
    }

    private static func page(_ status: Status, _ html: String, _ styles: [String], fields: String = "") -> Response {
        // On other pages, a browser would request an icon.
        let images = html.contains("<img ") ? " img-src 'self';" : ""
        let policy =
            "default-src 'none'; style-src \(styles.joined(separator: " "));\(images) form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        var response = Response(
            status, type: MediaType.html, caching: Caching.never,
            fields: "\(fields)Content-Security-Policy: \(policy)\r\n", ByteBuffer(string: html))
        response.hasPolicy = true
        return response
    }

    // MARK: Forms

    private static func fields(_ query: Substring) -> [String: String]? { fields(Array(query.utf8)[...]) }

    /// Returns the fields of a form; nil if one is repeated or is not UTF-8 text.
    private static func fields(_ body: ArraySlice<UInt8>) -> [String: String]? {
        var fields: [String: String] = [:]
        for pair in body.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            func text(_ part: ArraySlice<UInt8>) -> String? {
                let spaced = part.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
                return PercentEncoding.decodeStrictly(spaced[...]).flatMap { String(validating: $0, as: UTF8.self) }
            }
            guard let name = text(parts[0]), let value = parts.count > 1 ? text(parts[1]) : "",
                fields.updateValue(value, forKey: name) == nil
            else { return nil }
        }
        return fields
    }
}
