import BundleValues
import NIOCore

/// A loopback server with one page, which a kiosk shows while the server of the device's page does not answer. The page has no script: it
/// loads itself again, and is then redirected.
package final class WaitingServer: Sendable {
    /// The address of the page.
    package let url: String

    private let listener: Listener

    private init(_ listener: Listener) {
        self.listener = listener
        url = "http://127.0.0.1:\(listener.port)/"
    }

    /// Listens on a free port of 127.0.0.1. The page is redirected to the address that `next` returns; while that is nil, it shows `page`.
    package static func start(
        next: @escaping @Sendable () -> String?, page: @escaping @Sendable () -> Translations
    ) async throws -> WaitingServer {
        do {
            return WaitingServer(
                try await Listener.bind(address: "127.0.0.1", port: 0, ServerLimits()) { port in
                    WaitingService(port: port, next: next, page: page)
                })
        } catch let error as IOError {
            throw ServerFailure.bind(port: 0, code: error.errnoCode)
        }
    }
}

/// Responds to a browser with the page, or with the redirect.
private final class WaitingService: Service {
    let limits = ServerLimits()
    let fields = ResponseFields()
    private let rules: RequestRules
    private let next: @Sendable () -> String?
    private let page: @Sendable () -> Translations

    init(
        port: Int, next: @escaping @Sendable () -> String?, page: @escaping @Sendable () -> Translations
    ) {
        rules = RequestRules(port: port)
        (self.next, self.page) = (next, page)
    }

    nonisolated(nonsending) func respond(to request: Request) async -> Response {
        if let status = rules.refusal(of: request) { return Response.refusal(status).closing }
        guard request.head.method == .get || request.head.method == .head else {
            return Response.refusal(.methodNotAllowed, fields: "Allow: GET, HEAD\r\n").closing
        }
        if let next = next() { return .text(.seeOther, "", fields: "Location: \(next)\r\n") }
        guard let page = page().page(for: request.text(.acceptLanguage)) else { return .refusal(.notFound) }
        let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
        var response = Response(
            .ok, type: page.type, caching: Caching.never,
            fields: "Content-Security-Policy: \(policy)\r\nRefresh: 2\r\n", ByteBuffer(bytes: page.before + page.after))
        response.hasPolicy = true
        return response
    }
}
