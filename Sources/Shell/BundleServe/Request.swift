package import BundleValues
package import NIOCore

/// One request: its head, the bytes of the head, and its body.
package struct Request: Sendable {
    package let head: RequestHead
    package let body: RequestBody
    /// The last navigation on the same connection, for clients without cookies.
    let lastNavigation: Navigation?
    private let bytes: ByteBuffer

    init(_ head: RequestHead, _ bytes: ByteBuffer, _ body: RequestBody, after lastNavigation: Navigation?) {
        self.head = head
        self.bytes = bytes
        self.body = body
        self.lastNavigation = lastNavigation
    }

    var isHead: Bool { head.method == .head }

    /// Whether a body follows the head.
    package var hasBody: Bool { head.bodyLength ?? 0 > 0 }

    /// Whether the client waits for `100 Continue` before it sends the body.
    package var expectsContinue: Bool {
        !head.isOldVersion && with(.expect) { HTTPBytes.areSame($0, "100-continue") } ?? false
    }

    /// Whether the client declares the body as JSON.
    package var isJSON: Bool {
        with(.contentType) { value in
            let type = HTTPBytes.trimmed(UnsafeRawBufferPointer(rebasing: value.prefix { $0 != UInt8(ascii: ";") }))
            guard type.count == 16, type[11] == HTTPBytes.slash else { return false }
            return HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: type[..<11]), "application")
                && HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: type[12...]), "json")
        } ?? false
    }

    /// Whether another request may follow on the connection.
    var keepsOpen: Bool { !head.wantsClose && !head.isOldVersion }

    package func has(_ field: RequestHead.Field) -> Bool { head[field] != nil }

    /// Calls `body` with the value of a field. Returns nil if the field is absent.
    package func with<Answer>(_ field: RequestHead.Field, _ body: (UnsafeRawBufferPointer) -> Answer) -> Answer? {
        head[field].map { with($0, body) }
    }

    func has(_ field: RequestHead.Field, _ value: StaticString) -> Bool {
        with(field) { HTTPBytes.areEqual($0, value) } ?? false
    }

    func text(_ field: RequestHead.Field) -> String? {
        with(field) { String(decoding: $0, as: UTF8.self) }
    }

    /// Calls `body` with the path of the target, without its query, and the authority of a target in absolute form.
    package func withTarget<Answer>(
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

    /// The query with its question mark; empty if there is none.
    package var query: Substring { wholeTarget.drop { $0 != "?" } }

    /// The method as the client sent it, cut to 16 characters.
    var methodName: String {
        let name = bytes.readableBytesView.prefix { $0 != HTTPBytes.space }
        return String(decoding: name.prefix(16), as: UTF8.self)
    }

    /// The target with its query.
    package var wholeTarget: String { with(head.target) { String(decoding: $0, as: UTF8.self) } }

    /// All fields in order, including those that the head does not record.
    package var allFields: [(name: String, value: String)] {
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

/// The body of a request. The client keeps it until the service reads it.
package struct RequestBody: Sendable {
    package let channel: any Channel
    private let connection: NIOLoopBound<Connection>

    init(_ connection: Connection, _ channel: any Channel) {
        self.channel = channel
        self.connection = NIOLoopBound(connection, eventLoop: channel.eventLoop)
    }

    /// Reads the whole body, whose length the service has checked. Throws `NoBufferSpace`, or an error if the client
    /// has closed the connection.
    package func read() async throws -> [UInt8] {
        let promise = channel.eventLoop.makePromise(of: [UInt8].self)
        channel.eventLoop.execute { [connection] in connection.value.readBody(promise) }
        return try await promise.futureResult.get()
    }
}

/// The bodies of other requests use all buffer space.
package struct NoBufferSpace: Error {}

/// The service that responds to the requests of one server.
package protocol Service: AnyObject, Sendable {
    var limits: ServerLimits { get }
    var fields: ResponseFields { get }
    /// Receives every response, on the server's thread; nil disables the log.
    var log: (@Sendable (AccessEntry) -> Void)? { get }

    /// Responds to a request. It starts on the server's thread, so a response that does not wait is sent at once.
    /// Long work belongs into `elsewhere`.
    nonisolated(nonsending) func respond(to request: Request) async -> Response
}

extension Service {
    package var log: (@Sendable (AccessEntry) -> Void)? { nil }

    /// Runs long work outside the server's thread.
    package nonisolated(nonsending) func elsewhere<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        // The high priority keeps pages from waiting for background work of the process.
        try await Task(priority: .high, operation: work).value
    }
}

/// One response, for a log. It contains no fields and no queries, so it is not secret.
package struct AccessEntry: Sendable {
    /// The address of the client.
    package let peer: String
    /// The method, or `-` for an unreadable request.
    package let method: String
    /// The path as the client sent it, escaped to one line; `-` for an unreadable request.
    package let path: String
    /// The time at which the request was complete.
    package let time = Timestamp.now
    /// The status; 0 if there was no response.
    package internal(set) var status = 0
    /// The bytes of the response without its head.
    package internal(set) var bytes = 0
    /// The time from the request until the kernel accepted the last byte of the response.
    package private(set) var milliseconds = 0
    /// Whether the connection ended before the response was complete.
    package private(set) var isCut = false

    private let begin = NIODeadline.now()

    init(_ request: Request?, from peer: String?) {
        self.peer = peer ?? "-"
        method = request?.methodName ?? "-"
        path = request.map { $0.withTarget { UntrustedName.display($1) } } ?? "-"
    }

    func ended(isCut: Bool) -> AccessEntry {
        var entry = self
        entry.isCut = isCut
        entry.milliseconds = Int((NIODeadline.now() - begin).nanoseconds / 1_000_000)
        return entry
    }

    /// The entry as a line.
    package var line: String {
        "\(time) \(peer) \(method) \(path) \(status) \(bytes) \(milliseconds)ms\(isCut ? " cut" : "")"
    }
}
