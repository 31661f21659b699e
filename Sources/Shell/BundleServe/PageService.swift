import BundleCore
import BundleValues
import NIOCore
import Synchronization

/// Responds to pages with the files of the client, and with events and results of the host.
final class PageService: Service {
    let limits: ServerLimits
    let fields: ResponseFields

    let host: any PageHost
    let bridge: [UInt8]
    let fallback: ServerConfiguration.Fallback
    private let metrics: (@Sendable () async -> String)?
    private let kiosk: (@Sendable (Substring) -> JSONObject)?
    private let picture: (@Sendable ([UInt8], String) -> Bool)?
    let rules: RequestRules
    let policy: ContentSecurityPolicy
    /// The elements that pass settings to the page's script.
    private let settings: [UInt8]
    let environment: Environment
    /// The subjects of messages that were logged already.
    private let logged = Mutex(Set<[UInt8]>())
    /// The name of the cookie with the launch, and an equals sign.
    let cookie: String
    /// The name of the cookie with the last session that the browser was cleared after, and an equals sign.
    private let clearedCookie: String
    private let leavingPage: LeavingPage
    /// The WebSockets of pages; nil if there are none.
    let sockets: PageSockets?

    init(_ configuration: ServerConfiguration, port: Int, host: any PageHost) throws {
        self.host = host
        sockets = configuration.opensSockets ? PageSockets(host, limit: configuration.limits.sockets) : nil
        bridge = configuration.bridge.script
        fallback = configuration.fallback
        metrics = configuration.metrics
        kiosk = configuration.kiosk
        picture = configuration.picture
        limits = configuration.limits
        rules = RequestRules(port: port)
        policy = try ContentSecurityPolicy(
            bridge: configuration.bridge.scriptSource, extra: configuration.extraSources)
        fields = try ResponseFields(
            configuration.policies, allowsFraming: policy.allowsFraming)
        environment = configuration.environment
        settings = [("heartbeat", configuration.heartbeat), ("idle-reset", configuration.idleReset)].flatMap {
            name, time in
            time.map { Array("<meta name=\"clientctl-\(name)\" content=\"\(Int($0 / .milliseconds(1)))\">".utf8) } ?? []
        }
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
        case .picture: return await takePicture(request)
        case .refused(let status, let allow):
            return .refusal(status, fields: allow.map { "Allow: \($0)\r\n" } ?? "")
        // No other route accepts a body.
        case _ where request.hasBody: return .refusal(.badRequest)
        case _ where request.has(.expect): return .refusal(.expectationFailed)
        case .file where mustLeave(request), .version where mustLeave(request): return leave(request)
        case .file(let path): return await show(path, request)
        case .version(let name, let path): return await show(path, ofVersion: name, request)
        case .versionWithoutSlash(let name): return redirect(toVersion: name)
        case .clients: return await list()
        case .events: return await events(request)
        case .socket: return await openSocket(request)
        case .kiosk:
            return kiosk.map { Response.json($0(request.query), caching: Caching.never) } ?? .refusal(.notFound)
        case .metrics: return await showMetrics()
        }
    }

    /// Returns the path of a request; nil if it names nothing. In a window, an invalid path shows the start of the
    /// application, whose own addresses may have escaped slashes, empty components and any bytes.
    private func path(of request: Request) -> RequestPath? {
        if let path = request.withTarget({ RequestPath(decoding: $1) }) { return path }
        let isOwn = request.withTarget { $1.starts(with: "/__clientctl/".utf8) }
        guard request.isVisit, !isOwn, request.head.method == .get || request.head.method == .head else { return nil }
        sayAddress(of: request, "names no file and no folder, so the index page is shown there")
        return RequestPath([])
    }

    /// Logs once which content the address of a window shows.
    private func sayAddress(of request: Request, _ what: String) {
        let address = String(request.wholeTarget.prefix { $0 != "?" })
        guard isNew(Array("address \(address)".utf8)) else { return }
        environment.log("the address \(UntrustedName.display(address)) of a window \(what)")
    }

    // MARK: Files

    private nonisolated(nonsending) func show(_ path: RequestPath, _ request: Request) async -> Response {
        let site = site(for: request)
        let shown = SiteContent(path, in: site, for: request, fallback)
        if case .index = shown, request.isVisit, path.hasExtension, !path.isIndex {
            sayAddress(of: request, "names no file, so the index page is shown there")
        }
        return shown.isLaunched(by: request, at: path)
            ? await launch(path, request) : response(shown, path, of: site, request)
    }

    /// Returns the site of the cookie, or else of the last navigation on the connection.
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
            return response(SiteContent(path, in: site, for: request, fallback), path, of: site, request)
        } catch {
            return .refusal(.failed)
        }
    }

    func response(_ shown: SiteContent, _ path: RequestPath, of site: Site, _ request: Request) -> Response {
        switch shown {
        // Every page has its policy.
        case .file(let file), .index(let file):
            sayFrame(path, request)
            sayCoding(of: file, path, request)
            let policy = file.isPage ? policy.adding(site.origins).line(scriptSources: file.scriptSources) : ""
            return file.response(to: request, fields: policy)
        // Relative to the request, which may be below a version.
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

    /// Logs that a page was blocked in a frame. The page around the frame receives no error.
    private func sayFrame(_ path: RequestPath, _ request: Request) {
        guard !policy.allowsFraming, Self.isFramed(request), isNew(Array("frame ".utf8) + path.bytes) else { return }
        environment.log(
            "a page shows \(Self.name(path)) in a frame, which is refused: --csp \"\(ContentSecurityPolicy.framing)\" "
                + "would allow it")
    }

    /// Logs once that the browser cannot decompress a file of the client.
    private func sayCoding(of file: SiteFile, _ path: RequestPath, _ request: Request) {
        guard let coding = file.refusedCoding(of: request), isNew(Array("coding ".utf8) + path.bytes) else { return }
        environment.log(
            "the browser does not accept \(coding.rawValue) for \(Self.name(path)), which has no plain copy: publish it without "
                + "compression too")
    }

    /// Logs that a page of another origin was blocked. A page of the client has another origin in a frame with
    /// `sandbox`.
    private func sayForeign(_ request: Request) {
        guard request.has(.fetchSite, "cross-site"), !request.has(.fetchMode, "navigate"),
            let path = request.withTarget({ RequestPath(decoding: $1) }), isNew(Array("foreign ".utf8) + path.bytes)
        else { return }
        environment.log(
            "a page of another origin asks for \(Self.name(path)), which is refused. A frame of the client is one where its sandbox "
                + "lacks allow-same-origin: add that, or put scripts, styles and images into the document of the frame")
    }

    private static func isFramed(_ request: Request) -> Bool {
        request.has(.fetchDestination, "iframe") || request.has(.fetchDestination, "frame")
            || request.has(.fetchDestination, "embed") || request.has(.fetchDestination, "object")
    }

    /// Responds with a worker that unregisters itself and reloads the windows that it controls.
    ///
    /// A worker of another server on this port, or of an earlier client, would respond instead of the clients that
    /// follow. A browser keeps a worker whose update is refused, and replaces it by one whose update differs.
    private func endServiceWorker(_ request: Request) -> Response {
        let path = String(request.wholeTarget.prefix { $0 != "?" })
        if isNew(Array("worker \(path)".utf8)) {
            environment.log(
                "the browser has the service worker \(UntrustedName.display(path)), or is about to register it: it is ended, "
                    + "because it would respond instead of the clients that follow")
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

    static func name(_ path: RequestPath) -> String {
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

    /// Returns the metrics of the host. They are not secret, and `RequestRules` has accepted the request.
    private nonisolated(nonsending) func showMetrics() async -> Response {
        guard let metrics else { return .refusal(.notFound) }
        guard let text = try? await elsewhere(metrics) else { return .refusal(.failed) }
        return Response(.ok, type: MediaType.metrics, caching: Caching.never, ByteBuffer(string: text))
    }

    /// Takes a picture of the screen. It checks the whole head before it reads the body.
    private nonisolated(nonsending) func takePicture(_ request: Request) async -> Response {
        guard let picture else { return Response.refusal(.notFound).closing }
        guard let length = request.head.bodyLength else { return Response.refusal(.lengthRequired).closing }
        guard length <= ScreenPicture.maximumBytes else { return Response.refusal(.bodyTooLarge).closing }
        guard let token = request.text(.authorization)?.dropping(prefix: "Bearer ") else {
            return Response.refusal(.forbidden).closing
        }
        guard let bytes = try? await request.body.read() else { return .refusal(.badRequest) }
        return picture(bytes, token) ? .json([:], caching: Caching.never) : .refusal(.forbidden)
    }

    func isNew(_ thing: [UInt8]) -> Bool {
        logged.withLock { logged in
            if logged.count > 100 { logged = [] }
            return logged.insert(thing).inserted
        }
    }
}

extension Request {
    /// Returns the value of a cookie. `cookie` is its name and an equals sign.
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

extension PageService {
    /// Carries out a call. It checks the whole head before it reads the body.
    nonisolated(nonsending) func call(_ method: String, _ request: Request) async -> Response {
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

    nonisolated(nonsending) func events(_ request: Request) async -> Response {
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
        .refusal(CallRefusal(of: error))
    }

    /// Opens the WebSocket of a page of this server.
    nonisolated(nonsending) func openSocket(_ request: Request) async -> Response {
        guard let sockets else { return .refusal(.notFound) }
        guard rules.isFromOurPage(request) else { return Status.forbidden.errorResponse }
        return await sockets.response(to: request)
    }
}

extension CallRefusal {
    /// Creates the refusal that a page receives for an error.
    init(of error: any Error) {
        let refusal = error as? CallRefusal
        self =
            refusal.flatMap { (400...599).contains($0.status) ? $0 : nil }
            ?? CallRefusal(status: Status.failed.rawValue, code: "failed", message: "\(Status.failed.reason)")
    }
}

extension Status {
    fileprivate var errorResponse: Response { .error(rawValue, code: code, message: "\(reason)") }

    /// A code for programs.
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

extension PageService {
    /// The document of a launch.
    private struct LaunchedPage {
        let bytes: [UInt8]
        let tag: [UInt8]
        let type: String
        let scriptSources: [String]
    }

    nonisolated(nonsending) func launch(_ path: RequestPath, _ request: Request) async -> Response {
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

    /// Returns the launch and its document at `path`, if it has one. The launch may show another client than before.
    private func pageOfHost(_ path: RequestPath, _ request: Request) async throws -> (Page, LaunchedPage?) {
        let page = try await host.page(isBrowser: request.isNavigation)
        let content = SiteContent(path, in: page.site, for: request, fallback)
        let cut = try page.site.page(content, at: path).map { cut in
            page.translations?.page(for: request.text(.acceptLanguage)) ?? cut
        }
        if let cut, ContentSecurityPolicy.areTooMany(cut.scriptSources), isNew(cut.before + Array(page.id.utf8)) {
            environment.log(
                "\(Self.name(path)) has \(cut.scriptSources.count) "
                    + "inline scripts, more than a header can name one by one: any inline script may run in it. Put them into files."
            )
        }
        return (page, try cut.map { try document($0, of: page) })
    }

    /// Responds to a navigation to a page that the launched client lacks. A link of the client itself leads to a 404.
    /// Other windows are redirected to the start: a window at the address of another client's page would stay empty.
    private func responseWithoutPage(_ page: Page, _ path: RequestPath, _ request: Request) -> Response {
        let shown = SiteContent(path, in: page.site, for: request, fallback)
        if case .missing = shown, self.page(of: request) != page.id {
            return .refusal(.seeOther, fields: "Location: /\r\n")
        }
        return response(shown, path, of: page.site, request)
    }

    private func launchResponse(_ page: Page, _ document: LaunchedPage, _ request: Request) -> Response {
        let fields = """
            \(policy.adding(page.site.origins).line(scriptSources: document.scriptSources))\(clearing(page, request))\
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

    /// Returns the fields that clear the data of an ended session with the first page that a browser receives
    /// afterwards. A cookie records it beyond a restart of the browser. Cookies are deleted one by one, because the
    /// header would delete those of this response as well.
    private func clearing(_ page: Page, _ request: Request) -> String {
        guard let ended = page.ended else { return "" }
        // Browsers keep no cookie for more than 400 days.
        var fields =
            "Set-Cookie: \(clearedCookie)\(ended); Path=/; HttpOnly; SameSite=Strict; Max-Age=34560000\r\n"
        if request.value(ofCookie: clearedCookie) == ended || page.site.keepsSiteData { return fields }
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

    /// Returns the launch that the cookie of a request names.
    func page(of request: Request) -> String? { request.value(ofCookie: cookie) }

    /// Returns a page with the token of its launch and with the bridge.
    private func document(_ cut: IndexPage, of page: Page) throws -> LaunchedPage {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(cut.before.count + cut.after.count + bridge.count + 256)
        bytes += cut.before
        bytes += Array(
            "<meta name=\"clientctl-token\" content=\"\(page.token)\" data-ended=\"\(host.leaving?.ended ?? "")\">".utf8
        )
        bytes += settings
        bytes += Array("<script>".utf8)
        bytes += bridge
        bytes += Array("</script>".utf8)
        if let notice = page.notice { bytes += Array("<script>".utf8) + notice.script + Array("</script>".utf8) }
        bytes += cut.after
        return LaunchedPage(
            bytes: bytes, tag: try Site.tag(of: [bytes]), type: cut.type,
            scriptSources: cut.scriptSources + (page.notice.map { [$0.scriptSource] } ?? []))
    }

    // MARK: Leaving a session that has ended

    /// Returns whether the browser has to show the page that clears the data of a session, including its way back
    /// through the addresses of the window.
    private func mustLeave(_ request: Request) -> Bool {
        guard request.head.method == .get, request.has(.fetchMode, "navigate"),
            request.has(.fetchDestination, "document"),
            let leaving = host.leaving
        else { return false }
        return leaving.clears && request.value(ofCookie: clearedCookie) != leaving.ended
            || leavingPage.isOpen(in: request)
    }

    func leave(_ request: Request) -> Response {
        guard let leaving = host.leaving else { return .refusal(.seeOther, fields: "Location: /\r\n") }
        let clears = leaving.clears && request.value(ofCookie: clearedCookie) != leaving.ended
        return leavingPage.response(clearing: clears ? leaving.ended : nil, policy)
    }
}
