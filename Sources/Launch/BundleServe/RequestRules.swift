/// Who may ask at all, before anybody looks at what for: a page of another origin, or a name of somebody else that leads here, gets
/// nothing.
struct RequestRules: Sendable {
    private let hosts: [[UInt8]]
    private let origins: [[UInt8]]

    init(port: Int) {
        hosts = ["127.0.0.1", "localhost"].map { Array("\($0):\(port)".utf8) }
        origins = hosts.map { Array("http://".utf8) + $0 }
    }

    /// Why a request is refused, whatever it asks for.
    func refusal(of request: Request) -> Status? {
        guard let host = host(of: request) else { return .misdirected }
        if request.head.method == .options && request.has(.privateNetwork) { return .forbidden }
        // It would outlive its client, and go on answering in place of the one that follows a rollback.
        if request.has(.fetchDestination, "serviceworker") { return .forbidden }
        if request.has(.origin) && !isOurs(request, host) { return .forbidden }
        if request.has(.fetchSite) && !request.has(.fetchSite, "same-origin") && !request.has(.fetchSite, "none")
            && !isVisit(request)
        {
            return .forbidden
        }
        return nil
    }

    /// Whether the request comes from a page of ours, and says so.
    func isFromOurPage(_ request: Request) -> Bool {
        host(of: request).map { isOurs(request, $0) } ?? false
    }

    /// Which of our names the request was sent to; nil for any other, for none, and for two.
    private func host(of request: Request) -> Int? {
        guard !request.head.repeatsHost,
            let host = request.with(.host, { host in hosts.firstIndex { $0.elementsEqual(host) } }) ?? nil
        else { return nil }
        let matches = request.withTarget { authority, _ in authority.map { hosts[host].elementsEqual($0) } ?? true }
        return matches ? host : nil
    }

    /// Whether the origin is the one of the name that the request was sent to.
    private func isOurs(_ request: Request, _ host: Int) -> Bool {
        request.with(.origin) { origins[host].elementsEqual($0) } ?? false
    }

    /// Whether somebody goes to one of our pages from elsewhere: not into a frame, and not to something that is no page.
    private func isVisit(_ request: Request) -> Bool {
        guard request.head.method == .get, request.has(.fetchMode, "navigate"),
            request.has(.fetchDestination, "document")
        else { return false }
        return request.withTarget { _, path in
            guard let path = RequestPath(decoding: path), !path.isSpecial else { return false }
            return !path.hasExtension || MediaType.isPage(MediaType.of(path.bytes))
        }
    }
}

/// What the head of a page's call says, before anything of its body is read.
enum PageCall: Equatable {
    static let longestBody = 64 << 10

    case accepted(token: String)
    case refused(Status)

    init(_ request: Request, isFromOurPage: Bool) {
        self = .refused(.forbidden)
        guard isFromOurPage, let token = request.text(.token), !token.isEmpty else { return }
        let isJSON = request.with(.contentType, Self.isJSON) ?? false
        let expects = request.has(.expect) && !request.head.isOldVersion
        switch request.head.bodyLength {
        case _ where !isJSON: self = .refused(.unsupportedMediaType)
        case nil: self = .refused(.lengthRequired)
        case let length? where length > Self.longestBody: self = .refused(.bodyTooLarge)
        case _ where expects && !request.expectsContinue: self = .refused(.expectationFailed)
        default: self = .accepted(token: token)
        }
    }

    private static func isJSON(_ value: UnsafeRawBufferPointer) -> Bool {
        let type = HTTPBytes.trimmed(UnsafeRawBufferPointer(rebasing: value.prefix { $0 != UInt8(ascii: ";") }))
        guard type.count == 16, type[11] == HTTPBytes.slash else { return false }
        return HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: type[..<11]), "application")
            && HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: type[12...]), "json")
    }
}
