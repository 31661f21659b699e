import BundleCore
import BundleValues
import NIOCore

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
        bytes += heartbeat
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
    func mustLeave(_ request: Request) -> Bool {
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
