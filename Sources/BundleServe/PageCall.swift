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
