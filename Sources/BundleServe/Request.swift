import NIOCore
import NIOHTTP1

/// One request: its head, and what can be had of its connection.
struct Request: Sendable {
    let head: RequestHead
    let body: RequestBody
    /// The last navigation on the same connection, for clients that keep no cookies.
    let lastNavigation: Navigation?

    var isHead: Bool { head.method == .HEAD }

    /// Whether bytes follow the head that are not the next request.
    var hasBody: Bool { head.bodyLength ?? 0 > 0 }

    /// Whether the client waits for a word before it sends the body.
    var expectsContinue: Bool {
        !head.isOldVersion && with(.expect) { HTTPBytes.areSame($0, "100-continue") } ?? false
    }

    func has(_ field: RequestHead.Field) -> Bool { head.has(field) }

    /// Lends a field's value; nil when it did not come.
    func with<Value>(_ field: RequestHead.Field, _ body: (UnsafeRawBufferPointer) -> Value) -> Value? {
        head.with(field, body)
    }

    func has(_ field: RequestHead.Field, _ value: StaticString) -> Bool {
        with(field) { HTTPBytes.areEqual($0, value) } ?? false
    }

    func text(_ field: RequestHead.Field) -> String? {
        with(field) { String(decoding: $0, as: UTF8.self) }
    }

    /// Lends the target in origin form up to its query, and the authority before it when it came in absolute form.
    func withTarget<Value>(
        _ body: (_ authority: UnsafeRawBufferPointer?, _ path: UnsafeRawBufferPointer) -> Value
    ) -> Value {
        var target = head.target
        return target.withUTF8 { bytes in
            let target = UnsafeRawBufferPointer(bytes)
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
    var hasQuery: Bool { !head.target.utf8.drop { $0 != UInt8(ascii: "?") }.dropFirst().isEmpty }

    // MARK: Pages

    /// Whether a page is asked for, and not a part of one.
    var isNavigation: Bool {
        head.acceptsHTML || has(.fetchMode, "navigate") || has(.fetchDestination, "document")
    }

    /// Whether the page, which is the index page, will be shown as a client of its own.
    ///
    /// Whoever gets its bytes shows it, unless it says otherwise: a HEAD shows nothing, and a script that asks for HTML would get
    /// the token of another launch than its own; browsers tell it apart, and so a frame, and what is fetched in advance.
    var startsLaunch: Bool {
        head.method == .GET && !has(.fetchPurpose) && (!has(.fetchMode) || has(.fetchMode, "navigate"))
            && (!has(.fetchDestination) || has(.fetchDestination, "document"))
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
