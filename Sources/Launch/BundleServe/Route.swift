import BundleCore

/// What a request asks for, by its method and path alone.
enum Route: Equatable {
    /// A file of the client, or its index page.
    case file(RequestPath)
    /// The list of the versions.
    case clients
    /// A file of one version.
    case version(name: String, RequestPath)
    /// The index page of one version, without the slash that its own links need.
    case versionWithoutSlash(ClientName)
    /// The events of a page.
    case events
    /// How the host is doing.
    case metrics
    /// A call of a page.
    case call(String)
    case refused(Status, allow: String?)

    private static let prefix = Array("__clientctl/v1/".utf8)
    private static let versions = Array("clients/".utf8)
    private static let longestMethod = 64

    init(_ method: RequestHead.Method, _ path: RequestPath) {
        if path.isReserved {
            self = Self.reserved(method, path)
        } else if method != .get && method != .head {
            self = .refused(.methodNotAllowed, allow: "GET, HEAD")
        } else {
            self = Self.shown(path)
        }
    }

    private static func reserved(_ method: RequestHead.Method, _ path: RequestPath) -> Route {
        let name = path.bytes.dropFirst(prefix.count)
        guard path.bytes.starts(with: prefix), (1...longestMethod).contains(name.count),
            name.allSatisfy({ HTTPBytes.isLetter($0) })
        else { return .refused(.notFound, allow: nil) }
        if name.elementsEqual("events".utf8) {
            return method == .get ? .events : .refused(.methodNotAllowed, allow: "GET")
        }
        if name.elementsEqual("metrics".utf8) {
            return method == .get || method == .head ? .metrics : .refused(.methodNotAllowed, allow: "GET, HEAD")
        }
        return method == .post
            ? .call(String(decoding: name, as: UTF8.self)) : .refused(.methodNotAllowed, allow: "POST")
    }

    private static func shown(_ path: RequestPath) -> Route {
        guard path.bytes.starts(with: versions) else { return .file(path) }
        let rest = path.bytes.dropFirst(versions.count)
        if rest.isEmpty { return .clients }
        let slash = rest.firstIndex(of: HTTPBytes.slash)
        let name = String(decoding: rest[..<(slash ?? rest.endIndex)], as: UTF8.self)
        // An application may have a page /clients/anne/orders of its own.
        guard let client = ClientName(name) else { return .file(path) }
        guard let slash else { return .versionWithoutSlash(client) }
        return .version(name: name, RequestPath(Array(rest[(slash + 1)...])))
    }
}
