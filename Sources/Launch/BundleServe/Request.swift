import NIOCore

/// One request: its head, the bytes that the head's places are in, and what can be had of its connection.
struct Request: Sendable {
    let head: RequestHead
    let body: RequestBody
    /// The last navigation on the same connection, for clients that keep no cookies.
    let lastNavigation: Navigation?
    private let bytes: ByteBuffer

    init(_ head: RequestHead, _ bytes: ByteBuffer, _ body: RequestBody, after lastNavigation: Navigation?) {
        self.head = head
        self.bytes = bytes
        self.body = body
        self.lastNavigation = lastNavigation
    }

    var isHead: Bool { head.method == .head }

    /// Whether bytes follow the head that are not the next request.
    var hasBody: Bool { head.bodyLength ?? 0 > 0 }

    /// Whether the client waits for a word before it sends the body.
    var expectsContinue: Bool {
        !head.isOldVersion && with(.expect) { HTTPBytes.areSame($0, "100-continue") } ?? false
    }

    /// Whether another request may follow on the connection.
    var keepsOpen: Bool { !head.wantsClose && !head.isOldVersion }

    func has(_ field: RequestHead.Field) -> Bool { head[field] != nil }

    /// Lends a field's value; nil when it did not come.
    func with<Answer>(_ field: RequestHead.Field, _ body: (UnsafeRawBufferPointer) -> Answer) -> Answer? {
        head[field].map { with($0, body) }
    }

    func has(_ field: RequestHead.Field, _ value: StaticString) -> Bool {
        with(field) { HTTPBytes.areEqual($0, value) } ?? false
    }

    func text(_ field: RequestHead.Field) -> String? {
        with(field) { String(decoding: $0, as: UTF8.self) }
    }

    /// Lends the target in origin form up to its query, and the authority before it when it came in absolute form.
    func withTarget<Answer>(
        _ body: (_ authority: UnsafeRawBufferPointer?, _ path: UnsafeRawBufferPointer) -> Answer
    ) -> Answer {
        with(head.target) { target in
            var path = target
            var authority: UnsafeRawBufferPointer?
            if target.first != HTTPBytes.slash, target.count > 7,
                HTTPBytes.areEqual(UnsafeRawBufferPointer(rebasing: target[..<7]), "http://")
            {
                let rest = target[7...]
                let end = rest.firstIndex { $0 == HTTPBytes.slash || $0 == UInt8(ascii: "?") } ?? rest.endIndex
                authority = UnsafeRawBufferPointer(rebasing: rest[..<end])
                path = UnsafeRawBufferPointer(rebasing: rest[end...])
            }
            let query = path.firstIndex(of: UInt8(ascii: "?")) ?? path.endIndex
            return body(authority, UnsafeRawBufferPointer(rebasing: path[..<query]))
        }
    }

    /// Whether the target has a query with something in it.
    var hasQuery: Bool {
        with(head.target) { target in
            target.firstIndex(of: UInt8(ascii: "?")).map { $0 + 1 < target.endIndex } ?? false
        }
    }

    /// The method as it was written, cut where no method is that long.
    var methodName: String {
        let name = bytes.readableBytesView.prefix { $0 != HTTPBytes.space }
        return String(decoding: name.prefix(16), as: UTF8.self)
    }

    /// The target with its query.
    var wholeTarget: String { with(head.target) { String(decoding: $0, as: UTF8.self) } }

    /// All fields in their order; for the rare reader who needs others than the head tells of.
    var allFields: [(name: String, value: String)] {
        bytes.readableBytesView.split(separator: HTTPBytes.lineFeed).dropFirst().compactMap { line in
            guard let colon = line.firstIndex(of: HTTPBytes.colon) else { return nil }
            let value = line[(colon + 1)...].withUnsafeBytes { value in
                String(decoding: HTTPBytes.trimmed(UnsafeRawBufferPointer(rebasing: value.dropLast())), as: UTF8.self)
            }
            return (String(decoding: line[..<colon], as: UTF8.self), value)
        }
    }

    private func with<Answer>(_ place: Range<Int>, _ body: (UnsafeRawBufferPointer) -> Answer) -> Answer {
        bytes.withUnsafeReadableBytes { body(UnsafeRawBufferPointer(rebasing: $0[place])) }
    }
}

/// The body of a request, which waits at its client until a service wants it.
struct RequestBody: Sendable {
    let channel: any Channel
    private let connection: NIOLoopBound<Connection>

    init(_ connection: Connection, _ channel: any Channel) {
        self.channel = channel
        self.connection = NIOLoopBound(connection, eventLoop: channel.eventLoop)
    }

    /// Reads all of it; the service has looked at its length before. Throws when the client has gone.
    func read() async throws -> [UInt8] {
        let promise = channel.eventLoop.makePromise(of: [UInt8].self)
        channel.eventLoop.execute { [connection] in connection.value.readBody(promise) }
        return try await promise.futureResult.get()
    }
}
