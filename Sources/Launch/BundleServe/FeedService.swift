import NIOCore

/// Answers devices: with the files of a feed, and with push.
final class FeedService: Service {
    let limits: ServerLimits
    let fields = ResponseFields()
    let log: (@Sendable (AccessEntry) -> Void)?
    private let files: FeedFiles
    private let tokens: BearerTokens?
    private let push: (any ProtocolSwitch)?

    init(_ configuration: FeedConfiguration) {
        limits = configuration.limits
        files = FeedFiles(configuration.feed, isPrivate: configuration.tokens != nil)
        tokens = configuration.tokens
        push = configuration.push
        log = configuration.log
    }

    nonisolated(nonsending) func respond(to request: Request) async -> Response {
        let isForOneHost = !request.head.repeatsHost && (request.has(.host) || request.head.isOldVersion)
        guard isForOneHost, let path = request.withTarget({ RequestPath(decoding: $1) }) else {
            return Response.refusal(.badRequest).closing
        }
        let route = FeedRoute(request.head.method, path, hasPush: push != nil)
        if route != .health && !mayRead(request) { return demandToken(request) }
        switch route {
        case .refused(let status, let allow):
            return .refusal(status, fields: allow.map { "Allow: \($0)\r\n" } ?? "")
        // No route takes a body.
        case _ where request.hasBody: return .refusal(.badRequest)
        case _ where request.has(.expect): return .refusal(.expectationFailed)
        case .health: return .text(.ok, "ok")
        case .push: return await upgrade(request)
        case .file(let file): return show(file, request)
        }
    }

    private func show(_ file: FeedFile, _ request: Request) -> Response {
        do {
            return try files.find(file)?.response(to: request) ?? .refusal(.notFound)
        } catch {
            return .refusal(.failed)
        }
    }

    // MARK: Tokens

    private func mayRead(_ request: Request) -> Bool {
        guard let tokens else { return true }
        return request.with(.authorization) { tokens.admit($0) } ?? false
    }

    private func demandToken(_ request: Request) -> Response {
        let reason = request.has(.authorization) ? ", error=\"invalid_token\"" : ""
        return .refusal(.unauthorized, fields: "WWW-Authenticate: Bearer realm=\"feed\"\(reason)\r\n")
    }

    // MARK: Push

    private nonisolated(nonsending) func upgrade(_ request: Request) async -> Response {
        guard let push else { return .refusal(.notFound) }
        let asked = SwitchRequest(request)
        do {
            switch try await push.verdict(on: asked) {
            case .agreed(let fields):
                let lines = fields.map { "\($0.name): \($0.value)\r\n" }.joined() + "\r\n"
                return Response(.switchingProtocols, fields: ByteBuffer(string: lines), .upgrade(push, asked))
            case .refused(let status):
                let status = Status(rawValue: status) ?? .badRequest
                let fields = status == .upgradeRequired ? "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" : ""
                return Response.refusal(status, fields: fields).closing
            }
        } catch {
            return .refusal(.failed)
        }
    }
}
