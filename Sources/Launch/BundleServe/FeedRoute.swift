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

/// A file of a feed, by its path alone: only what a feed has (CONTRACT, section 3) is ever looked for.
///
/// Whatever else lies in the folder, such as a publisher's unfinished work, is nobody's.
enum FeedFile: Equatable {
    /// Replaced by rename when something changes.
    case mutable(RequestPath)
    /// Written once.
    case lasting(RequestPath)

    private static let documents = ["manifest.json", "trust.json"].map { Array($0.utf8) }
    private static let folders = ["channels", "trust"].map { Array($0.utf8) }
    private static let releases = Array("releases".utf8)
    private static let unfinished = Array(".new".utf8)
    private static let document = Array(".json".utf8)

    init?(_ path: RequestPath) {
        let parts = path.bytes.split(separator: HTTPBytes.slash, omittingEmptySubsequences: false)
        guard parts.allSatisfy(Self.isShown), let first = parts.first else { return nil }
        switch parts.count {
        case 1 where Self.documents.contains(Array(first)): self = .mutable(path)
        case 2 where Self.folders.contains(Array(first)) && parts[1].suffix(5).elementsEqual(Self.document):
            self = .mutable(path)
        case 3 where first.elementsEqual(Self.releases): self = .lasting(path)
        default: return nil
        }
    }

    /// Names with a dot in front are hidden, or a publisher's; those with this end are not finished.
    private static func isShown(_ name: ArraySlice<UInt8>) -> Bool {
        guard let first = name.first, first != UInt8(ascii: ".") else { return false }
        return !name.suffix(unfinished.count).elementsEqual(unfinished)
    }

    var path: RequestPath {
        switch self {
        case .mutable(let path), .lasting(let path): path
        }
    }
}
