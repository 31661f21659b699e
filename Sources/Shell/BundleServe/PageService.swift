import BundleCore
import BundleValues
import NIOCore
import Synchronization

/// Answers pages: with the client's files, and with what the host has for the page.
final class PageService: Service {
    let limits: ServerLimits
    let fields: ResponseFields

    private let host: any PageHost
    private let bridge: [UInt8]
    private let fallback: ServerConfiguration.Fallback
    private let metrics: (@Sendable () async -> String)?
    private let kiosk: (@Sendable () -> JSONObject)?
    private let rules: RequestRules
    private let policy: ContentSecurityPolicy
    private let heartbeat: [UInt8]
    private let say: @Sendable (String) -> Void
    /// What something was said of.
    private let told = Mutex(Set<[UInt8]>())
    /// The cookie's name and the equals sign.
    private let cookie: String
    /// The same of the one that tells after which session a browser was cleared.
    private let clearedCookie: String
    private let leavingPage: LeavingPage

    init(_ configuration: ServerConfiguration, port: Int, host: any PageHost) throws {
        self.host = host
        bridge = configuration.bridge.script
        fallback = configuration.fallback
        metrics = configuration.metrics
        kiosk = configuration.kiosk
        limits = configuration.limits
        rules = RequestRules(port: port)
        policy = try ContentSecurityPolicy(
            bridge: configuration.bridge.scriptSource, extra: configuration.extraSources)
        fields = try ResponseFields(
            configuration.policies, allowsFraming: policy.allowsFraming)
        say = configuration.say
        heartbeat = Array(
            (configuration.heartbeat.map {
                "<meta name=\"clientctl-heartbeat\" content=\"\(Int($0 / .milliseconds(1)))\">"
            } ?? "").utf8)
        cookie = "clientctl-\(port)="
        clearedCookie = "clientctl-cleared-\(port)="
        leavingPage = try LeavingPage(port: port)
    }

    nonisolated(nonsending) func respond(to request: Request) async -> Response {
        if let status = rules.refusal(of: request) {
            if status == .forbidden { sayForeign(request) }
            return status == .misdirected ? Response.text(status, "").closing : .refusal(status)
        }
        if request.isForServiceWorker && !request.hasBody { return endServiceWorker(request) }
        guard let path = path(of: request) else { return Response.refusal(.badRequest).closing }
        switch Route(request.head.method, path) {
        case .leaving: return leave(request)
        case .call(let method): return await call(method, request)
        case .refused(let status, let allow):
            return .refusal(status, fields: allow.map { "Allow: \($0)\r\n" } ?? "")
        // No other route takes a body.
        case _ where request.hasBody: return .refusal(.badRequest)
        case _ where request.has(.expect): return .refusal(.expectationFailed)
        case .file where mustLeave(request), .version where mustLeave(request): return leave(request)
        case .file(let path): return await show(path, request)
        case .version(let name, let path): return await show(path, ofVersion: name, request)
        case .versionWithoutSlash(let name): return redirect(toVersion: name)
        case .clients: return await list()
        case .events: return await events(request)
        case .kiosk: return kiosk.map { Response.json($0(), caching: Caching.never) } ?? .refusal(.notFound)
        case .metrics: return await showMetrics()
        }
    }

    /// The path that a request names; nil for one that names nothing. In a window that is the start of the application, whose own
    /// addresses may have escaped slashes, empty components and any bytes.
    private func path(of request: Request) -> RequestPath? {
        if let path = request.withTarget({ RequestPath(decoding: $1) }) { return path }
        let isOwn = request.withTarget { $1.starts(with: "/__clientctl/".utf8) }
        guard request.isVisit, !isOwn, request.head.method == .get || request.head.method == .head else { return nil }
        sayAddress(of: request, "names no file and no folder, so the index page is shown there")
        return RequestPath([])
    }

    /// Reports once where a window's address leads.
    private func sayAddress(of request: Request, _ what: String) {
        let address = String(request.wholeTarget.prefix { $0 != "?" })
        guard isNew(Array("address \(address)".utf8)) else { return }
        say("the address \(UntrustedName.display(address)) of a window \(what)")
    }

    // MARK: Files

    private nonisolated(nonsending) func show(_ path: RequestPath, _ request: Request) async -> Response {
        let shown = SiteContent(path, in: site(for: request), for: request, fallback)
        if case .index = shown, request.isVisit, path.hasExtension, !path.isIndex {
            sayAddress(of: request, "names no file, so the index page is shown there")
        }
        return shown.isLaunched(by: request, at: path) ? await launch(path, request) : response(shown, path, request)
    }

    /// What the cookie says comes before what the connection showed.
    private func site(for request: Request) -> Site {
        let page = page(of: request)
        if page == nil, let last = request.lastNavigation, last.generation == host.generation { return last.site }
        return host.site(ofPage: page)
    }

    private nonisolated(nonsending) func show(
        _ path: RequestPath, ofVersion name: String, _ request: Request
    ) async -> Response {
        do {
            guard let site = try await elsewhere({ [host] in try await host.site(named: name) }) else {
                return .refusal(.notFound)
            }
            return response(SiteContent(path, in: site, for: request, fallback), path, request)
        } catch {
            return .refusal(.failed)
        }
    }

    private func response(_ shown: SiteContent, _ path: RequestPath, _ request: Request) -> Response {
        switch shown {
        // Pages say what they may load.
        case .file(let file), .index(let file):
            tellFrame(path, request)
            return file.response(to: request, fields: file.isPage ? policy.line(scriptSources: file.scriptSources) : "")
        // Said from where the request is, which may be below a version.
        case .folder:
            return .refusal(
                .permanentRedirect,
                fields: "Location: ./\(PercentEncoding.encode(path: Array(path.lastComponent)))/\(request.query)\r\n")
        case .missing:
            if request.isNavigation { sayAddress(of: request, "leads to no page (404)") }
            return .refusal(.notFound)
        case .failed: return .refusal(.failed)
        }
    }

    /// The page around a frame hears nothing of what its server forbids in it.
    private func tellFrame(_ path: RequestPath, _ request: Request) {
        guard !policy.allowsFraming, Self.isFramed(request), isNew(Array("frame ".utf8) + path.bytes) else { return }
        say(
            "a page shows \(Self.name(path)) in a frame, which is refused: --csp \"\(ContentSecurityPolicy.framing)\" "
                + "would allow it")
    }

    /// A page of another origin loads nothing from here. One of the client's own is such a page in a frame with `sandbox`.
    private func sayForeign(_ request: Request) {
        guard request.has(.fetchSite, "cross-site"), !request.has(.fetchMode, "navigate"),
            let path = request.withTarget({ RequestPath(decoding: $1) }), isNew(Array("foreign ".utf8) + path.bytes)
        else { return }
        say(
            "a page of another origin asks for \(Self.name(path)), which is refused. A frame of the client is one where its sandbox "
                + "lacks allow-same-origin: add that, or put scripts, styles and images into the document of the frame")
    }

    private static func isFramed(_ request: Request) -> Bool {
        request.has(.fetchDestination, "iframe") || request.has(.fetchDestination, "frame")
            || request.has(.fetchDestination, "embed") || request.has(.fetchDestination, "object")
    }

    /// Answers with a worker that unregisters itself and reloads the windows that it controls.
    ///
    /// The worker of another server that listened on this port before, or of a client, would answer in place of the clients that follow. A
    /// browser keeps a worker whose update is refused, and replaces it by one whose update differs.
    private func endServiceWorker(_ request: Request) -> Response {
        let path = String(request.wholeTarget.prefix { $0 != "?" })
        if isNew(Array("worker \(path)".utf8)) {
            say(
                "the browser has the service worker \(UntrustedName.display(path)), or is about to register it: it is ended, "
                    + "because it would answer in place of the clients that follow")
        }
        return Response(
            .ok, type: MediaType.of(Array("a.js".utf8)), caching: Caching.never,
            fields: "Service-Worker-Allowed: /\r\n", ByteBuffer(string: Self.endingWorker))
    }

    private static let endingWorker = """
        self.addEventListener('install', function () {
          self.skipWaiting();
        });
        self.addEventListener('activate', function (event) {
          event.waitUntil(self.registration.unregister().then(function () {
            return self.clients.matchAll({ type: 'window' });
          }).then(function (windows) {
            windows.forEach(function (controlled) {
              controlled.navigate(controlled.url);
            });
          }));
        });

        """

    private static func name(_ path: RequestPath) -> String {
        UntrustedName.display("/\(String(decoding: path.bytes, as: UTF8.self))")
    }

    private func redirect(toVersion name: ClientName) -> Response {
        let path = "/clients/\(PercentEncoding.encode(path: Array("\(name)".utf8)))/"
        return .refusal(.permanentRedirect, fields: "Location: \(path)\r\n")
    }

    private nonisolated(nonsending) func list() async -> Response {
        guard let names = try? await elsewhere({ [host] in try await host.clients() }) else {
            return .refusal(.failed)
        }
        return .json(["versions": .array(names.map { .string($0) })], caching: Caching.revalidated)
    }

    /// How the host is doing, in the text format of Prometheus. Nothing of it is secret, and who may ask is settled by then.
    private nonisolated(nonsending) func showMetrics() async -> Response {
        guard let metrics else { return .refusal(.notFound) }
        guard let text = try? await elsewhere(metrics) else { return .refusal(.failed) }
        return Response(.ok, type: MediaType.metrics, caching: Caching.never, ByteBuffer(string: text))
    }

    // MARK: Launches

    /// The document of a launch, as it is sent.
    private struct Document {
        let bytes: [UInt8]
        let tag: [UInt8]
        let type: String
        let scriptSources: [String]
    }

    private nonisolated(nonsending) func launch(_ path: RequestPath, _ request: Request) async -> Response {
        let generation = host.generation
        do {
            let (page, document) = try await elsewhere { [self] in try await pageOfHost(path, request) }
            guard page.isWellFormed else { return .refusal(.failed) }
            var response =
                document.map { launchResponse(page, $0, request) } ?? responseWithoutPage(page, path, request)
            response.navigation = Navigation(site: page.site, generation: generation)
            return response
        } catch {
            return .refusal(.failed)
        }
    }

    /// The launch, and its document at `path` where it has one: it may be another client's than what was on the screen.
    private func pageOfHost(_ path: RequestPath, _ request: Request) async throws -> (Page, Document?) {
        let page = try await host.page(isBrowser: request.isNavigation)
        let cut = try page.site.page(SiteContent(path, in: page.site, for: request, fallback), at: path)
        if let cut, ContentSecurityPolicy.areTooMany(cut.scriptSources), isNew(cut.before + Array(page.id.utf8)) {
            say(
                "\(Self.name(path)) has \(cut.scriptSources.count) "
                    + "inline scripts, more than a header can name one by one: any inline script may run in it. Put them into files."
            )
        }
        return (page, try cut.map { try document($0, of: page) })
    }

    private func isNew(_ thing: [UInt8]) -> Bool {
        told.withLock { told in
            if told.count > 100 { told = [] }
            return told.insert(thing).inserted
        }
    }

    /// Somebody who was shown this client followed a link that leads nowhere. Who was not came for the client, whichever it is: a
    /// window that waits at the address of another one's page would stay dark.
    private func responseWithoutPage(_ page: Page, _ path: RequestPath, _ request: Request) -> Response {
        let shown = SiteContent(path, in: page.site, for: request, fallback)
        if case .missing = shown, self.page(of: request) != page.id {
            return .refusal(.seeOther, fields: "Location: /\r\n")
        }
        return response(shown, path, request)
    }

    private func launchResponse(_ page: Page, _ document: Document, _ request: Request) -> Response {
        let fields = """
            \(policy.line(scriptSources: document.scriptSources))\(clearing(page, request))\
            Set-Cookie: \(cookie)\(page.id); Path=/; HttpOnly; SameSite=Strict\r
            ETag: \(String(decoding: document.tag, as: UTF8.self))\r\n
            """
        if request.with(.ifNoneMatch, { EntityTag.isNamed(document.tag, in: $0) }) ?? false {
            let unchanged = fields + "Cache-Control: \(Caching.revalidated)\r\n\r\n"
            return Response(.notModified, fields: ByteBuffer(string: unchanged))
        }
        return Response(
            .ok, type: document.type, caching: Caching.revalidated, fields: fields, ByteBuffer(bytes: document.bytes))
    }

    /// What others have left goes with the first page that a browser gets after their session; a cookie remembers that, for longer
    /// than the browser runs. Cookies go one by one: the header would take the ones that are set beside it.
    private func clearing(_ page: Page, _ request: Request) -> String {
        guard let ended = page.ended else { return "" }
        // Browsers keep none for longer than 400 days.
        var fields =
            "Set-Cookie: \(clearedCookie)\(ended); Path=/; HttpOnly; SameSite=Strict; Max-Age=34560000\r\n"
        if value(of: clearedCookie, in: request) == ended || page.site.keepsSiteData { return fields }
        fields += "Clear-Site-Data: \"storage\"\r\n"
        _ = request.with(.cookie) { value in
            HTTPBytes.anyElement(of: value, separator: UInt8(ascii: ";")) { element in
                let name = element.prefix { $0 != UInt8(ascii: "=") }
                if !element.starts(with: "clientctl-".utf8), let text = String(validating: name, as: UTF8.self) {
                    fields += "Set-Cookie: \(text)=; Path=/; Max-Age=0\r\n"
                }
                return false
            }
        }
        return fields
    }

    /// The launch that a request says it belongs to.
    private func page(of request: Request) -> String? { value(of: cookie, in: request) }

    private func value(of cookie: String, in request: Request) -> String? { request.value(ofCookie: cookie) }

    /// A page of a launch, with its token and the bridge.
    private func document(_ cut: IndexPage, of page: Page) throws -> Document {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(cut.before.count + cut.after.count + bridge.count + 256)
        bytes += cut.before
        bytes += Array(
            "<meta name=\"clientctl-token\" content=\"\(page.token)\" data-ended=\"\(host.leaving?.ended ?? "")\">".utf8
        )
        bytes += heartbeat
        bytes += Array("<script>".utf8)
        bytes += bridge
        bytes += Array("</script>".utf8)
        if let notice = page.notice { bytes += Array("<script>".utf8) + notice.script + Array("</script>".utf8) }
        bytes += cut.after
        return Document(
            bytes: bytes, tag: try Site.tag(of: [bytes]), type: cut.type,
            scriptSources: cut.scriptSources + (page.notice.map { [$0.scriptSource] } ?? []))
    }

    // MARK: Leaving a session that has ended

    /// Whether a browser is shown the page that clears what users left, or the one that follows it on its way through the window's
    /// addresses.
    private func mustLeave(_ request: Request) -> Bool {
        guard request.head.method == .get, request.has(.fetchMode, "navigate"),
            request.has(.fetchDestination, "document"),
            let leaving = host.leaving
        else { return false }
        return leaving.clears && value(of: clearedCookie, in: request) != leaving.ended
            || leavingPage.isOpen(in: request)
    }

    private func leave(_ request: Request) -> Response {
        guard let leaving = host.leaving else { return .refusal(.seeOther, fields: "Location: /\r\n") }
        let clears = leaving.clears && value(of: clearedCookie, in: request) != leaving.ended
        return leavingPage.response(clearing: clears ? leaving.ended : nil, policy)
    }

    // MARK: Calls and events

    /// Checks all that the head tells before it lets the body come.
    private nonisolated(nonsending) func call(_ method: String, _ request: Request) async -> Response {
        let token: String
        switch PageCall(request, isFromOurPage: rules.isFromOurPage(request)) {
        case .refused(let status): return status.errorResponse
        case .accepted(let given): token = given
        }
        guard let bytes = try? await request.body.read(),
            let object = try? JSONScanner.parse(bytes, maximumBytes: PageCall.longestBody).objectValue
        else { return Status.badRequest.errorResponse }
        if let response = leavingPage.response(to: method, object, clearedCookie) { return response }
        do {
            let result = try await elsewhere { [host] in try await host.call(method, token: token, body: object) }
            return .json(result, caching: Caching.never)
        } catch {
            return refusal(error)
        }
    }

    private nonisolated(nonsending) func events(_ request: Request) async -> Response {
        guard let token = request.text(.token), !token.isEmpty else { return Status.forbidden.errorResponse }
        do {
            let events = try await elsewhere { [host] in try await host.events(token: token) }
            let head = "Content-Type: \(MediaType.events)\r\nCache-Control: \(Caching.never)\r\n\r\n"
            let page = token + request.query
            return Response(.ok, fields: ByteBuffer(string: head), .events(events, page: page)).closing
        } catch {
            return refusal(error)
        }
    }

    private func refusal(_ error: any Error) -> Response {
        guard let refusal = error as? CallRefusal, (400...599).contains(refusal.status) else {
            return Status.failed.errorResponse
        }
        return .error(refusal.status, code: refusal.code, message: refusal.message, ended: refusal.ended)
    }
}

extension Request {
    /// The value of a cookie, whose name comes with its equals sign.
    func value(ofCookie cookie: String) -> String? {
        with(.cookie) { fields -> String? in
            var value: String?
            _ = HTTPBytes.anyElement(of: fields, separator: UInt8(ascii: ";")) { element in
                guard element.starts(with: cookie.utf8) else { return false }
                value = String(validating: element.dropFirst(cookie.utf8.count), as: UTF8.self)
                return true
            }
            return value
        } ?? nil
    }
}

extension Status {
    fileprivate var errorResponse: Response { .error(rawValue, code: code, message: "\(reason)") }

    /// A word for programs.
    private var code: String {
        switch self {
        case .forbidden: "forbidden"
        case .unsupportedMediaType: "notJSON"
        case .lengthRequired: "lengthRequired"
        case .bodyTooLarge: "tooLarge"
        case .expectationFailed: "expectationFailed"
        case .badRequest: "badRequest"
        default: "failed"
        }
    }
}
