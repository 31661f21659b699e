import NIOCore

/// What the connections of a page server share.
final class PageService: Service {
    let host: any PageHost
    let bridge: [UInt8]
    let fallback: ServerConfiguration.Fallback
    let metrics: (@Sendable () async -> String)?
    let limits: ServerLimits
    let rules: RequestRules
    let fields: ResponseFields
    let policy: ContentSecurityPolicy
    /// The cookie's name and the equals sign.
    let cookie: [UInt8]

    init(_ configuration: ServerConfiguration, port: Int, host: any PageHost) throws(ServerFailure) {
        self.host = host
        bridge = configuration.bridge.script
        fallback = configuration.fallback
        metrics = configuration.metrics
        limits = configuration.limits
        rules = RequestRules(port: port)
        policy = try ContentSecurityPolicy(
            bridge: configuration.bridge.scriptSource, extra: configuration.extraSources)
        fields = try ResponseFields(
            permissionsPolicy: configuration.permissionsPolicy, allowsFraming: policy.allowsFraming)
        cookie = Array("clientctl-\(port)=".utf8)
    }

    func answer(_ request: Request, on connection: Connection<PageService>) { connection.answer(request) }

    func carryOut(_ call: PageCall, _ body: [UInt8], on connection: Connection<PageService>) {
        connection.carryOut(call, body)
    }

    /// Pages say what they may load.
    func fields(before file: SiteFile) -> [UInt8] {
        file.isPage ? Array(policy.line(scriptSources: file.scriptSources).utf8) : []
    }

    /// The launch that a request says it belongs to.
    func page(of request: Request) -> String? {
        request.with(.cookie) { value -> String? in
            var page: String?
            _ = HTTPBytes.anyElement(of: value, separator: UInt8(ascii: ";")) { element in
                guard element.starts(with: cookie) else { return false }
                page = String(validating: element.dropFirst(cookie.count), as: UTF8.self)
                return true
            }
            return page
        } ?? nil
    }

    /// The index page of a launch, with its token and the bridge.
    func document(for page: Page) -> [UInt8] {
        var bytes: [UInt8] = []
        let index = page.site.index
        bytes.reserveCapacity(index.before.count + index.after.count + bridge.count + 256)
        bytes += index.before
        bytes += Array("<meta name=\"clientctl-token\" content=\"\(page.token)\"><script>".utf8)
        bytes += bridge
        bytes += Array("</script>".utf8)
        if let notice = page.notice { bytes += Array("<script>".utf8) + notice.script + Array("</script>".utf8) }
        bytes += index.after
        return bytes
    }
}
