import ArchiveSource
import BundleDisk
import BundleServe
import BundleSockets
import BundleValues
import NIOCore
import NIOHTTP1
import Synchronization

/// Responds to devices with the files of a feed and with push.
final class FeedService: Service {
    let limits: ServerLimits
    let fields = ResponseFields()
    let log: (@Sendable (AccessEntry) -> Void)?
    private let content: Mutex<ServedContent>
    private let reports: ReportCounter?
    private let roster: RosterService?
    private let phones: PhoneDesk?
    private let operators: Mutex<BearerTokens?>
    private let cache: ReleaseCache?
    private let push: WebSocketUpgrade

    /// Serves the files of `feed`; nil for none. `cache` fetches the files of releases that the folder does not have yet.
    /// `onOpen` receives each socket and its subscription, on the event loop of its connection.
    init(
        _ configuration: FeedConfiguration, feed: Directory?, cache: ReleaseCache?,
        onOpen: @escaping @Sendable (SocketTransport, ChannelSubscription) -> Void
    ) {
        limits = configuration.limits
        content = Mutex(ServedContent(feed, configuration.tokens))
        push = WebSocketUpgrade(UpgradeRule(path: FeedHost.pushPath), limits: Self.socketLimits) { socket, head in
            onOpen(socket, ChannelSubscription(target: head.uri) ?? .all)
        }
        reports = configuration.reports
        roster = configuration.roster
        phones = configuration.phones
        operators = Mutex(configuration.roster?.operators)
        self.cache = cache
        log = configuration.log
    }

    /// Devices send nothing and receive little.
    private static var socketLimits: SocketLimits {
        var limits = SocketLimits()
        limits.message = 4096
        limits.unsent = 64 << 10
        limits.heartbeat = .seconds(45)
        return limits
    }

    /// The served files and the authorized tokens, replaced as one value.
    private struct ServedContent: Sendable {
        /// Nil for a server without files.
        let files: FeedFiles?
        let tokens: BearerTokens?

        init(_ feed: Directory?, _ tokens: BearerTokens?) {
            files = feed.map { FeedFiles($0, isPrivate: tokens != nil) }
            self.tokens = tokens
        }

        func mayRead(_ request: Request) -> Bool {
            guard let tokens else { return true }
            return request.with(.authorization) { tokens.admit($0) } ?? false
        }
    }

    /// Serves the folder `feed` from the next request on.
    func show(_ feed: Directory) { content.withLock { $0 = ServedContent(feed, $0.tokens) } }

    /// Authorizes requests with `tokens` from the next request on. Tokens can be replaced, but not removed.
    func admit(_ tokens: BearerTokens) { content.withLock { $0 = ServedContent($0.files?.root, tokens) } }

    /// Authorizes the readers of the roster with `tokens` from the next request on.
    func admitOperators(_ tokens: BearerTokens) { operators.withLock { $0 = tokens } }

    nonisolated(nonsending) func respond(to request: Request) async -> Response {
        let isForOneHost = !request.head.repeatsHost && (request.has(.host) || request.head.isOldVersion)
        guard isForOneHost, let path = request.withTarget({ RequestPath(decoding: $1) }) else {
            return Response.refusal(.badRequest).closing
        }
        let services = FeedRoute.Services(
            reports: reports != nil, roster: roster != nil, reader: roster?.store != nil, phones: phones != nil)
        let route = FeedRoute(request.head.method, path, services)
        let content = content.withLock { $0 }
        switch route {
        case .health: break
        case .roster, .rosterPage, .rosterDevice, .rosterPicture, .forget:
            if !isOperator(request) { return demandOperator(request) }
        case _ where !content.mayRead(request): return demandToken(request)
        default: break
        }
        switch route {
        case .refused(let status, let allow):
            return .refusal(status, fields: allow.map { "Allow: \($0)\r\n" } ?? "")
        case .report: return await take(request)
        case .post(let isPicture): return await post(request, isPicture: isPicture)
        case .forget: return await forget(request)
        case .phone(let route):
            guard let phones else { return .refusal(.notFound) }
            return await answer(route, request, by: phones)
        // No other route accepts a body.
        case _ where request.hasBody: return .refusal(.badRequest)
        case _ where request.has(.expect): return .refusal(.expectationFailed)
        case .health: return .text(.ok, "ok")
        case .push: return await upgrade(request)
        case .metrics: return await showMetrics()
        case .roster: return await showRoster(request)
        case .rosterPage:
            let query = String(request.query)
            return await showPage { try await $0.page(query: query) }
        case .rosterPicture(let device, let kind):
            return await read(else: .notFound, { try await $0.picture(of: device, kind) }) { picture in
                Response(
                    .ok, type: picture.format.rawValue, caching: Caching.never,
                    fields: "Content-Security-Policy: default-src 'none'; sandbox\r\n", ByteBuffer(bytes: picture.bytes)
                ).withOwnPolicy
            }
        case .rosterDevice(let device): return await showPage(else: .notFound) { try await $0.page(of: device) }
        case .file(let file):
            if let cache { return await show(file, of: content.files, request, from: cache) }
            return show(file, of: content.files, request)
        }
    }

    /// Responds with a file of a cache, which fetches it first if necessary. A cache has no documents.
    private nonisolated(nonsending) func show(
        _ file: FeedFile, of files: FeedFiles?, _ request: Request, from cache: ReleaseCache
    ) async -> Response {
        guard case .lasting(let path) = file else {
            return .text(.notFound, "This is a cache of releases. Request documents from the feed itself.")
        }
        let name = String(decoding: path.bytes, as: UTF8.self)
        switch try? await elsewhere({ await cache.fill(name) }) {
        case .present?:
            cache.used(name)
            return show(file, of: files, request)
        case .later(let seconds)?: return .refusal(.unavailable, fields: "Retry-After: \(seconds)\r\n")
        case .missing?, nil: return .refusal(.notFound)
        }
    }

    private func show(_ file: FeedFile, of files: FeedFiles?, _ request: Request) -> Response {
        guard let files else {
            return .text(.notFound, "This is a relay without files. Request them from the feed itself.")
        }
        do {
            return try files.find(file)?.response(to: request) ?? .refusal(.notFound)
        } catch {
            return .refusal(.failed)
        }
    }

    // MARK: Tokens

    private func demandToken(_ request: Request) -> Response {
        let reason = request.has(.authorization) ? ", error=\"invalid_token\"" : ""
        return .refusal(.unauthorized, fields: "WWW-Authenticate: Bearer realm=\"feed\"\(reason)\r\n")
    }

    // MARK: Reports

    /// Returns the refusal of a JSON body of more than `limit` bytes by its head, before the body is read; nil if it is acceptable.
    private func refusal(of request: Request, limit: Int) -> Response? {
        guard let length = request.head.bodyLength else { return Response.refusal(.lengthRequired).closing }
        guard length <= limit else { return Response.refusal(.bodyTooLarge).closing }
        guard request.isJSON else {
            return Response.refusal(.unsupportedMediaType).closing
        }
        if request.has(.expect) && !request.expectsContinue { return Response.refusal(.expectationFailed).closing }
        return nil
    }

    /// Accepts a report.
    private nonisolated(nonsending) func take(_ request: Request) async -> Response {
        guard let reports else { return .refusal(.notFound) }
        if let refusal = refusal(of: request, limit: ReportMessage.maximumBytes) { return refusal }
        let verdict: ReportVerdict
        do {
            let bytes = try await request.body.read()
            verdict = try await elsewhere { await reports.take(bytes) }
        } catch is NoBufferSpace {
            verdict = .tooMany(retryAfter: 30)
        } catch {
            return .refusal(.badRequest)
        }
        switch verdict {
        case .taken(let counted): return .json(["counted": .integer(counted)], caching: Caching.never)
        case .malformed(let problem):
            return .error(Status.badRequest.rawValue, code: "malformed", message: problem)
        case .tooMany(let seconds):
            return .refusal(.tooManyRequests, fields: "Retry-After: \(seconds)\r\n")
        case .failed: return .refusal(.failed)
        }
    }

    private nonisolated(nonsending) func showMetrics() async -> Response {
        let (reports, roster) = (reports, roster?.store)
        guard
            let text = try? await elsewhere({
                (await reports?.metrics() ?? "") + (await roster?.metrics() ?? "")
            })
        else { return .refusal(.notFound) }
        return Response(.ok, type: MediaType.metrics, caching: Caching.never, ByteBuffer(string: text))
    }

    // MARK: Roster

    /// Accepts the message of a device, or a picture of its screen.
    private nonisolated(nonsending) func post(_ request: Request, isPicture: Bool) async -> Response {
        guard let roster, !isPicture || roster.takesPictures else { return Response.refusal(.notFound).closing }
        let limit = isPicture ? PicturePost.maximumBytes : RosterPost.maximumBytes
        if let refusal = refusal(of: request, limit: limit) { return refusal }
        let fields = request.allFields
        func field(_ name: String) -> String? {
            fields.last { $0.name.utf8.count == name.utf8.count && $0.name.lowercased() == name }?.value
        }
        let peer = request.body.channel.remoteAddress?.ipAddress ?? "-"
        let sender = RosterMessenger(
            key: field("x-device-key"), address: Self.sender(peer: peer, forwarded: field("x-forwarded-for")),
            authorization: field("authorization"))
        let verdict: RosterVerdict
        do {
            let bytes = try await request.body.read()
            verdict = try await elsewhere { await roster.take(bytes, isPicture: isPicture, from: sender) }
        } catch is NoBufferSpace {
            verdict = .tooMany(retryAfter: 30)
        } catch {
            return .refusal(.badRequest)
        }
        switch verdict {
        case .taken: return .json([:], caching: Caching.never)
        case .malformed(let problem): return .error(Status.badRequest.rawValue, code: "malformed", message: problem)
        case .conflict:
            return .error(
                Status.conflict.rawValue, code: "conflict", message: "Another key is pinned for this device.")
        case .tooMany(let seconds): return .refusal(.tooManyRequests, fields: "Retry-After: \(seconds)\r\n")
        case .full: return .refusal(.insufficientStorage)
        case .unwanted: return .refusal(.notFound)
        case .unauthorized: return demandToken(request)
        case .unreachable: return .refusal(.badGateway)
        }
    }

    /// Returns the address of the sender. A proxy on this machine appends it to `X-Forwarded-For`; other peers could forge that field.
    static func sender(peer: String, forwarded: String?) -> String {
        guard ThisMachine.isNamed(by: peer), let last = forwarded?.split(separator: ",").last else { return peer }
        let address = last.filter { !$0.isWhitespace }
        return address.isEmpty ? peer : String(address.prefix(64))
    }

    private func isOperator(_ request: Request) -> Bool {
        guard let tokens = operators.withLock(\.self) else { return false }
        return request.with(.authorization) { tokens.admitBrowser($0) } ?? false
    }

    private func demandOperator(_ request: Request) -> Response {
        .refusal(
            .unauthorized,
            fields:
                "WWW-Authenticate: Bearer realm=\"roster\"\r\nWWW-Authenticate: Basic realm=\"roster\", charset=\"UTF-8\"\r\n"
        )
    }

    /// Responds with the result of `work`, or with `status` if there is none.
    private nonisolated(nonsending) func read<Value: Sendable>(
        else status: Status = .badRequest,
        _ work: @escaping @Sendable (RosterStore) async throws -> Value?, _ response: (Value) -> Response
    ) async -> Response {
        guard let store = roster?.store else { return .refusal(.notFound) }
        do {
            return try await elsewhere { try await work(store) }.map(response) ?? .refusal(status)
        } catch {
            return .refusal(.failed)
        }
    }

    private nonisolated(nonsending) func showRoster(_ request: Request) async -> Response {
        let query = String(request.query)
        return await read({ try await $0.document(query: query) }) {
            Response(.ok, type: MediaType.json, caching: Caching.never, ByteBuffer(bytes: $0))
        }
    }

    private nonisolated(nonsending) func showPage(
        else status: Status = .badRequest,
        _ page: @escaping @Sendable (RosterStore) async throws -> RosterDisplay?
    ) async -> Response {
        await read(else: status, page) { page in
            var response = Response(
                .ok, type: MediaType.html, caching: Caching.never,
                fields: "Content-Security-Policy: \(page.policy)\r\n", ByteBuffer(string: page.html))
            response.hasPolicy = true
            return response
        }
    }

    private nonisolated(nonsending) func forget(_ request: Request) async -> Response {
        if let refusal = refusal(of: request, limit: RosterPost.maximumBytes) { return refusal }
        guard let bytes = try? await request.body.read() else { return .refusal(.badRequest) }
        return await read({ try await $0.forget(bytes) }) {
            .json(["forgotten": .bool($0)], caching: Caching.never)
        }
    }

    // MARK: Push

    private nonisolated(nonsending) func upgrade(_ request: Request) async -> Response {
        await .opening(push, for: request, isValid: ChannelSubscription(target: request.wholeTarget) != nil)
    }
}
