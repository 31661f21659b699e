import BundleCore

/// The target of a request, by its method and path alone.
enum Route: Equatable {
    /// A file of the client, or its index page.
    case file(RequestPath)
    /// The list of versions.
    case clients
    /// A file of one version.
    case version(name: String, RequestPath)
    /// The index page of a version, without the slash that its links need.
    case versionWithoutSlash(ClientName)
    /// The events of a page.
    case events
    /// The WebSocket of a page.
    case socket
    /// The page between a session that ended and the next one.
    case leaving
    /// The status for the browser of another user.
    case kiosk
    /// A picture of the screen from the browser of another user.
    case picture
    /// The metrics of the host.
    case metrics
    /// A call of a page.
    case call(String)
    case refused(Status, allow: String?)

    private static let prefix = Array("__clientctl/v1/".utf8)
    private static let longestMethod = 64

    init(_ method: RequestHead.Method, _ path: RequestPath) {
        let place = ServedPath(path.bytes)
        if place != .host, method != .get, method != .head {
            self = .refused(.methodNotAllowed, allow: "GET, HEAD")
            return
        }
        self =
            switch place {
            case .host: Self.reserved(method, path)
            case .file: .file(path)
            case .clients: .clients
            case .version(let client, _, nil): .versionWithoutSlash(client)
            case .version(_, let name, let file?): .version(name: name, RequestPath(Array(file)))
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
        if name.elementsEqual("socket".utf8) {
            return method == .get ? .socket : .refused(.methodNotAllowed, allow: "GET")
        }
        if name.elementsEqual("leave".utf8) {
            return method == .get ? .leaving : .refused(.methodNotAllowed, allow: "GET")
        }
        if name.elementsEqual("kiosk".utf8) {
            return method == .get ? .kiosk : .refused(.methodNotAllowed, allow: "GET")
        }
        if name.elementsEqual("picture".utf8) {
            return method == .post ? .picture : .refused(.methodNotAllowed, allow: "POST")
        }
        if name.elementsEqual("metrics".utf8) {
            return method == .get || method == .head ? .metrics : .refused(.methodNotAllowed, allow: "GET, HEAD")
        }
        return method == .post
            ? .call(String(decoding: name, as: UTF8.self)) : .refused(.methodNotAllowed, allow: "POST")
    }
}

/// The path of a request target, decoded once, as bytes. It always names a path below a folder.
package struct RequestPath: Equatable {
    /// The path without its first slash. Only its last component may be empty.
    package let bytes: [UInt8]

    /// Decodes the path of a target. Returns nil for invalid escapes, for escaped slashes, backslashes and control
    /// bytes, for invalid UTF-8, and for components that are empty, `.` or `..`, escaped or not.
    package init?(decoding target: UnsafeRawBufferPointer) {
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

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    private static func isName(_ bytes: [UInt8], from start: Int) -> Bool {
        switch bytes.count - start {
        case 0: false
        case 1: bytes[start] != UInt8(ascii: ".")
        case 2: bytes[start] != UInt8(ascii: ".") || bytes[start + 1] != UInt8(ascii: ".")
        default: true
        }
    }

    /// Whether the path belongs to the host.
    var isReserved: Bool { ServedPath.isHost(bytes) }

    /// Whether the path is never an address inside an application: it belongs to the host, or to `/__cordova/`, the
    /// second name of the assets of a Meteor client.
    var isSpecial: Bool { isReserved || ServedPath.isBelow("__cordova", bytes) }

    /// Whether the path ends with a slash or is the root.
    var isFolder: Bool { bytes.last.map { $0 == HTTPBytes.slash } ?? true }

    /// The path of the file, which for a folder is its index page.
    var document: RequestPath { isFolder ? RequestPath(bytes + Array("index.html".utf8)) : self }

    /// The path of the index page if the path were a folder.
    var indexBelow: RequestPath { RequestPath(bytes + [HTTPBytes.slash] + Array("index.html".utf8)) }

    /// Whether the path has the name of a page.
    var isDocument: Bool { MediaType.isHTML(MediaType.of(document.bytes)) && !isSpecial }

    /// Whether the path is the index page.
    var isIndex: Bool { bytes.isEmpty || bytes.elementsEqual("index.html".utf8) }

    /// Whether Cordova's server never responds with a page: browsers request the icon themselves, and files of the
    /// device do not belong to a client.
    var isNeverPage: Bool { bytes.elementsEqual("favicon.ico".utf8) || bytes.starts(with: "local-filesystem".utf8) }

    /// The part after the last slash.
    var lastComponent: ArraySlice<UInt8> {
        bytes[(bytes.lastIndex(of: HTTPBytes.slash).map { $0 + 1 } ?? 0)...]
    }

    /// Whether the last component contains a dot, as file names do and addresses inside an application do not.
    var hasExtension: Bool { lastComponent.contains(UInt8(ascii: ".")) }
}

/// The rules that every request has to pass: pages of other origins and other host names of this machine receive
/// nothing.
struct RequestRules: Sendable {
    private let hosts: [[UInt8]]
    private let origins: [[UInt8]]

    init(port: Int) {
        hosts = ["127.0.0.1", "localhost"].map { Array("\($0):\(port)".utf8) }
        origins = hosts.map { Array("http://".utf8) + $0 }
    }

    /// Returns the reason why a request is rejected, whatever its path; nil if it is accepted.
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

    /// Returns whether the request comes from a page of this server and states its origin.
    func isFromOurPage(_ request: Request) -> Bool {
        host(of: request).map { isOurs(request, $0) } ?? false
    }

    /// Returns the index of the host name that the request was sent to; nil for another name, for none and for two.
    private func host(of request: Request) -> Int? {
        guard !request.head.repeatsHost,
            let host = request.with(.host, { host in hosts.firstIndex { $0.elementsEqual(host) } }) ?? nil
        else { return nil }
        let matches = request.withTarget { authority, _ in authority.map { hosts[host].elementsEqual($0) } ?? true }
        return matches ? host : nil
    }

    /// Returns whether the origin matches the host name of the request.
    private func isOurs(_ request: Request, _ host: Int) -> Bool {
        request.with(.origin) { origins[host].elementsEqual($0) } ?? false
    }

    /// Returns whether a user navigates from another site to a page of this server: not into a frame, and not to a
    /// file that is not a page.
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

/// The decision on a page's call by its head, before the body is read.
enum PageCall: Equatable {
    static let longestBody = 64 << 10

    case accepted(token: String)
    case refused(Status)

    init(_ request: Request, isFromOurPage: Bool) {
        self = .refused(.forbidden)
        guard isFromOurPage, let token = request.text(.token), !token.isEmpty else { return }
        let expects = request.has(.expect) && !request.head.isOldVersion
        switch request.head.bodyLength {
        case _ where !request.isJSON: self = .refused(.unsupportedMediaType)
        case nil: self = .refused(.lengthRequired)
        case let length? where length > Self.longestBody: self = .refused(.bodyTooLarge)
        case _ where expects && !request.expectsContinue: self = .refused(.expectationFailed)
        default: self = .accepted(token: token)
        }
    }
}
