/// How `LoopbackServer` answers one path.
package struct Route: Sendable {
    /// The bytes after the header block.
    package enum Body: Sendable {
        /// These bytes.
        case bytes([UInt8])
        /// The same kilobyte for ever, until the client has enough.
        case endless
    }

    /// What the header block says about the length of the body.
    package enum Framing: Sendable {
        /// Content-Length with the true number; nothing for an endless body.
        case honest
        /// Content-Length with this number, true or not.
        case stated(String)
        /// Transfer-Encoding: chunked, in chunks of at most 1 KiB.
        case chunked
        /// Neither: the end of the connection ends the body.
        case untilClose
        /// Neither, and no body: for 204 and 304.
        case none
    }

    /// How the body is sent.
    package enum Pace: Sendable {
        /// As fast as the client takes it.
        case full
        /// Nothing more after this many bytes of the body, with the connection open.
        case stall(after: Int)
        /// The rest comes when the gate opens.
        case held(after: Int, Gate)
        /// The connection is closed after this many bytes of the body.
        case cut(after: Int)
        /// This many bytes, then a pause, for ever.
        case drip(bytes: Int, everyMilliseconds: Int32)
        /// After the body, what a test feeds, as it comes; the connection ends with the feed.
        case fed(Feed)
    }

    /// The status; the server adds a reason phrase of its own.
    package var status = 200
    /// Extra header lines, in order, as they are.
    package var headers: [(name: String, value: String)] = []
    /// The body.
    package var body: Body
    /// The word about its length.
    package var framing: Framing = .honest
    /// How it is sent.
    package var pace: Pace = .full
    /// Sent in place of everything else, when set.
    package var raw: [UInt8]?
    /// Has the connection to itself behind the head, where it is set; it ends when this returns.
    package var takeover: (@Sendable (TakenConnection) -> Void)?
    /// When set, the answer is a resource with this entity tag: Range, If-Range and If-None-Match are honoured.
    package var entityTag: String?
    /// The like with a Last-Modified date.
    package var lastModified: String?
    /// How the field with the entity tag is written.
    package var entityTagName = "ETag"
    /// Whether the body stays away, as in the answer to a HEAD; the head is the same.
    package var isHeadOnly = false
    /// Nothing at all is sent before this time is over.
    package var delayMilliseconds: Int32 = 0
    /// Nothing at all is sent before it opens.
    package var gate: Gate?

    /// An answer with these bytes, honest and fast unless changed.
    package init(_ bytes: [UInt8] = [], status: Int = 200) {
        body = .bytes(bytes)
        self.status = status
    }

    /// A redirect, with a short body of its own.
    package static func redirect(to location: String, status: Int = 302) -> Route {
        var route = Route(Array("moved".utf8), status: status)
        route.headers = [("Location", location)]
        return route
    }

    /// A resource that can be resumed.
    package static func resource(_ bytes: [UInt8], entityTag: String?, lastModified: String? = nil) -> Route {
        var route = Route(bytes)
        route.entityTag = entityTag
        route.lastModified = lastModified
        return route
    }

    /// The same answer, changed.
    package func with(_ change: (inout Route) -> Void) -> Route {
        var changed = self
        change(&changed)
        return changed
    }

    /// The route with a range or a condition worked in: 206, 304, 416, or itself.
    func answering(_ request: LoopbackServer.Request) -> Route {
        guard entityTag != nil || lastModified != nil, case .bytes(let bytes) = body else { return self }
        var answer = self
        if let entityTag { answer.headers.append((entityTagName, entityTag)) }
        if let lastModified { answer.headers.append(("Last-Modified", lastModified)) }
        if let entityTag, request["If-None-Match"] == entityTag {
            answer.status = 304
            answer.body = .bytes([])
            answer.framing = .none
            return answer
        }
        let condition = request["If-Range"]
        guard let range = request["Range"].flatMap({ Self.range($0, of: bytes.count) }),
            condition == nil || condition == entityTag ?? lastModified
        else { return answer }
        guard !range.isEmpty else {
            answer.status = 416
            answer.headers.append(("Content-Range", "bytes */\(bytes.count)"))
            answer.body = .bytes([])
            return answer
        }
        answer.status = 206
        answer.headers.append(("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(bytes.count)"))
        answer.body = .bytes(Array(bytes[range]))
        return answer
    }

    /// The one range of `bytes=a-b`, `bytes=a-` or `bytes=-n`, empty where there is none such; nil for any other text.
    private static func range(_ text: String, of count: Int) -> Range<Int>? {
        guard text.hasPrefix("bytes=") else { return nil }
        let ends = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let end = ends.last else { return nil }
        guard let first = ends.first, !first.isEmpty else {
            return Int(end).map { max(0, count - $0)..<count }
        }
        guard let start = Int(first) else { return nil }
        guard start < count else { return count..<count }
        guard !end.isEmpty else { return start..<count }
        return Int(end).flatMap { $0 < start ? nil : start..<min($0 + 1, count) }
    }
}
