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
    /// The page between the one of a session that ended and the next one.
    case leaving
    /// What the browser of another user is to do.
    case kiosk
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
        if name.elementsEqual("leave".utf8) {
            return method == .get ? .leaving : .refused(.methodNotAllowed, allow: "GET")
        }
        if name.elementsEqual("kiosk".utf8) {
            return method == .get ? .kiosk : .refused(.methodNotAllowed, allow: "GET")
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

/// The path of a request target, decoded once, on bytes. It can name a file below a folder and nothing else.
struct RequestPath: Equatable {
    /// The path without its first slash; no component is empty but the last.
    let bytes: [UInt8]

    /// Takes the part of a target up to its query. Nil for bad escapes, for escaped slashes, backslashes and control bytes, for
    /// what is not UTF-8, and for components that are empty, `.` or `..`, written plainly or escaped.
    init?(decoding target: UnsafeRawBufferPointer) {
        guard let first = target.first, first == HTTPBytes.slash else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(target.count)
        var component = 0
        var isASCII = true
        var index = 1
        while index < target.count {
            var byte = target[index]
            index += 1
            if byte == HTTPBytes.slash {
                if !Self.isName(bytes, from: component) { return nil }
                bytes.append(byte)
                component = bytes.count
                continue
            }
            if byte == UInt8(ascii: "%") {
                guard index + 1 < target.count, let high = HTTPBytes.hexValue(target[index]),
                    let low = HTTPBytes.hexValue(target[index + 1])
                else { return nil }
                byte = high << 4 | low
                index += 2
                if byte == HTTPBytes.slash { return nil }
            }
            if byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "\\") { return nil }
            isASCII = isASCII && byte < 0x80
            bytes.append(byte)
        }
        if component < bytes.count && !Self.isName(bytes, from: component) { return nil }
        if !isASCII && String(validating: bytes, as: UTF8.self) == nil { return nil }
        self.bytes = bytes
    }

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    private static func isName(_ bytes: [UInt8], from start: Int) -> Bool {
        switch bytes.count - start {
        case 0: false
        case 1: bytes[start] != UInt8(ascii: ".")
        case 2: bytes[start] != UInt8(ascii: ".") || bytes[start + 1] != UInt8(ascii: ".")
        default: true
        }
    }

    /// Whether the path is `name` or below it.
    private func isBelow(_ name: String) -> Bool {
        bytes.starts(with: name.utf8) && (bytes.count == name.utf8.count || bytes[name.utf8.count] == HTTPBytes.slash)
    }

    /// Whether the path is the host's own.
    var isReserved: Bool { isBelow("__clientctl") }

    /// Whether the path is never an address inside an application: the host's own, and `/__cordova/`, where the assets of a Meteor client
    /// have a second name.
    var isSpecial: Bool { isReserved || isBelow("__cordova") }

    /// Whether it ends with a slash, or is the root.
    var isFolder: Bool { bytes.last.map { $0 == HTTPBytes.slash } ?? true }

    /// The file that it names: a folder's is its page.
    var document: RequestPath { isFolder ? RequestPath(bytes + Array("index.html".utf8)) : self }

    /// The page that it would have, were it a folder.
    var indexBelow: RequestPath { RequestPath(bytes + [HTTPBytes.slash] + Array("index.html".utf8)) }

    /// Whether a file of that name would be a page.
    var isDocument: Bool { MediaType.isHTML(MediaType.of(document.bytes)) && !isSpecial }

    /// Whether it is the index page itself.
    var isIndex: Bool { bytes.isEmpty || bytes.elementsEqual("index.html".utf8) }

    /// Whether it is one that Cordova's server never answers with a page: browsers ask for the icon by themselves, and files of the
    /// device are none of a client's.
    var isNeverPage: Bool { bytes.elementsEqual("favicon.ico".utf8) || bytes.starts(with: "local-filesystem".utf8) }

    /// What follows the last slash.
    var lastComponent: ArraySlice<UInt8> {
        bytes[(bytes.lastIndex(of: HTTPBytes.slash).map { $0 + 1 } ?? 0)...]
    }

    /// Whether the last component has a dot in it, as the names of files do and the addresses inside an application do not.
    var hasExtension: Bool { lastComponent.contains(UInt8(ascii: ".")) }
}

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

    static func isJSON(_ value: UnsafeRawBufferPointer) -> Bool {
        let type = HTTPBytes.trimmed(UnsafeRawBufferPointer(rebasing: value.prefix { $0 != UInt8(ascii: ";") }))
        guard type.count == 16, type[11] == HTTPBytes.slash else { return false }
        return HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: type[..<11]), "application")
            && HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: type[12...]), "json")
    }
}
