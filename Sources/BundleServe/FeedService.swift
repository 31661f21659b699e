import NIOCore

/// What the connections of a feed server share.
final class FeedService: Service {
    let limits: ServerLimits
    let fields = ResponseFields()
    private let files: FeedFiles
    private let tokens: BearerTokens?
    private let push: (any ProtocolSwitch)?
    private let log: (@Sendable (AccessEntry) -> Void)?

    init(_ configuration: FeedConfiguration) {
        limits = configuration.limits
        files = FeedFiles(configuration.feed, isPrivate: configuration.tokens != nil)
        tokens = configuration.tokens
        push = configuration.push
        log = configuration.log
    }

    var keepsLog: Bool { log != nil }

    func note(_ entry: AccessEntry) { log?(entry) }

    func fields(before file: SiteFile) -> [UInt8] { [] }

    func answer(_ request: Request, on connection: Connection<FeedService>) {
        // No request takes a body, so none is read.
        if request.hasBody { connection.keepsOpen = false }
        let isForOneHost = !request.head.repeatsHost && (request.has(.host) || request.head.isOldVersion)
        guard isForOneHost, let path = request.withTarget({ RequestPath(decoding: $1) }) else {
            connection.keepsOpen = false
            return connection.refuse(.badRequest, request)
        }
        let route = FeedRoute(request.head.method, path, hasPush: push != nil)
        if route != .health && !mayRead(request) { return demandToken(request, connection) }
        switch route {
        case .refused(let status, let allow): connection.refuse(status, allow: allow, request)
        case _ where request.hasBody: connection.refuse(.badRequest, request)
        case _ where request.has(.expect): connection.refuse(.expectationFailed, request)
        case .health: connection.finish(.ok, fields: "", text: "ok", request)
        case .push: changeProtocol(request, connection)
        case .file(let file): show(file, request, connection)
        }
    }

    /// No page's calls are answered here, so none is waited for.
    func carryOut(_ call: PageCall, _ body: [UInt8], on connection: Connection<FeedService>) {
        connection.refuse(.notFound)
    }

    private func show(_ file: FeedFile, _ request: Request, _ connection: Connection<FeedService>) {
        do {
            guard let found = try files.find(file) else { return connection.refuse(.notFound, request) }
            connection.send(found, request)
        } catch {
            connection.refuse(.failed, request)
        }
    }

    // MARK: Tokens

    private func mayRead(_ request: Request) -> Bool {
        guard let tokens else { return true }
        return request.with(.authorization) { tokens.admit($0) } ?? false
    }

    private func demandToken(_ request: Request, _ connection: Connection<FeedService>) {
        let reason = request.has(.authorization) ? ", error=\"invalid_token\"" : ""
        connection.finish(
            .unauthorized, fields: "WWW-Authenticate: Bearer realm=\"feed\"\(reason)\r\n",
            text: "\(Status.unauthorized.reason)", request)
    }

    // MARK: Push

    private func changeProtocol(_ request: Request, _ connection: Connection<FeedService>) {
        guard let push, let channel = connection.context?.channel else { return connection.refuse(.notFound, request) }
        connection.wait(for: push.verdict(on: SwitchRequest(request), channel)) { result in
            switch result {
            case .success(.agreed(let fields)): connection.change(to: push, after: request, fields)
            case .success(.refused(let status)):
                connection.keepsOpen = false
                let status = Status(rawValue: status) ?? .badRequest
                let fields = status == .upgradeRequired ? "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" : ""
                connection.finish(status, fields: fields, text: "\(status.reason)", request)
            case .failure: connection.refuse(.failed, request)
            }
        }
    }
}
