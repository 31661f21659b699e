import BundleValues
import NIOCore

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
        return await .changing(to: sockets, request)
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
