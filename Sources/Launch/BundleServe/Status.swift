/// The statuses that the server answers with.
enum Status: Int, Sendable {
    case switchingProtocols = 101
    case ok = 200
    case partialContent = 206
    case notModified = 304
    case permanentRedirect = 308
    case badRequest = 400
    case unauthorized = 401
    case forbidden = 403
    case notFound = 404
    case methodNotAllowed = 405
    case lengthRequired = 411
    case bodyTooLarge = 413
    case uriTooLong = 414
    case unsupportedMediaType = 415
    case rangeNotSatisfiable = 416
    case expectationFailed = 417
    case misdirected = 421
    case upgradeRequired = 426
    case headTooLarge = 431
    case failed = 500
    case versionNotSupported = 505

    /// The reason phrase, which is also all that a refusal says.
    var reason: StaticString {
        switch self {
        case .switchingProtocols: "Switching Protocols"
        case .ok: "OK"
        case .partialContent: "Partial Content"
        case .notModified: "Not Modified"
        case .permanentRedirect: "Permanent Redirect"
        case .badRequest: "Bad Request"
        case .unauthorized: "Unauthorized"
        case .forbidden: "Forbidden"
        case .notFound: "Not Found"
        case .methodNotAllowed: "Method Not Allowed"
        case .lengthRequired: "Length Required"
        case .bodyTooLarge: "Content Too Large"
        case .uriTooLong: "URI Too Long"
        case .unsupportedMediaType: "Unsupported Media Type"
        case .rangeNotSatisfiable: "Range Not Satisfiable"
        case .expectationFailed: "Expectation Failed"
        case .misdirected: "Misdirected Request"
        case .upgradeRequired: "Upgrade Required"
        case .headTooLarge: "Request Header Fields Too Large"
        case .failed: "Internal Server Error"
        case .versionNotSupported: "HTTP Version Not Supported"
        }
    }
}
