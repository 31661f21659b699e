import BundleCore
import NIOCore

extension Connection<PageService> {
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
        case .metrics: sendMetrics(request)
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
}
