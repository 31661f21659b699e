import BundleFormats
package import BundleValues
import CLibrary
package import NIOCore

/// The response of a service to one request. The connection writes it.
package struct Response: Sendable {
    /// The body. The connection sends no body in response to a HEAD.
    enum Body: Sendable {
        case none
        case bytes(ByteBuffer)
        /// A part of an open file, which the kernel sends.
        case file(OpenFile, Range<Int>)
        /// The events of a page, each sent when the kernel has accepted the one before. The connection ends with
        /// them. A page has one stream; a new stream ends the former one.
        case events(AsyncStream<PageEvent>, page: String)
        /// The connection is a WebSocket afterwards.
        case socket(SocketSwitch)
    }

    let status: Int
    /// The fields besides those of every response, and the empty line.
    let fields: ByteBuffer
    let body: Body
    /// Whether the connection ends with the response. An unread body ends it as well.
    var closes = false
    /// Whether `fields` contain the content security policy, instead of that of every response.
    package var hasPolicy = false
    /// The navigation of this response, for later requests on the connection.
    var navigation: Navigation?

    /// Creates a response. `fields` end with the empty line.
    init(_ status: Status, fields: ByteBuffer, _ body: Body = .none) {
        self.init(number: status.rawValue, fields: fields, body)
    }

    private init(number: Int, fields: ByteBuffer, _ body: Body) {
        status = number
        self.fields = fields
        self.body = body
    }

    /// Creates a response with bytes of a type. Each of `fields` has its line end.
    package init(_ status: Status, type: String, caching: String, fields: String = "", _ bytes: ByteBuffer) {
        self.init(number: status.rawValue, type: type, caching: caching, fields: fields, bytes)
    }

    private init(number: Int, type: String, caching: String, fields: String, _ bytes: ByteBuffer) {
        let head = ByteBuffer(
            string: """
                \(fields)Content-Type: \(type)\r
                Cache-Control: \(caching)\r
                Content-Length: \(bytes.readableBytes)\r\n\r\n
                """)
        self.init(number: number, fields: head, .bytes(bytes))
    }

    /// The length of the body, or 0 if it is unknown.
    var length: Int {
        switch body {
        case .bytes(let bytes): bytes.readableBytes
        case .file(_, let part): part.count
        case .none, .events, .socket: 0
        }
    }

    /// The same response with `closes` set.
    package var closing: Response {
        var response = self
        response.closes = true
        return response
    }

    /// The same response, whose own fields contain the content security policy.
    package var withOwnPolicy: Response {
        var response = self
        response.hasPolicy = true
        return response
    }

    // MARK: Short responses

    /// Returns a response with a line of text, or without text, that caches do not store.
    package static func text(_ status: Status, _ text: String, fields: String = "") -> Response {
        let line = text.isEmpty ? ByteBuffer() : ByteBuffer(string: text + "\n")
        return Response(status, type: MediaType.text, caching: Caching.never, fields: fields, line)
    }

    /// Returns a refusal, whose text is the reason phrase.
    package static func refusal(_ status: Status, fields: String = "") -> Response {
        text(status, "\(status.reason)", fields: fields + (status == .headTooLarge ? fewerCookies : ""))
    }

    /// Deletes the cookies, because they outlive the client that set them, and too many would block every other
    /// client.
    private static var fewerCookies: String { "Clear-Site-Data: \"cookies\"\r\nRefresh: 1\r\n" }

    package static func json(_ object: JSONObject, caching: String) -> Response {
        json(number: Status.ok.rawValue, object, caching: caching)
    }

    /// Returns a refusal as JSON. `status` may be one that only the host defines.
    package static func error(
        _ status: Int, code: String, message: String
    ) -> Response {
        refusal(CallRefusal(status: status, code: code, message: message))
    }

    static func refusal(_ refusal: CallRefusal) -> Response {
        json(number: refusal.status, ["error": .object(refusal.members)], caching: Caching.never)
    }

    private static func json(number: Int, _ object: JSONObject, caching: String) -> Response {
        let bytes = ByteBuffer(bytes: JSONWriter.bytes(of: .object(object)))
        return Response(number: number, type: MediaType.json, caching: caching, fields: "", bytes)
    }
}

/// The files of a navigation, and the host's generation at that time.
struct Navigation: Sendable {
    let site: Site
    let generation: Int
}

extension PageEvent {
    /// The event in the format of the HTML standard. One-line JSON needs no escapes.
    var text: ByteBuffer {
        var text = ByteBuffer()
        let line = name.utf8.prefix { $0 >= 0x20 }
        if let id { text.writeString("id: \(id)\n") }
        text.writeString("event: \(String(decoding: line, as: UTF8.self))\ndata: ")
        text.writeBytes(JSONWriter.bytes(of: .object(data)))
        text.writeStaticString("\n\n")
        return text
    }
}

/// The status line and the fields of every response.
package struct ResponseFields: Sendable {
    private let common: [UInt8]
    private let hasDate: Bool
    /// The fields of a response with a separate policy.
    private let withoutPolicy: [UInt8]
    /// The start of most responses, shared and never modified.
    private let ok: ByteBuffer

    init(_ policies: PagePolicies, allowsFraming: Bool) throws(PolicyRefusal) {
        hasDate = false
        common =
            Array(
                """
                X-Content-Type-Options: nosniff\r
                Referrer-Policy: no-referrer\r
                \(try policies.fields)
                """.utf8)
            // With framing, only the policy restricts frames.
            + (allowsFraming ? [] : Array("X-Frame-Options: DENY\r\n".utf8))
        withoutPolicy = common
        ok = Self.start(Status.ok.rawValue, common, closes: false)
    }

    /// Creates the fields of a server for programs: browsers must not show its files, and shared caches may store
    /// them.
    package init() {
        hasDate = true
        common = Array(
            """
            X-Content-Type-Options: nosniff\r
            Content-Security-Policy: default-src 'none'; sandbox\r\n
            """.utf8)
        withoutPolicy = Array(
            "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n".utf8)
        ok = Self.start(Status.ok.rawValue, common, closes: false)
    }

    /// Returns the status line and the common fields, without the empty line. The status may be one that only the
    /// host defines.
    func start(_ status: Int, closes: Bool, hasPolicy: Bool = false) -> ByteBuffer {
        var head =
            status == Status.ok.rawValue && !closes && !hasPolicy
            ? ok : Self.start(status, hasPolicy ? withoutPolicy : common, closes: closes)
        if hasDate { head.writeString("Date: \(HTTPDate.text(time(nil)))\r\n") }
        return head
    }

    private static func start(_ status: Int, _ common: [UInt8], closes: Bool) -> ByteBuffer {
        let reason = Status(rawValue: status).map { "\($0.reason)" } ?? ""
        var head = ByteBuffer(string: "HTTP/1.1 \(status) \(reason)\r\n")
        head.writeBytes(common)
        if closes { head.writeStaticString("Connection: close\r\n") }
        return head
    }
}

/// Dates in the format of HTTP (RFC 9110, section 5.6.7).
enum HTTPDate {
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    static func text(_ time: time_t) -> String {
        var (time, parts) = (time, tm())
        gmtime_r(&time, &parts)
        func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let clock = [parts.tm_hour, parts.tm_min, parts.tm_sec].map(padded).joined(separator: ":")
        return "\(days[Int(parts.tm_wday)]), \(padded(parts.tm_mday)) \(months[Int(parts.tm_mon)]) "
            + "\(parts.tm_year + 1900) \(clock) GMT"
    }
}

/// The statuses of the server's responses.
package enum Status: Int, Sendable {
    case switchingProtocols = 101
    case ok = 200
    case partialContent = 206
    case notModified = 304
    case seeOther = 303
    case permanentRedirect = 308
    case badRequest = 400
    case unauthorized = 401
    case forbidden = 403
    case notFound = 404
    case methodNotAllowed = 405
    case lengthRequired = 411
    case conflict = 409
    case preconditionFailed = 412
    case bodyTooLarge = 413
    case uriTooLong = 414
    case unsupportedMediaType = 415
    case rangeNotSatisfiable = 416
    case expectationFailed = 417
    case misdirected = 421
    case upgradeRequired = 426
    case tooManyRequests = 429
    case headTooLarge = 431
    case failed = 500
    case badGateway = 502
    case unavailable = 503
    case versionNotSupported = 505
    case insufficientStorage = 507

    /// The reason phrase, which is also the text of a refusal.
    var reason: StaticString {
        switch self {
        case .switchingProtocols: "Switching Protocols"
        case .ok: "OK"
        case .partialContent: "Partial Content"
        case .notModified: "Not Modified"
        case .seeOther: "See Other"
        case .permanentRedirect: "Permanent Redirect"
        case .badRequest: "Bad Request"
        case .unauthorized: "Unauthorized"
        case .forbidden: "Forbidden"
        case .notFound: "Not Found"
        case .methodNotAllowed: "Method Not Allowed"
        case .conflict: "Conflict"
        case .lengthRequired: "Length Required"
        case .preconditionFailed: "Precondition Failed"
        case .bodyTooLarge: "Content Too Large"
        case .uriTooLong: "URI Too Long"
        case .unsupportedMediaType: "Unsupported Media Type"
        case .rangeNotSatisfiable: "Range Not Satisfiable"
        case .expectationFailed: "Expectation Failed"
        case .tooManyRequests: "Too Many Requests"
        case .misdirected: "Misdirected Request"
        case .upgradeRequired: "Upgrade Required"
        case .headTooLarge: "Request Header Fields Too Large"
        case .failed: "Internal Server Error"
        case .badGateway: "Bad Gateway"
        case .insufficientStorage: "Insufficient Storage"
        case .unavailable: "Service Unavailable"
        case .versionNotSupported: "HTTP Version Not Supported"
        }
    }
}
