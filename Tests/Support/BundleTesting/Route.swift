/// The response of `LoopbackServer` to a path.
package struct Route: Sendable {
    /// The body of a response.
    package enum Body: Sendable {
        case bytes([UInt8])
        /// The same kilobyte repeated until the client disconnects.
        case endless
    }

    /// The stated length of the body.
    package enum Framing: Sendable {
        /// Content-Length with the correct number; nothing for an endless body.
        case honest
        /// Content-Length with this text.
        case stated(String)
        /// Transfer-Encoding: chunked, in chunks of at most 1 KiB.
        case chunked
        /// No length. The end of the connection ends the body.
        case untilClose
        /// No length and no body, for 204 and 304.
        case none
    }

    /// The speed and end of the body.
    package enum Pace: Sendable {
        /// As fast as the client reads.
        case full
        /// Stops after this many bytes and keeps the connection open.
        case stall(after: Int)
        /// Sends the rest when the gate opens.
        case held(after: Int, Gate)
        /// Closes the connection after this many bytes.
        case cut(after: Int)
        /// Sends this many bytes at a time with pauses.
        case drip(bytes: Int, everyMilliseconds: Int32)
        /// Sends the pieces of the feed after the body. The connection ends with the feed.
        case fed(Feed)
    }

    /// The status; the server adds the reason phrase.
    package var status = 200
    /// More header lines in order.
    package var headers: [(name: String, value: String)] = []
    package var body: Body
    package var framing: Framing = .honest
    package var pace: Pace = .full
    /// Bytes that are sent instead of everything else.
    package var raw: [UInt8]?
    /// Receives the connection after the head. The connection ends when it returns.
    package var takeover: (@Sendable (TakenConnection) -> Void)?
    /// The entity tag of a resource with support for Range, If-Range and If-None-Match.
    package var entityTag: String?
    /// The Last-Modified date of such a resource.
    package var lastModified: String?
    /// The spelling of the header with the entity tag.
    package var entityTagName = "ETag"
    /// Whether the body is omitted, as in the response to a HEAD request.
    package var isHeadOnly = false
    /// The delay before the first byte.
    package var delayMilliseconds: Int32 = 0
    /// A gate that must open before the first byte.
    package var gate: Gate?

    /// Creates a response with these bytes.
    package init(_ bytes: [UInt8] = [], status: Int = 200) {
        body = .bytes(bytes)
        self.status = status
    }

    /// Creates a redirect with a short body.
    package static func redirect(to location: String, status: Int = 302) -> Route {
        var route = Route(Array("moved".utf8), status: status)
        route.headers = [("Location", location)]
        return route
    }

    /// Creates a resource that can be resumed.
    package static func resource(_ bytes: [UInt8], entityTag: String?, lastModified: String? = nil) -> Route {
        var route = Route(bytes)
        route.entityTag = entityTag
        route.lastModified = lastModified
        return route
    }

    /// Returns a changed copy.
    package func with(_ change: (inout Route) -> Void) -> Route {
        var changed = self
        change(&changed)
        return changed
    }

    /// Returns the response to a range or conditional request: 206, 304, 416, or this route.
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

    /// Parses one range in the form `bytes=a-b`, `bytes=a-` or `bytes=-n`. The result is empty if it is out of bounds,
    /// and nil for any other text.
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
