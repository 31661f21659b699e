/// What a request asks a feed server for, by its method and path alone.
enum FeedRoute: Equatable {
    case file(FeedFile)
    /// Whether the server is there at all.
    case health
    /// To be told of changes.
    case push
    case refused(Status, allow: String?)

    private static let healthPath = Array("healthz".utf8)
    private static let pushPath = Array("push".utf8)

    init(_ method: RequestHead.Method, _ path: RequestPath, hasPush: Bool) {
        let isPush = hasPush && path.bytes == Self.pushPath
        if isPush && method != .get {
            self = .refused(.methodNotAllowed, allow: "GET")
        } else if method != .get && method != .head {
            self = .refused(.methodNotAllowed, allow: "GET, HEAD")
        } else if isPush {
            self = .push
        } else if path.bytes == Self.healthPath {
            self = .health
        } else if let file = FeedFile(path) {
            self = .file(file)
        } else {
            self = .refused(.notFound, allow: nil)
        }
    }
}
