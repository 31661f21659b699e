package import BundleValues
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

    /// The query with its question mark; empty without one.
    var query: Substring { wholeTarget.drop { $0 != "?" } }

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

    /// Reads all of it; the service has looked at its length before. Throws `NoRoomForBody`, and when the client has gone.
    func read() async throws -> [UInt8] {
        let promise = channel.eventLoop.makePromise(of: [UInt8].self)
        channel.eventLoop.execute { [connection] in connection.value.readBody(promise) }
        return try await promise.futureResult.get()
    }
}

/// The bodies of other requests have all the room that there is for them.
struct NoRoomForBody: Error {}

/// What answers the requests of one server.
protocol Service: AnyObject, Sendable {
    var limits: ServerLimits { get }
    var fields: ResponseFields { get }
    /// Told of every response, on the server's thread; nil where nobody wants to know.
    var log: (@Sendable (AccessEntry) -> Void)? { get }

    /// The response to a request. Starts on the server's thread, so that what needs no wait is answered without one; what may
    /// take long is somebody else's to do (`elsewhere`).
    nonisolated(nonsending) func respond(to request: Request) async -> Response
}

extension Service {
    var log: (@Sendable (AccessEntry) -> Void)? { nil }

    /// Lets somebody work who may take a while, and not on the server's thread.
    nonisolated(nonsending) func elsewhere<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        // A page does not wait for what the process does in the background.
        try await Task(priority: .high, operation: work).value
    }
}

/// One response, for a log: nothing of it is secret. Neither fields nor queries are in it.
package struct AccessEntry: Sendable {
    /// The address that asked.
    package let peer: String
    /// The method, or `-` where the request could not be read.
    package let method: String
    /// The path as it was written, on one line that cannot be taken for another; `-` where it could not be read.
    package let path: String
    /// When the request was there.
    package let time = Timestamp.now
    /// The status; 0 where there was no response.
    package internal(set) var status = 0
    /// The bytes of the response without its head.
    package internal(set) var bytes = 0
    /// From the request to the kernel's having the last byte of its response.
    package private(set) var milliseconds = 0
    /// Whether the connection ended before the response did.
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

    /// The entry as one line.
    package var line: String {
        "\(time) \(peer) \(method) \(path) \(status) \(bytes) \(milliseconds)ms\(isCut ? " cut" : "")"
    }
}
