import BundleCore
import NIOCore

extension Connection {
    /// Answers a request, or starts to.
    func answer(_ request: Request) {
        if let status = service.rules.refusal(of: request) {
            if request.hasBody || status == .misdirected { keepsOpen = false }
            return status == .misdirected ? finish(status, fields: "", text: "", request) : refuse(status, request)
        }
        guard let path = request.withTarget({ RequestPath(decoding: $1) }) else {
            keepsOpen = false
            return refuse(.badRequest, request)
        }
        let route = Route(request.head.method, path)
        if case .call(let method) = route { return answerCall(method, request) }
        // No other route takes a body, so none is read.
        if request.hasBody { keepsOpen = false }
        switch route {
        case .refused(let status, let allow): refuse(status, allow: allow, request)
        case _ where request.hasBody: refuse(.badRequest, request)
        case _ where request.has(.expect): refuse(.expectationFailed, request)
        case .file(let path): show(path, request)
        case .version(let name, let path): show(path, ofVersion: name, request)
        case .versionWithoutSlash(let name):
            let status = Status.permanentRedirect
            finish(
                status, fields: "Location: /clients/\(PercentEncoding.encode(path: Array("\(name)".utf8)))/\r\n",
                text: "\(status.reason)", request)
        case .clients: list(request)
        case .events: openEvents(request)
        case .call: break
        }
    }

    // MARK: Files

    private func show(_ path: RequestPath, _ request: Request) {
        let page = service.page(of: request)
        let site: Site
        if page == nil, let pinned, pinned.generation == service.host.generation {
            site = pinned.site
        } else {
            site = service.host.site(ofPage: page)
        }
        switch Shown(path, in: site, for: request, service.fallback) {
        case .file(let file): send(file, request)
        case .index where request.startsLaunch: launch(request)
        case .index: send(site.bareIndex, request)
        case .missing: refuse(.notFound, request)
        case .failed: refuse(.failed, request)
        }
    }

    private func show(_ path: RequestPath, ofVersion name: String, _ request: Request) {
        ask { [host = service.host] in
            try await host.site(named: name)
        } then: { [self] result in
            guard case .success(let found) = result else { return refuse(.failed, request) }
            guard let site = found else { return refuse(.notFound, request) }
            switch Shown(path, in: site, for: request, service.fallback) {
            case .file(let file): send(file, request)
            case .index: send(site.bareIndex, request)
            case .missing: refuse(.notFound, request)
            case .failed: refuse(.failed, request)
            }
        }
    }

    private func send(_ file: SiteFile, _ request: Request) {
        let fields = file.fields(for: request)
        if request.with(.ifNoneMatch, { EntityTag.isNamed(file.tag, in: $0) }) ?? false {
            return send(.notModified, policy(file) + fields.validators + Array("\r\n".utf8))
        }
        let range = request.isHead ? .whole : range(of: file, request)
        switch range {
        case .unsatisfiable:
            finish(
                .rangeNotSatisfiable, fields: "Content-Range: bytes */\(file.size)\r\n",
                text: "\(Status.rangeNotSatisfiable.reason)", request)
        case .part(let part):
            write(service.fields.start(.partialContent, closes: !keepsOpen))
            write(ByteBuffer(bytes: policy(file) + fields.partHead(part)))
            sendContent(of: file, part)
        case .whole:
            write(service.fields.start(.ok, closes: !keepsOpen))
            if file.isPage { write(ByteBuffer(bytes: policy(file))) }
            if request.isHead { return finish(.byteBuffer(fields.wholeHead)) }
            if !file.isOpen { return finish(.byteBuffer(fields.whole)) }
            write(fields.wholeHead)
            sendContent(of: file, 0..<file.size)
        }
    }

    private func range(of file: SiteFile, _ request: Request) -> ByteRange {
        // A date, or a weak tag, never equals ours: the whole then.
        guard request.with(.ifRange, { $0.elementsEqual(file.tag) }) ?? true else { return .whole }
        return request.with(.range) { ByteRange(parsing: $0, size: file.size) } ?? .whole
    }

    private func sendContent(of file: SiteFile, _ part: Range<Int>) {
        switch file.content {
        case .bytes(let bytes):
            finish(.byteBuffer(bytes.getSlice(at: bytes.readerIndex + part.lowerBound, length: part.count) ?? bytes))
        case .open(let open):
            let region = FileRegion(fileHandle: open.handle, readerIndex: part.lowerBound, endIndex: part.upperBound)
            finish(.fileRegion(region), from: open)
        }
    }

    private func policy(_ file: SiteFile) -> [UInt8] {
        file.isPage ? Array(service.policy.line(scriptSources: file.scriptSources).utf8) : []
    }

    // MARK: Launches

    private func launch(_ request: Request) {
        let isBrowser = request.isNavigation
        let generation = service.host.generation
        ask { [service] in
            let page = try await service.host.page(isBrowser: isBrowser)
            let document = service.document(for: page)
            return (page, document, try Site.tag(of: [document]))
        } then: { [self] result in
            guard case .success(let (page, document, tag)) = result, page.isWellFormed else {
                return refuse(.failed, request)
            }
            pinned = (page.site, generation)
            let cookie = "Set-Cookie: \(String(decoding: service.cookie, as: UTF8.self))\(page.id)"
            let fields = """
                \(service.policy.line(scriptSources: page.scriptSources))\
                \(cookie); Path=/; HttpOnly; SameSite=Strict\r
                ETag: \(String(decoding: tag, as: UTF8.self))\r
                Cache-Control: \(Caching.revalidated)\r\n
                """
            if request.with(.ifNoneMatch, { EntityTag.isNamed(tag, in: $0) }) ?? false {
                return send(.notModified, Array((fields + "\r\n").utf8))
            }
            var head = service.fields.start(.ok, closes: !keepsOpen)
            head.writeString(
                "\(fields)Content-Type: \(MediaType.html)\r\nContent-Length: \(document.count)\r\n\r\n")
            write(head)
            finish(.byteBuffer(ByteBuffer(bytes: document)))
        }
    }

    private func list(_ request: Request) {
        ask { [host = service.host] in
            try await host.clients()
        } then: { [self] result in
            guard case .success(let names) = result else { return refuse(.failed, request) }
            sendJSON(.ok, ["versions": .array(names.map { .string($0) })], caching: Caching.revalidated, request)
        }
    }

    // MARK: Refusals and short answers

    /// Refuses with the reason phrase as the only text.
    func refuse(_ status: Status, allow: String? = nil, _ request: Request? = nil) {
        var fields = allow.map { "Allow: \($0)\r\n" } ?? ""
        if status == .headTooLarge { fields += Self.fewerCookies }
        finish(status, fields: fields, text: "\(status.reason)", request)
    }

    /// Cookies outlive the client that set them: too many would keep every other one from being shown, too.
    private static let fewerCookies = "Clear-Site-Data: \"cookies\"\r\nRefresh: 1\r\n"

    func finish(_ status: Status, fields: String, text: String, _ request: Request?) {
        var head = service.fields.start(status, closes: !keepsOpen)
        let body = text.isEmpty ? "" : text + "\n"
        head.writeString(
            """
            \(fields)Content-Type: \(MediaType.text)\r
            Cache-Control: no-store\r
            Content-Length: \(body.utf8.count)\r\n\r\n
            """)
        if !(request?.isHead ?? false) { head.writeString(body) }
        finish(.byteBuffer(head))
    }

    private func send(_ status: Status, _ fieldsAndEnd: [UInt8]) {
        var head = service.fields.start(status, closes: !keepsOpen)
        head.writeBytes(fieldsAndEnd)
        finish(.byteBuffer(head))
    }
}
